"""What a method's file offers beside its update: names, options, defaults per domain, what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from calql.data.rewards import RewardRule
from calql.methods.base import Method

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """A method in `calql compare`: the mean score over seeds that one of its kind should come to, and why."""

    after: tuple[float, float]
    why: str
    options: Options = field(default_factory=dict)  # of the run or the method, above what all have there


@dataclass(frozen=True)
class Entry:
    """A method by name: its options, how it is made from them, and what it changes in the run.

    What it has otherwise on a domain or on one of its tasks stands in `on` and `rewards`, by the name of either; a
    task's own stands above its domain's.
    """

    summary: str
    options: type[Any]
    make: Callable[[Any], Method]
    sets: Options = field(default_factory=dict)  # options of the run or the method, above a task's for all
    original: Options = field(default_factory=dict)  # preset `original`, where the paper ran another program
    on: Mapping[str, Options] = field(default_factory=dict)  # domain or task -> options of the run or the method
    rewards: Mapping[str, RewardRule] = field(default_factory=dict)  # domain or task -> where its authors map otherwise
    largest_return: Mapping[str, float] = field(default_factory=dict)  # likewise -> rewards are scaled to this size
    update_cost: float = 1.0  # of one update, against one of Cal-QL
    small: Options = field(default_factory=dict)  # at most so much of each at the scale `small`
    smoke: Options = field(default_factory=dict)  # likewise at the scale `smoke`, of its own options
    compared: Compared | None = None  # None: nothing is expected of it
    place: int = 1_000  # in lists; equal ones by name
    discrete: Callable[[Any], Method] | None = None  # how it is made for discrete actions; None: it has no such form
    continuous: bool = True  # whether it is made for continuous ones by `make`
    title: str = ""  # what papers call it, where that is not its name

    def rewards_on(self, domain: str, task: str, usual: RewardRule) -> RewardRule:
        """The map of rewards there; `usual` is the task's."""
        rule = self.rewards.get(task, self.rewards.get(domain, usual))
        largest = self.largest_return.get(task, self.largest_return.get(domain))
        return rule if largest is None else replace(rule, largest_return=largest)
