"""Recipes by name: every module of this package may offer `RECIPES`, a mapping from name to recipe."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calql.data.bar import Bar
from calql.data.dataset import Dataset
from calql.data.download import downloaded
from calql.data.load import MINARI, READERS
from calql.data.store import Recipe, folder, manifest, obtain
from calql.errors import UserError, unknown


def offers(attribute: str) -> Iterator[Mapping[str, Any]]:
    """What each module of the package offers under a name; a module is imported when its turn comes."""
    for module in pkgutil.iter_modules(__path__):
        yield getattr(importlib.import_module(f"{__name__}.{module.name}"), attribute, {})


def find(attribute: str, kind: str, name: str) -> Any:
    """The first offer of that name; the rest of the package, and what it imports, is left alone."""
    known: list[str] = []
    for offer in offers(attribute):
        if name in offer:
            return offer[name]
        known.extend(offer)
    raise unknown(kind, name, known)


def recipes() -> Mapping[str, Recipe]:
    """All recipes of the package."""
    return {name: made for offer in offers("RECIPES") for name, made in offer.items()}


def recipe(name: str) -> Recipe:
    found: Recipe = find("RECIPES", "dataset recipe", name)
    return found


def named(source: str) -> Recipe | None:
    """The recipe that a dataset's name means; None for the name of a file and for a Minari dataset."""
    path = Path(source).expanduser()
    if source.startswith(MINARI) or path.suffix.lower() in READERS or len(path.parts) != 1 or path.exists():
        return None
    known = recipes()
    if source not in known:
        raise unknown("dataset", source, known)
    return known[source]


def require_task(chosen: Recipe, task: str) -> None:
    """Refuse data of another task, of whatever shape they are."""
    if chosen.task != task:
        own = ", ".join(name for name, other in recipes().items() if other.task == task)
        raise UserError(
            f"'{chosen.name}' is data of {chosen.task}, not of {task}",
            where="--dataset",
            mend=f"give --task {chosen.task}, or one of {own}",
        )


def load(name: str, *, seed: int = 0, size: int | None = None) -> Dataset:
    """The dataset of a task: its downloaded original, else the cached or now built one; for `Task.load_data`."""
    if seed == 0 and size is None and (original := downloaded(name)) is not None:
        return original
    with Bar() as bar:
        return obtain(recipe(name), seed=seed, size=size, progress=bar.show)


def build(
    name: str,
    *,
    sources: Path | str | None = None,
    seed: int = 0,
    size: int | None = None,
    rebuild: bool = False,
    processes: int | None = None,
) -> str:
    """Build (or find built) a dataset; says where it is and what is in it."""
    chosen = recipe(name)
    with Bar() as bar:
        obtain(
            chosen,
            seed=seed,
            size=size,
            sources=sources,
            rebuild=rebuild,
            processes=processes,
            progress=bar.show,
        )
    size = None if size == chosen.size else size
    facts = manifest(name, seed, size)
    lines = [
        f"{name}: {facts['transitions']} transitions in {facts['episodes']} episodes, seed {seed}, "
        f"built in {facts['build_seconds']} s",
        f"  mean return {facts['return']['mean']:.3f}, from {facts['return']['min']:.3f} "
        f"to {facts['return']['max']:.3f}",
    ]
    if facts["success"]:
        share, count = facts["success"]["share"], facts["success"]["trajectories"]
        lines.append(f"  success in {share:.1%} of {count} recorded trajectories")
    lines += [f"  {note}" for note in facts["notes"]]
    return "\n".join([*lines, f"  {folder(name, seed, size)}"])
