"""Datasets of the domains by name: found, downloaded or built."""

from __future__ import annotations

from pathlib import Path

from calql.data.bar import Bar
from calql.data.dataset import Dataset
from calql.data.load import is_file_name
from calql.data.store import Recipe, folder, manifest, obtain
from calql.domains.base import DataSource, Task
from calql.domains.originals import downloaded
from calql.domains.registry import DOMAINS, all_recipes, find
from calql.system.errors import UserError, unknown


def recipe(name: str) -> Recipe:
    return find("dataset recipe", name, lambda domain: domain.recipes)


def named(source: str) -> Recipe | None:
    """The recipe that a dataset's name means; None for the name of a file and for a Minari dataset."""
    path = Path(source).expanduser()
    if is_file_name(source) or len(path.parts) != 1 or path.exists():
        return None
    known = all_recipes()
    if source not in known:
        raise unknown("dataset", source, known, left_out=DOMAINS.left_out())
    return known[source]


def require_task(chosen: Recipe, task: str) -> None:
    """Refuse data of another task, of whatever shape they are."""
    if chosen.task != task:
        own = ", ".join(name for name, other in all_recipes().items() if other.task == task)
        raise UserError(
            f"'{chosen.name}' is data of {chosen.task}, not of {task}",
            where="--dataset",
            mend=f"give --task {chosen.task}, or one of {own}",
        )


def load(name: str, *, seed: int = 0, size: int | None = None) -> Dataset:
    """The dataset of a task: its downloaded original, else the cached or now built one."""
    if seed == 0 and size is None and (original := downloaded(name)) is not None:
        return original
    with Bar() as bar:
        return obtain(recipe(name), seed=seed, size=size, progress=bar.show)


def data_of(task: Task) -> Dataset:
    """What a task is trained on, by the name that it gives or from its own function."""
    return _from(task.data)


def held_out_of(task: Task) -> Dataset | None:
    """Logged like the data of a task but never trained on; None where it has none."""
    return None if task.held_out is None else _from(task.held_out)


def _from(source: DataSource) -> Dataset:
    return load(source) if isinstance(source, str) else source()


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
