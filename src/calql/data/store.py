"""Built datasets on disk: one folder per set with its columns and a manifest; complete or not there.

A set is built in a hidden folder and renamed into place, so a reader sees all of it or nothing. What is
read back must match its manifest (recipe, version, seed, size, checksum); anything else is rebuilt.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from calql.data.dataset import MASKS, Bools, Dataset
from calql.system.cores import available_cores
from calql.system.errors import UserError
from calql.system.locks import waited_for

COLUMNS = "data.npz"
MANIFEST = "manifest.json"
VERSIONED = ("calql", "mujoco", "gymnasium", "gymnasium-robotics", "numpy")

OnProgress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


@dataclass(frozen=True)
class Source:
    """A file that a recipe starts from: looked for under the sources folder by its relative path."""

    path: str
    what: str
    origin: str  # where a user gets it


@dataclass
class BuildContext:
    """What a recipe is given: the seed decides the data, the rest only how fast they come."""

    seed: int
    size: int | None = None  # transitions asked for; None: the recipe's own size
    sources: Path | None = None
    processes: int = 1
    progress: OnProgress = lambda what, done, total: None
    used: dict[str, str] = field(default_factory=dict)  # source path -> sha256

    def has(self, source: Source) -> bool:
        return self.sources is not None and (self.sources / source.path).is_file()

    def source(self, source: Source) -> Path:
        """The file on disk; entered in the manifest."""
        if self.sources is None or not self.has(source):
            where = str(self.sources) if self.sources else "no sources folder given"
            raise UserError(
                f"missing {source.path} ({source.what}), from {source.origin}",
                where=where,
                mend="name its folder with --sources or CALQL_SOURCES",
            )
        found = self.sources / source.path
        self.used[source.path] = digest(found)
        return found


@dataclass(frozen=True)
class Recipe:
    """How a dataset is made. Raise `version` whenever the same seed would give other data."""

    name: str
    version: int
    build: Callable[[BuildContext], Dataset]
    needs: tuple[Source, ...] = ()
    summary: str = ""
    size: int | None = None  # transitions of the full set, where the recipe has a size
    success: Callable[[Dataset], Bools] | None = None  # one flag per recorded trajectory
    describe: Callable[[Dataset], Mapping[str, Any]] | None = None  # more numbers for the manifest
    variant_of: str = ""  # the task it is another composition of; empty: the task of its own name

    @property
    def task(self) -> str:
        """The task whose environment and rewards the data belong to."""
        return self.variant_of or self.name


def data_root() -> Path:
    """Where built and downloaded sets live: CALQL_DATA, or the user's cache folder."""
    named = os.environ.get("CALQL_DATA")
    return Path(named).expanduser() if named else Path(platformdirs.user_cache_dir("calql")) / "data"


def default_sources() -> Path | None:
    named = os.environ.get("CALQL_SOURCES")
    return Path(named).expanduser() if named else None


def folder(name: str, seed: int = 0, size: int | None = None) -> Path:
    """The folder of a set; another seed or size is another set."""
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise UserError(f"'{name}' cannot name a dataset", mend="use letters, digits, '-', '_' and '.'")
    return data_root() / "built" / name / (f"seed{seed}" + (f"-{size}" if size else ""))


def obtain(
    recipe: Recipe,
    *,
    seed: int = 0,
    size: int | None = None,
    sources: Path | str | None = None,
    rebuild: bool = False,
    processes: int | None = None,
    progress: OnProgress | None = None,
) -> Dataset:
    """The set that the recipe makes from the seed: from the cache where it is whole, else built now."""
    size = None if size == recipe.size else size
    place = folder(recipe.name, seed, size)
    chosen = Path(sources).expanduser() if sources is not None else default_sources()
    if sources is not None and chosen is not None and not chosen.is_dir():
        raise UserError("no such folder of sources", where=str(chosen))
    if not rebuild and _sound(place, recipe, seed, size, chosen):
        return _read(place)
    with locked(place):
        if rebuild or not _sound(place, recipe, seed, size, chosen):
            context = BuildContext(seed, size, chosen, processes or available_cores(), progress or (lambda *_: None))
            _build(recipe, context, place)
    return _read(place)


def manifest(name: str, seed: int = 0, size: int | None = None) -> dict[str, Any]:
    """What is recorded about a built set."""
    place = folder(name, seed, size)
    found = _manifest(place)
    if found is None:
        raise UserError(f"no built set '{name}' with seed {seed}", where=str(place), mend=f"calql data build {name}")
    return found


