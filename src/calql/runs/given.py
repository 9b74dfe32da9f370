"""Datasets and environment factories passed as Python objects.

The data are kept in the run folder, the function is noted by where it can be imported from; what neither
serves has to be given again.
"""

from __future__ import annotations

import importlib
import json
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calql.data import Dataset
from calql.data.dataset import MASKS, Part
from calql.domains.own.tasks import MakeEnv
from calql.engine.checkpoint import as_disk_error
from calql.runs.trust import require_trusted
from calql.system.archives import read_archive
from calql.system.errors import UserError
from calql.system.files import written_whole
from calql.system.layout import Layout
from calql.system.machine import in_words
from calql.system.run_config import damaged
from calql.system.run_files import CONFIG, DATA

GIVEN = "given"  # the part of config.json
LARGE = 2**30  # bytes of data, from which on a run folder does not take them unasked
NAMES = "names"  # of what observations are made of
COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminals", "truncated")


def require_kinds(dataset: Any, env: Any) -> None:
    """What Python lets through and no file or command line would."""
    if dataset is not None and not isinstance(dataset, str | Path | Dataset):
        raise UserError(
            f"the dataset is a {type(dataset).__name__}",
            mend="give a file's name, or a calql.data.Dataset; calql.data.from_d4rl_arrays makes one of arrays by name",
        )
    if env is not None and not isinstance(env, str) and not callable(env):
        raise UserError(
            f"the environment is a {type(env).__name__}",
            mend="give its Gymnasium name, or a function without arguments that makes one",
        )


def to_keep(data: Dataset | None, asked: bool | None) -> Dataset | None:
    """The data that go into the run folder; large ones only if asked for."""
    if data is None or asked is False:
        return None
    size = sum(column.nbytes for column in _columns(data).values())
    if asked is None and size > LARGE:
        raise UserError(
            f"the dataset takes {in_words(size)}, which the run folder would keep",
            where=data.source,
            mend="say keep_data=True, or keep_data=False: then give it again to calql.resume(folder, dataset=...)",
        )
    return data


def noted(data: Dataset | None, kept: Dataset | None, env: str | MakeEnv | None) -> dict[str, Any]:
    """What config.json says of objects that were given; None: neither kept nor to be found by a name."""
    found: dict[str, str | None] = {}
    if data is not None:
        found["dataset"] = None if kept is None else DATA
    if env is not None and not isinstance(env, str):
        found["env"] = import_path(env)
    return {GIVEN: found} if found else {}


def keep(data: Dataset, folder: Path) -> None:
    """Column by column as they are; nothing is read into them when they come back."""
    try:
        with written_whole(folder / DATA) as file:
            np.savez(file, **_columns(data), **_named(data))
    except OSError as error:
        raise as_disk_error(error, folder) from error


def _columns(data: Dataset) -> dict[str, Any]:
    return {name: getattr(data, name) for name in COLUMNS} | data.masks


def _named(data: Dataset) -> dict[str, Any]:
    """What observations are made of, as bytes of words; nothing where that has no names."""
    words = {
        "parts": [list(part) for part in data.parts],
        "layout": None if data.layout is None else data.layout.in_words(),
        "camera": data.camera,
    }
    return {NAMES: np.frombuffer(json.dumps(words).encode(), np.uint8)} if any(words.values()) else {}


def _from_words(words: Mapping[str, Any]) -> dict[str, Any]:
    layout = words.get("layout")
    return {
        "parts": tuple(Part(str(name), int(start), int(stop)) for name, start, stop in words.get("parts", ())),
        "layout": None if layout is None else Layout.from_words(layout),
        "camera": str(words.get("camera", "")),
    }


def data_of(folder: Path, config: Mapping[str, Any]) -> Dataset | None:
    """The data that the run folder keeps; None for a run whose data have a name."""
    given = _given(folder, config)
    if "dataset" not in given:
        return None
    if given["dataset"] is None:
        raise UserError(
            "the data of this run were given as a Dataset and not kept",
            where=str(folder),
            mend="give them again: calql.resume(folder, dataset=...)",
        )
    try:
        known = (*COLUMNS, *MASKS, NAMES)
        arrays = read_archive(folder / DATA, lambda names: [name for name in known if name in names])
        words = json.loads(bytes(arrays.pop(NAMES))) if NAMES in arrays else {}
        return Dataset(**arrays, **_from_words(words), source=str(folder / DATA))  # type: ignore[arg-type]
    except FileNotFoundError:
        raise UserError(f"its {DATA} is gone", where=str(folder), mend="put it back, or give dataset=...") from None
    except (TypeError, ValueError, KeyError):
        raise UserError("lacks columns of a dataset", where=str(folder / DATA), mend="copy it again") from None


def env_of(folder: Path, config: Mapping[str, Any]) -> MakeEnv | None:
    """The function that makes the environment, imported again; None for a run whose environment has a name."""
    given = _given(folder, config)
    if "env" not in given:
        return None
    path = given["env"]
    if path is None:
        raise UserError(
            "the environment of this run was made by a function that cannot be imported again",
            where=str(folder),
            mend="give it again: calql.resume(folder, env=function), calql.evaluate(folder, env=function)",
        )
    require_trusted(path, folder)
    return imported(path, folder)


def import_path(make_env: MakeEnv) -> str | None:
    """`module:qualname` of a function or class at the top of a module; None where importing that gives another."""
    module, name = getattr(make_env, "__module__", None), getattr(make_env, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or module == "__main__" or "<" in name:
        return None
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if found is make_env else None


def imported(path: str, folder: Path) -> MakeEnv:
    """What the path names; importing runs the module, so it must be trusted."""
    module, _, name = path.partition(":")
    try:
        found: MakeEnv = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"its environment '{path}' cannot be imported ({error})",
            where=str(folder),
            mend="make the module importable (PYTHONPATH), or give env=function from Python",
        ) from error
    if not callable(found):
        raise damaged(folder / CONFIG, f"names '{path}' as environment, which is no function")
    return found


def _given(folder: Path, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    found = config.get(GIVEN, {})
    if not isinstance(found, dict) or not all(value is None or isinstance(value, str) for value in found.values()):
        raise damaged(folder / CONFIG, f"has a part '{GIVEN}' that is not as it is written")
    return found
