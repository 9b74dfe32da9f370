"""config.json of a run as it is read back, every part checked like an option: people and strangers edit it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from calql.system.errors import UserError, of_system
from calql.system.run_files import CHECKPOINTS, CONFIG, FILMS, PLOTS, POLICY, POLICY_AT_SWITCH, TENSORBOARD

Options = TypeVar("Options")
PARTS = {"choice": dict, "run": dict, "options": dict, "dataset": dict, "seeds": list, "task": str, "method": str}
SINCE = {"origins": dict}  # which runs of before lack

WRITTEN_INSIDE = (
    CHECKPOINTS,
    POLICY,
    POLICY_AT_SWITCH,
    PLOTS,
    FILMS,
    TENSORBOARD,
)  # folders of a run folder that are written to


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json holds, with the parts that a run is built from in place and of the right kind."""
    path = folder / CONFIG
    config = read_object(path)
    refuse_links(folder)
    for name in PARTS:
        if name not in config:
            raise damaged(path, f"has no '{name}'")
    check_parts(config, path)
    if not config["seeds"] or not isinstance(config["dataset"].get("fingerprint"), str):
        raise damaged(path, "has no seed, or no fingerprint of the dataset")
    return config


def refuse_links(folder: Path) -> None:
    """A run folder is its own: what is written or deleted through a link in it would be somebody else's file."""
    inside = [path for name in WRITTEN_INSIDE for path in (folder / name).rglob("*")]
    for path in (*folder.iterdir(), *inside):
        if path.is_symlink():
            raise UserError(
                "is a symbolic link, and links in a run folder are not followed",
                where=str(path),
                mend="put the file itself there; to keep a run elsewhere, link to its whole folder",
            )


def check_parts(config: Mapping[str, Any], path: Path) -> None:
    """Refuse parts of another kind than a run writes; a report makes do without those that are missing."""
    for name, kind in (PARTS | SINCE).items():
        if name in config and not isinstance(config[name], kind):
            raise damaged(path, f"has {type(config[name]).__name__} as '{name}' and not {kind.__name__}")
    for seed in config.get("seeds", []):
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise damaged(path, f"has {json.dumps(seed)} among its 'seeds'")


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object in a file of a run folder."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(
            f"is not a run folder (no {path.name})",
            where=str(path.parent),
            mend="name a folder that 'calql train' made",
        ) from None
    except OSError as error:
        raise of_system(error, str(path)) from None
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"is not valid JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise damaged(path, "is not a JSON object")
    return found


def options_from(
    kind: type[Options], part: str, config: Mapping[str, Any], folder: Path, file: str = CONFIG
) -> Options:
    """A dataclass of options from one part of the config; JSON has lists where options have tuples.

    An option that the file lacks keeps its default: it came with a later version, whose default is the old behaviour.
    """
    path = folder / file
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    strange = sorted(config[part].keys() - known)
    if strange:
        raise UserError(
            f"'{part}' has {', '.join(strange[:5])}, which this version does not know",
            where=str(path),
            mend=f"go on with the version that wrote it ({_version(config)}), or start a new run",
        )
    try:
        return kind(**config[part])
    except UserError as error:
        raise UserError(error.what, where=str(path), mend=error.mend) from None
    except TypeError as error:
        raise damaged(path, f"'{part}': {error}") from None


def damaged(path: Path, what: str) -> UserError:
    return UserError(what, where=str(path), mend="restore the file, or start a new run")


def _version(config: Mapping[str, Any]) -> str:
    versions = config.get("versions")
    found = versions if isinstance(versions, dict) else {}
    return f"calql {found.get('calql', '?')}, commit {str(found.get('commit', '?'))[:12]}"