def is_built(name: str) -> bool:
    """Whether the full set of the first seed lies in the store; whether it is whole is asked when it is used."""
    return _manifest(folder(name)) is not None


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _build(recipe: Recipe, context: BuildContext, place: Path) -> None:
    """Build beside the final place and rename: an interrupted build leaves only a hidden folder."""
    for leftover in place.parent.glob(f".{place.name}.*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
    work = _beside(place)
    try:
        begun = time.perf_counter()
        dataset = recipe.build(context)
        _write(dataset, work / COLUMNS)
        facts = _facts(recipe, context, dataset) | {
            "build_seconds": round(time.perf_counter() - begun, 1),
            "bytes": (work / COLUMNS).stat().st_size,
            "sha256": digest(work / COLUMNS),
        }
        (work / MANIFEST).write_text(json.dumps(facts, indent=2) + "\n")
        _swap(work, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _beside(place: Path) -> Path:
    """A new hidden folder next to the place, readable by whoever may read the others."""
    made = place.parent / f".{place.name}.{os.getpid()}-{time.time_ns()}"
    made.mkdir()
    return made


def _swap(work: Path, place: Path) -> None:
    """Put the finished folder in place of whatever is there."""
    if place.exists():
        old = _beside(place)
        place.rename(old / "old")
        work.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    else:
        work.rename(place)


def _facts(recipe: Recipe, context: BuildContext, dataset: Dataset) -> dict[str, Any]:
    starts = dataset.episode_starts
    returns = np.add.reduceat(dataset.rewards.astype(np.float64), starts)
    facts: dict[str, Any] = {
        "recipe": recipe.name,
        "version": recipe.version,
        "seed": context.seed,
        "size": context.size,
        "summary": recipe.summary,
        "versions": {name: _version(name) for name in VERSIONED},
        "sources": dict(context.used),
        "transitions": len(dataset),
        "episodes": len(starts),
        "terminals": int(dataset.terminals.sum()),
        "truncated": int(dataset.truncated.sum()),
        "observation": list(dataset.observations.shape[1:]),
        "action": list(dataset.actions.shape[1:]),
        "episode_length": _spread(dataset.episode_lengths),
        "return": _spread(returns),
        "success": None,
        "notes": list(dataset.notes),
    }
    if recipe.success is not None:
        flags = recipe.success(dataset)
        facts["success"] = {"trajectories": len(flags), "share": round(float(np.mean(flags)), 6)}
    if recipe.describe is not None:
        facts |= recipe.describe(dataset)
    return facts


def _spread(values: np.ndarray) -> dict[str, float]:
    of = np.asarray(values, np.float64)
    return {
        "mean": round(float(of.mean()), 6),
        "std": round(float(of.std()), 6),
        "min": round(float(of.min()), 6),
        "max": round(float(of.max()), 6),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _manifest(place: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((place / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _sound(place: Path, recipe: Recipe, seed: int, size: int | None, sources: Path | None) -> bool:
    """Whether what lies there is this recipe's set, whole and unchanged."""
    found = _manifest(place)
    if found is None or not (place / COLUMNS).is_file():
        return False
    asked = {"recipe": recipe.name, "version": recipe.version, "seed": seed, "size": size}
    if any(found.get(key) != value for key, value in asked.items()):
        return False
    return found.get("sha256") == digest(place / COLUMNS) and _same_sources(found, sources)


def _same_sources(found: Mapping[str, Any], sources: Path | None) -> bool:
    """Whether the files it was built from are those at hand; files that are not at hand cannot differ."""
    if sources is None:
        return True
    used: Mapping[str, str] = found.get("sources") or {}
    return all(digest(sources / path) == sha for path, sha in used.items() if (sources / path).is_file())


def _write(dataset: Dataset, path: Path) -> None:
    """Columns in D4RL's layout, with the next observation of every row, so that any reader takes them."""
    np.savez(
        path,
        observations=dataset.observations,
        actions=dataset.actions,
        rewards=dataset.rewards,
        next_observations=dataset.next_observations,
        terminals=dataset.terminals,
        timeouts=dataset.truncated,
        **dataset.masks,
    )


def _read(place: Path) -> Dataset:
    facts = _manifest(place) or {}
    try:
        with np.load(place / COLUMNS, allow_pickle=False) as columns:
            return Dataset(
                observations=columns["observations"],
                actions=columns["actions"],
                rewards=columns["rewards"],
                next_observations=columns["next_observations"],
                terminals=columns["terminals"],
                truncated=columns["timeouts"],
                source=str(place / COLUMNS),
                notes=tuple(facts.get("notes", ())),
                **{name: columns[name] for name in MASKS if name in columns},
            )
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as problem:
        raise UserError(f"cannot be read ({problem})", where=str(place), mend="build it again with --rebuild") from None


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """One builder per set: the others wait and then find it built."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("a") as lock:
        waited_for(lock.fileno())
        yield
