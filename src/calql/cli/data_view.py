"""calql data view: a dataset as a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import arg

from calql.cli.reading import ReadingOptions
from calql.data import Dataset, describe, load
from calql.data.concerned import concerned
from calql.data.inspect import sentence
from calql.data.overview import episodes
from calql.domains.scene import Scene
from calql.system.errors import UserError
from calql.system.options import Port, Range

if TYPE_CHECKING:
    from calql.domains.base import Task
    from calql.views.films import Film


@dataclass(frozen=True, kw_only=True)
class ViewOptions(ReadingOptions):
    """Write or serve a page about a dataset: episodes, ranges, coverage, films, and what looks wrong with it."""

    file: Annotated[str, tyro.conf.Positional]
    """A file or a folder of any format, minari:NAME, or a dataset by name as in calql data list."""
    out: Annotated[str | None, arg(metavar="FILE")] = None
    """The page to write (default: in this folder, NAME-data.html after the dataset)."""
    serve: bool = False
    """Serve it to a browser on this machine instead, until Ctrl-C."""
    port: Port = 0
    """Port to serve on (0: any that is free)."""
    task: str | None = None
    """The task that a file belongs to: its map, its time limit, and its environment for --films."""
    env: str | None = None
    """An environment of your own for --films: package:Name-v0."""
    dims: tuple[str, ...] = ()
    """Two features whose coverage is shown first, by number or name (default: the map's, else the first two)."""
    films: Annotated[int, Range(0.0, 12.0)] = 0
    """Episodes to film with the environment, which is put into the recorded states and never stepped."""


def view(options: ViewOptions) -> int:
    page = _page(options)
    if options.serve:
        return _serve(page, options.port)
    out = Path(options.out or page_name(options.file))
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError("the page is HTML", where=str(out), mend="give --out a name that ends in .html")
    from calql.results.metrics import write_atomically

    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, page)
    print(f"page: {out}")
    return 0


def page_name(dataset: str) -> str:
    """After the file, the folder or the name of a dataset."""
    name = Path(dataset).resolve().stem if Path(dataset).exists() else dataset
    return re.sub(r"[^\w.-]+", "-", name) + "-data.html"


def _page(options: ViewOptions) -> str:
    from calql.domains.registry import get_scene
    from calql.views.data import data_page

    found: list[UserError] = []
    dataset, task = _read(options, found)
    dataset = dataset.in_memory() if dataset.observations.ndim == 2 else dataset  # pictures are read as they are shown
    told = [sentence(f"{problem.what}; {problem.mend}") for problem in found]
    limit = task.episode_limit if task else None
    seen = describe(dataset, told, limit)
    shown_by = concerned(dataset, seen.problems, limit)
    scene = get_scene(task.name) if task else Scene()
    scene = scene if _fits(dataset, scene) else Scene()
    suspicious = [episode for several in shown_by.values() for episode in several]
    drawn = _drawn(options, dataset, task, scene, suspicious)
    name = Path(options.file).name if Path(options.file).exists() else options.file
    of = task.name if task else ""
    return data_page(name, dataset, seen, shown_by, scene, task=of, dims=options.dims, drawn=drawn)


def _read(options: ViewOptions, found: list[UserError]) -> tuple[Dataset, Task | None]:
    """The data, and the task that they are of where it is known."""
    from calql.domains.datasets import load as load_named
    from calql.domains.datasets import named, require_task
    from calql.domains.registry import get_task

    recipe = None if Path(options.file).suffix or Path(options.file).exists() else named(options.file)
    task = get_task(options.task) if options.task else get_task(recipe.task) if recipe else None
    if recipe is None:
        return load(options.file, options.reading, on_problem=found.append), task
    require_task(recipe, task.name if task else recipe.task)
    _require_here(recipe.name)
    return load_named(recipe.name), task


def _require_here(name: str) -> None:
    """Looking builds nothing that takes long."""
    from calql.data.store import is_built
    from calql.domains.originals import has_original
    from calql.domains.registry import DOMAINS

    quick = any(domain.quick_data and name in domain.recipes for domain in DOMAINS.loadable().values())
    if not (quick or is_built(name) or has_original(name)):
        raise UserError("is not here yet", where=name, mend=f"calql data build {name}")


def _fits(dataset: Dataset, scene: Scene) -> bool:
    """Whether the observations have the features that the scene speaks of."""
    plan = max(scene.plan.x, scene.plan.y) + 1 if scene.plan else 0
    return dataset.vectors is not None and dataset.vectors.shape[1] >= max(len(scene.names), plan)


def _drawn(
    options: ViewOptions, dataset: Dataset, task: Task | None, scene: Scene, suspicious: Sequence[int]
) -> list[Film]:
    from calql.domains.own.tasks import env_maker
    from calql.views import films

    if not options.films:
        return []
    make = env_maker(options.env) if options.env else task.make_env if task else None
    if make is None:
        mend = "name it with --task or --env"
        raise UserError("no environment is known to film with", where="--films", mend=mend)
    found = episodes(dataset)
    chosen = films.telling(found, suspicious, options.films)
    return films.of_environment(dataset, found, chosen, make, None if options.env else scene.put)


def _serve(page: str, port: int) -> int:
    from calql.system.serve import Answer, PageServer, address, listening, new_token

    listener, token = listening(port), new_token()
    with PageServer(listener, token, lambda what: None if what else Answer(page)) as server:
        print(f"page: {address(listener, token)}\nCtrl-C ends it.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
