"""How long the cells of each scale are. `paper` changes nothing; the tables here are what the others change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, cast

from calql.domains.registry import DOMAINS, Task, get_task
from calql.engine.options import RunOptions
from calql.experiments.cells import Cell
from calql.experiments.paper.matrices import Arm, Experiment
from calql.methods import method_entry
from calql.runs import request
from calql.runs.request import Choice
from calql.system.errors import UserError, unknown

Scale = Literal["smoke", "small", "paper"]
AnyScale = Scale | Literal["comparison"]  # of which the last belongs to `calql compare` and has a cut of its own
Options = Mapping[str, Any]
Cut = Callable[[Task, str, Options], Options]  # what a scale changes of a task and a method with these options

# `smoke`: the whole path in seconds. Data are a stand-in, networks tiny, one episode online.
SMOKE_AT_MOST: Options = {
    "offline_updates": 4,
    "online_steps": 40,
    "warmup_steps": 10,
    "evaluation_episodes": 1,
    "reference_updates": 10,
    "batch_size": 4,
    "sampled_actions": 2,
    "backup_actions": 2,
    "critics": 2,
    "candidates": 2,
    "width": 8,
    "heads": 1,
    "layers": 1,
    "training_context": 5,
    "warmup_updates": 10,
    "critic_steps": 4,
    "critic_steps_online": 4,
    "penalised_critics": 2,
}
SMOKE_SETS: Options = {
    "policy_widths": (8,),
    "critic_widths": (8,),
    "updates_per_episode": 4,
    "evaluate_offline_every": 4,
    "evaluate_online_every": 40,
    "block": 4,
}

SEEDS: Mapping[str, int] = {"smoke": 2, "small": 4}  # `paper`: as many as the paper had
HOW: Mapping[str, str] = {
    "smoke": "a handful of updates of tiny networks, mostly on random actions in place of the task's data: "
    "shows that everything runs, and nothing else",
    "small": "a few per cent of the paper's steps: shows the direction of an effect, not its size",
    "paper": "the paper's protocol",
    "comparison": "a minute or two for each method on two CPU cores",
}


def cells_of(
    experiment: Experiment,
    scale: AnyScale,
    *,
    seeds: int | None = None,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    changes: Sequence[str] = (),
    cut: Cut | None = None,
) -> list[Cell]:
    """The cells of an experiment at a scale; all tasks and methods unless some are named.

    `changes` are options as NAME=VALUE, for every cell that has them; `cut` is the scale's own unless it is given.
    """
    known_methods = {arm.method for arm in experiment.arms}
    for kind, named, known in (("task", tasks, set(experiment.tasks)), ("method", methods, known_methods)):
        for name in named:
            if name not in known:
                raise unknown(kind, name, known, where=experiment.name)
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds is {seeds}", mend="it must be at least 1")
    count = seeds or SEEDS.get(scale, experiment.seeds)
    pairs = [
        (task, arm)
        for task, arm in experiment.pairs()
        if (not tasks or task in tasks) and (not methods or arm.method in methods)
    ]
    if scale == "smoke":
        pairs = _few(experiment, pairs, all_tasks=bool(tasks), each_method=bool(methods))
    values = request.read_changes(changes)
    _require_known(values, [arm.method for _, arm in pairs])
    how = cut or CUTS[scale]
    return [make_cell(task, arm, scale, count, values, paper_seeds=experiment.seeds, how=how) for task, arm in pairs]


def _require_known(names: Iterable[str], methods: Sequence[str]) -> None:
    """An option that no cell has is a mistake."""
    known = {f.name for m in methods for kind in (RunOptions, method_entry(m).options) for f in fields(kind)}
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
    task: str, arm: Arm, scale: AnyScale, seeds: int, changes: Mapping[str, str] = {}, *, paper_seeds: int, how: Cut
) -> Cell:
    """What the paper runs, cut down to the scale; options that come to a default are left out."""
    described = get_task(task)
    run, learner = request.defaults(Choice(task=task, method=arm.method), described)
    usual: dict[str, Any] = {**vars(run), **vars(learner)}
    paper = {**usual, **arm.options}
    cut = {name: value for name, value in how(described, arm.method, paper).items() if name in usual}
    cut |= {name: request.value_like(usual[name], name, text) for name, text in changes.items() if name in usual}
    options = {name: value for name, value in {**arm.options, **cut}.items() if usual[name] != value}
    accepted = request.set_options(run, learner, {**options, "seeds": seeds}, arm.method)
    request.check_methods_options(arm.method, *accepted)
    stand_in = scale == "smoke" and not DOMAINS[described.domain].quick_data
    return Cell(
        task=task,
        method=arm.method,
        scale=scale,
        seeds=seeds,
        options=options,
        data="stand-in" if stand_in else "task",
        slices=arm.slices,
        variant=arm.variant,
        shortened=_in_words(paper, cut, seeds, paper_seeds) if scale != "smoke" else HOW["smoke"],
        paper_offline_updates=int(paper["offline_updates"]),
        paper_online_steps=int(paper["online_steps"]),
    )


def _whole(task: Task, method: str, paper: Options) -> Options:
    return {}


def _small(task: Task, method: str, paper: Options) -> Options:
    """One or two minutes of updates per cell of four seeds at the rates in estimate.py."""
    cut, domain = dict(paper), DOMAINS[task.domain]
    for limits in (
        domain.small,
        domain.small_tasks.get(task.name, {}),
        method_entry(method).small,
    ):
        cut = _at_most(cut, limits)
    evaluations = {}
    offline, online = domain.small_evaluations
    if cut["online_steps"] < paper["online_steps"]:
        evaluations["evaluate_online_every"] = max(cut["online_steps"] // online, 1)
    if cut["offline_updates"]:
        evaluations["evaluate_offline_every"] = max(cut["offline_updates"] // offline, 1)
    return {**cut, **evaluations}


def _smoke(task: Task, method: str, paper: Options) -> Options:
    cut = _at_most(paper, SMOKE_AT_MOST)
    return {**cut, **SMOKE_SETS, "target_subset": min(paper.get("target_subset", 0), 2)}


CUTS: Mapping[str, Cut] = {"smoke": _smoke, "small": _small, "paper": _whole}


def known_scale(name: str, where: str) -> Scale:
    """A scale by the name that a table has for it."""
    if name not in CUTS:
        raise unknown("scale", name, CUTS, where=where)
    return cast(Scale, name)


def _at_most(paper: Options, limits: Options) -> dict[str, Any]:
    return {**paper, **{name: min(paper[name], limit) for name, limit in limits.items() if name in paper}}


def _in_words(paper: Options, cut: Options, seeds: int, paper_seeds: int) -> str:
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
