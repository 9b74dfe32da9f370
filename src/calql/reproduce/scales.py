"""How long the cells of each scale are. `paper` changes nothing; the tables here are what the others change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, cast

from calql import experiment as experiments
from calql.engine.options import RunOptions
from calql.errors import UserError, unknown
from calql.experiment import Choice
from calql.methods import method_entry
from calql.reproduce.cells import Cell
from calql.reproduce.experiments import Arm, Experiment
from calql.tasks import Task, get_task

Scale = Literal["smoke", "small", "paper"]
Options = Mapping[str, Any]

# `small`: one or two minutes of updates per cell of four seeds at the rates in estimate.py. At most so much of each:
SMALL_AT_MOST: Mapping[str, Options] = {  # by domain
    "adroit": {"offline_updates": 20_000, "online_steps": 14_000, "evaluation_episodes": 10},
    "kitchen": {"offline_updates": 16_000, "online_steps": 6_000, "evaluation_episodes": 4},
    "antmaze": {"offline_updates": 80_000, "online_steps": 16_000, "evaluation_episodes": 10},
    "pick-place": {"offline_updates": 24_000, "online_steps": 3_000, "evaluation_episodes": 10},
    "locomotion": {"offline_updates": 80_000, "online_steps": 16_000, "evaluation_episodes": 5},
    "point-maze": {},
}
SMALL_TASKS_AT_MOST: Mapping[str, Options] = {  # by task, again
    "pen-binary": {"online_steps": 8_000},
    "relocate-binary": {"online_steps": 6_000},
}
# Ensembles, many updates a step and transformers cost ten times as much: by method, at most so much again.
SMALL_METHODS_AT_MOST: Mapping[str, Options] = {
    "cal-ql-utd20": {"online_steps": 5_000},
    "rlpd": {"online_steps": 5_000, "warmup_steps": 500},
    "odt": {
        "width": 256,
        "offline_updates": 2_000,
        "updates_per_episode": 30,
        "warmup_updates": 1_000,
    },
    "o3f": {"candidates": 20},
}
# Evaluations of a small cell offline and online, by domain: those of the kitchen take longest by far.
POINTS, USUAL_POINTS = {"kitchen": (1, 4)}, (2, 8)

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
}


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
    count = seeds or SEEDS.get(scale, experiment.seeds)
    pairs = [
        (task, arm)
        for task, arm in experiment.pairs()
        if (not tasks or task in tasks) and (not methods or arm.method in methods)
    ]
    if scale == "smoke":
        pairs = _few(experiment, pairs, all_tasks=bool(tasks), each_method=bool(methods))
    values = experiments.read_changes(changes)
    _require_known(values, [arm.method for _, arm in pairs])
    return [make_cell(task, arm, scale, count, values, paper_seeds=experiment.seeds) for task, arm in pairs]


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
    task: str, arm: Arm, scale: Scale, seeds: int, changes: Mapping[str, str] = {}, *, paper_seeds: int
) -> Cell:
    """What the paper runs, cut down to the scale; options that come to a default are left out."""
    described = get_task(task)
    run, learner = experiments.defaults(Choice(task=task, method=arm.method), described)
    usual: dict[str, Any] = {**vars(run), **vars(learner)}
    paper = {**usual, **arm.options}
    cut = {name: value for name, value in CUTS[scale](described, arm.method, paper).items() if name in usual}
    cut |= {name: experiments.value_like(usual[name], name, text) for name, text in changes.items() if name in usual}
    options = {name: value for name, value in {**arm.options, **cut}.items() if usual[name] != value}
    accepted = experiments.set_options(run, learner, {**options, "seeds": seeds}, arm.method)
    experiments.check_methods_options(arm.method, *accepted)
    stand_in = scale == "smoke" and described.domain != "point-maze"
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
    cut = dict(paper)
    for limits in (
        SMALL_AT_MOST[task.domain],
        SMALL_TASKS_AT_MOST.get(task.name, {}),
        SMALL_METHODS_AT_MOST.get(method, {}),
    ):
        cut = _at_most(cut, limits)
    evaluations = {}
    offline, online = POINTS.get(task.domain, USUAL_POINTS)
    if cut["online_steps"] < paper["online_steps"]:
        evaluations["evaluate_online_every"] = max(cut["online_steps"] // online, 1)
    if cut["offline_updates"]:
        evaluations["evaluate_offline_every"] = max(cut["offline_updates"] // offline, 1)
    return {**cut, **evaluations}


def _smoke(task: Task, method: str, paper: Options) -> Options:
    cut = _at_most(paper, SMOKE_AT_MOST)
    return {**cut, **SMOKE_SETS, "target_subset": min(paper.get("target_subset", 0), 2)}


CUTS: Mapping[str, Callable[[Task, str, Options], Options]] = {"smoke": _smoke, "small": _small, "paper": _whole}


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
