"""Runs from Python: what `calql.train` takes, and what it comes to before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calql.data import Dataset
from calql.domains.own.tasks import MakeEnv
from calql.engine.options import RunOptions
from calql.methods import DEFAULT_METHOD
from calql.results import Display
from calql.runs import given, preparation, request
from calql.runs.folder import refuse_existing
from calql.runs.life import Outcome, Ready, Watching, start, watched
from calql.runs.request import CHOSEN, Choice
from calql.runs.sweep import Vary, as_text
from calql.runs.trust import remember
from calql.system.errors import UserError
from calql.system.options import hints_of

OPTION = re.compile(r"(?<![\w-])--(?P<name>[a-z][a-z-]*[a-z])(?: (?P<number>-?\d+(?:\.\d+)?)|(?P<subject>(?= is\b)))?")
FLAGS = {name for kind in (Choice, RunOptions) for name, hint in hints_of(kind).items() if hint is bool}


def train(
    task: str | None = None,
    *,
    dataset: str | Path | Dataset | None = None,
    env: str | MakeEnv | None = None,
    method: str = DEFAULT_METHOD,
    preset: str = "default",
    out: str | Path | None = None,
    watching: Watching | None = None,
    progress: bool = True,
    probe: bool = True,
    vary: Vary | None = None,
    keep_data: bool | None = None,
    **options: Any,
) -> Outcome:
    """Pre-train on logged data, then fine-tune online, in a new run folder (`out`).

    Name a task, or give a dataset (file or `Dataset`) and an environment (Gymnasium name or a function
    that makes one), or a dataset and `offline=True` where there is no environment. Further keywords are options of the
    run or of the method, by their names.
    Unless `probe` is off, an environment of your own is first tried out with random actions.
    `vary={"calibrate": (True, False)}` trains every seed once for each value, all of them as one program.

    A `Dataset` is kept in the run folder, so that the run can be resumed; one of more than 1 GiB only if `keep_data` is
    True. With False it has to be given again. A function at the top of a module is found again by its name; any other
    has to be given again to `resume` and `evaluate`.

    In a terminal or a notebook it shows how far it is, unless `progress` is off; `watching` says it in detail instead.
    """
    refuse_existing(out)
    watching = watching or watched(progress)
    return start(
        make_ready(
            task, dataset=dataset, env=env, method=method, preset=preset, display=watching.display, probe=probe,
            vary=vary, keep_data=keep_data, **options,
        ),
        out, watching, command="calql.train(...)",
    )  # fmt: skip


@contextmanager
def in_python() -> Iterator[None]:
    """Errors name keywords, where those of the command line name options."""
    try:
        yield
    except UserError as error:
        mend = error.mend if "calql " in error.mend else as_keywords(error.mend)
        said = UserError(as_keywords(error.what), where=as_keywords(error.where), mend=mend)
        if str(said) == str(error):
            raise
        raise said from error


def as_keywords(text: str) -> str:
    """`--episode-limit 18` as `episode_limit=18`, `--env` as `env`, `--offline` as `offline=True`."""
    return OPTION.sub(_keyword, text)


def _keyword(option: re.Match[str]) -> str:
    name, value = option["name"].replace("-", "_"), option["number"]
    if option["subject"] is not None:  # of a sentence: what it is
        return name
    if name.startswith("no_"):
        return f"{name.removeprefix('no_')}=False"
    value = "True" if name in FLAGS else value
    return f"{name}={value}" if value else name


@in_python()
def make_ready(
    task: str | None,
    *,
    dataset: str | Path | Dataset | None,
    env: str | MakeEnv | None,
    method: str,
    preset: str,
    display: Display,
    probe: bool,
    vary: Vary | None,
    keep_data: bool | None,
    **options: Any,
) -> Ready:
    """Resolve and check what `train` was called with."""
    given.require_kinds(dataset, env)
    data = dataset if isinstance(dataset, Dataset) else None
    kept = given.to_keep(data, keep_data)
    note = given.noted(data, kept, env)
    own = {name: options.pop(name) for name in CHOSEN if name in options}
    choice = Choice(
        task=task,
        method=method,
        preset=preset,
        dataset=None if dataset is None or data is not None else str(dataset),
        env=env if isinstance(env, str) else None,
        vary=as_text(vary),
        **own,
    )
    request.require_options(choice, options, also=(*CHOSEN, *(train.__kwdefaults__ or ())))
    prepared = preparation.prepare_choice(choice, options, env=env, data=data, probe=probe, tell=display.message)
    remember(note.get(given.GIVEN, {}).get("env"))
    return Ready(prepared, kept, note)
