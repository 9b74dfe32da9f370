"""An experiment: arms on tasks, and the cells that they come to at a scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calql.domains.registry import DOMAINS, get_task
from calql.engine.options import RunOptions
from calql.experiments.cells import STAND_IN, TASKS_OWN, Cell
from calql.experiments.scales import Scale
from calql.methods import method_entry
from calql.runs import request
from calql.runs.request import Choice
from calql.system.errors import UserError, unknown


@dataclass(frozen=True)
class Arm:
    """One curve or one column: a method with what the experiment changes in it, at any scale."""

    method: str
    variant: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    slices: str = ""  # see Cell
    only: tuple[str, ...] = ()  # tasks that it is run on; none named: all of the experiment's


@dataclass(frozen=True)
class Experiment:
    """A table or figure: every arm on every task."""

    name: str
    title: str
    tasks: tuple[str, ...]
    arms: tuple[Arm, ...]
    seeds: int = 6  # of the paper
    smoke_arms: int = 2  # how many a smoke run takes, on the first task

    def pairs(self) -> list[tuple[str, Arm]]:
        return [(task, arm) for task in self.tasks for arm in self.arms if not arm.only or task in arm.only]


def cells_of(
    experiment: Experiment,
    scale: Scale,
    *,
    seeds: int | None = None,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    changes: Sequence[str] = (),
) -> list[Cell]:
    """The cells of an experiment at a scale; all tasks and methods unless some are named.

    `changes` are options as NAME=VALUE, for every cell that has them.
    """
    known_methods = {arm.method for arm in experiment.arms}
    for kind, named, known in (("task", tasks, set(experiment.tasks)), ("method", methods, known_methods)):
        for name in named:
            if name not in known:
                raise unknown(kind, name, known, where=experiment.name)
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds is {seeds}", mend="it must be at least 1")
    count = seeds or scale.seeds or experiment.seeds
    pairs = [
        (task, arm)
        for task, arm in experiment.pairs()
        if (not tasks or task in tasks) and (not methods or arm.method in methods)
    ]
    if scale.trial:
        pairs = _few(experiment, pairs, all_tasks=bool(tasks), each_method=bool(methods))
    values = request.read_changes(changes)
    _require_known(values, [arm.method for _, arm in pairs])
    return [make_cell(task, arm, scale, count, values, paper_seeds=experiment.seeds) for task, arm in pairs]


def _require_known(names: Iterable[str], methods: Sequence[str]) -> None:
    """An option that no cell has is a mistake."""
    kinds: list[type[Any]] = [RunOptions, *(method_entry(method).options for method in methods)]
    known = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    for name in names:
        if name not in known:
            raise unknown("option", name, known, where="--set")


def _few(
    experiment: Experiment, pairs: Sequence[tuple[str, Arm]], *, all_tasks: bool, each_method: bool
) -> list[tuple[str, Arm]]:
    """The first task unless some were named, and its first few arms, of every method that was named."""
    kept: list[tuple[str, Arm]] = []
    for task, arm in pairs:
        alike = [(t, a) for t, a in kept if t == task and (not each_method or a.method == arm.method)]
        if (all_tasks or task == pairs[0][0]) and len(alike) < experiment.smoke_arms:
            kept.append((task, arm))
    return kept


def make_cell(
    task: str, arm: Arm, scale: Scale, seeds: int, changes: Mapping[str, str] = {}, *, paper_seeds: int
) -> Cell:
    """What the paper runs, cut down to the scale; options that come to a default are left out."""
    described = get_task(task)
    run, learner = request.defaults(Choice(task=task, method=arm.method), described)
    usual: dict[str, Any] = {**vars(run), **vars(learner)}
    paper = {**usual, **arm.options}
    cut = {name: value for name, value in scale.cut(described, arm.method, paper).items() if name in usual}
    cut |= {name: request.value_like(usual[name], name, text) for name, text in changes.items() if name in usual}
    options = {name: value for name, value in {**arm.options, **cut}.items() if usual[name] != value}
    accepted = request.set_options(run, learner, {**options, "seeds": seeds}, arm.method)
    request.check_methods_options(arm.method, *accepted, discrete=described.discrete)
    stand_in = scale.trial and not DOMAINS[described.domain].quick_data
    return Cell(
        task=task,
        method=arm.method,
        scale=scale.name,
        seeds=seeds,
        options=options,
        data=STAND_IN if stand_in else TASKS_OWN,
        slices=arm.slices,
        variant=arm.variant,
        shortened=scale.how if scale.trial else _in_words(paper, cut, seeds, paper_seeds),
        paper_offline_updates=int(paper["offline_updates"]),
        paper_online_steps=int(paper["online_steps"]),
    )


def _in_words(paper: Mapping[str, Any], cut: Mapping[str, Any], seeds: int, paper_seeds: int) -> str:
    """How a cell differs from the paper's protocol; nothing where it does not."""
    parts = [] if seeds == paper_seeds else [f"{seeds} seeds (paper: {paper_seeds})"]
    changed = {name: value for name, value in cut.items() if paper[name] != value}
    parts += [
        f"{name.replace('_', ' ')} {_text(value)} (paper: {_text(paper[name])})" for name, value in changed.items()
    ]
    return "; ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
