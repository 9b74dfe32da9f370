"""How long the cells of an experiment are: a scale cuts down what the paper runs, and says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calql.domains.registry import DOMAINS, Task
from calql.methods import method_entry
from calql.system.errors import unknown

Options = Mapping[str, Any]
Cut = Callable[[Task, str, Options], Options]  # what a scale changes of a task and a method with these options


def _nothing(task: Task, method: str, whole: Options) -> Options:
    return {}


@dataclass(frozen=True)
class Scale:
    """A length of runs, by the name that folders and tables have for it."""

    name: str
    how: str  # in words
    cut: Cut = _nothing
    seeds: int | None = None  # None: as many as the experiment has
    trial: bool = False  # shows that everything runs: few arms, and stand-in data where the task's take long to make


# `smoke`: the whole path in seconds. Data are a stand-in, networks tiny, one episode online. What a method's own
# options are at most stands in its file.
SMOKE_AT_MOST: Options = {
    "offline_updates": 4,
    "online_steps": 40,
    "warmup_steps": 10,
    "evaluation_episodes": 1,
    "reference_updates": 10,
    "batch_size": 4,
}
SMOKE_SETS: Options = {
    "policy_widths": (8,),
    "critic_widths": (8,),
    "updates_per_episode": 4,
    "evaluate_offline_every": 4,
    "evaluate_online_every": 40,
    "block": 4,
}


def _smoke(task: Task, method: str, whole: Options) -> Options:
    return {**at_most(at_most(whole, SMOKE_AT_MOST), method_entry(method).smoke), **SMOKE_SETS}


def _small(task: Task, method: str, whole: Options) -> Options:
    """One or two minutes of updates per cell of four seeds at the rates in estimate.py."""
    cut, domain = dict(whole), DOMAINS[task.domain]
    for limits in (domain.small, domain.small_tasks.get(task.name, {}), method_entry(method).small):
        cut = at_most(cut, limits)
    evaluations = {}
    offline, online = domain.small_evaluations
    if cut["online_steps"] < whole["online_steps"]:
        evaluations["evaluate_online_every"] = max(cut["online_steps"] // online, 1)
    if cut["offline_updates"]:
        evaluations["evaluate_offline_every"] = max(cut["offline_updates"] // offline, 1)
    return {**cut, **evaluations}


def at_most(whole: Options, limits: Options) -> dict[str, Any]:
    """Cut down to the limits, of those options that there are."""
    return {**whole, **{name: min(whole[name], limit) for name, limit in limits.items() if name in whole}}


SMOKE = Scale(
    "smoke",
    "a handful of updates of tiny networks, mostly on random actions in place of the task's data: shows that "
    "everything runs, and nothing else",
    _smoke,
    seeds=2,
    trial=True,
)
SMALL = Scale(
    "small", "a few per cent of the paper's steps: shows the direction of an effect, not its size", _small, seeds=4
)
PAPER = Scale("paper", "the paper's protocol")
SCALES: Mapping[str, Scale] = {scale.name: scale for scale in (SMOKE, SMALL, PAPER)}


def find_scale(name: str, where: str) -> Scale:
    if name not in SCALES:
        raise unknown("scale", name, SCALES, where=where)
    return SCALES[name]
