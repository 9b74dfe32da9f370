"""Metrics of one cell of a matrix, with intervals over seeds: scores, regret, and what happened at the switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from calql.experiments.analysis.choice import Choose
from calql.experiments.analysis.evaluations import Result
from calql.methods.vocabulary import AVERAGE_Q, AVERAGE_RETURN_TO_GO, BOUND_RATE, in_family
from calql.results.metrics import Row
from calql.results.statistics import Estimate, Floats, means
from calql.results.summary import tolerance_of


@dataclass(frozen=True, eq=False)
class Facts:
    """A cell with what is asked of it; numbers that it does not have are None."""

    result: Result
    older: str = ""  # the correction that it was made before, in words
    cut_at: int | None = None  # environment steps at which an unfinished run stands; the plan is then that

    @property
    def rank(self) -> tuple[bool, int, int, bool, int]:
        """Of two cells of one method on one task the higher is shown: newer code, longer, whole, more seeds."""
        run = self.result.run
        return not self.older, run.online_steps, run.offline_updates, self.cut_at is None, len(run.seeds)

    @property
    def tolerance(self) -> float:
        """How far below the switch a score is no fall yet."""
        return tolerance_of(self.result.run.option("evaluation_episodes"))

    def fits(self, choose: Choose) -> bool:
        return choose(self.result)

    def values(self, name: str) -> Floats | None:
        """One number of `SeedSummary` for every seed; None where any lacks it."""
        if name == "before" and not self.result.run.offline_updates:
            return None
        found = [getattr(seed, name) for seed in self.result.seeds]
        return None if not found or any(value is None for value in found) else np.array(found, np.float64)

    def estimate(self, name: str) -> Estimate | None:
        values = self.values(name)
        return None if values is None else means(values[:, None])[0]

    @cached_property
    def at_switch(self) -> Sequence[Row]:
        return [row for row in self.result.run.rows if row["switch"]]

    def of_switch(self, *names: str) -> Floats | None:
        """The mean of some columns at the switch, for every seed."""
        found = [[row[name] for name in names if row.get(name) is not None] for row in self.at_switch]
        return np.array([np.mean(each) for each in found], np.float64) if found and all(found) else None

    @property
    def average_q(self) -> Floats | None:
        return self.of_switch(AVERAGE_Q)

    @property
    def return_to_go(self) -> Floats | None:
        return self.of_switch(AVERAGE_RETURN_TO_GO)

    @property
    def bound_rate(self) -> Floats | None:
        """Over critics and over actions at this state and the next, as figures have it."""
        return self.of_switch(*in_family(BOUND_RATE, {name for row in self.at_switch for name in row}))

    def recovery(self) -> str:
        """How many seeds fell, how many of them came back, and in how many steps in the middle of these."""
        fell = [seed for seed in self.result.seeds if seed.fell]
        if self.values("before") is None or self.values("after") is None:
            return ""
        if not fell:
            return "none fell"
        back = [seed.steps_to_recover for seed in fell if seed.steps_to_recover is not None]
        told = f"{len(fell)} of {len(self.result.seeds)} fell, {len(back)} back"
        return f"{told} after {int(np.median(back)):,} steps" if back else told


def facts_of(result: Result, older: str = "") -> Facts | None:
    """A finished cell as it is, a cut one as far as it came; None for one that is not yet fine-tuned."""
    if result.finished:
        return Facts(result, older)
    run = result.run
    ends = [
        max((row["env_steps"] for row in run.of_seed(seed) if row["phase"] == "online"), default=0)
        for seed in run.seeds
    ]
    done = min([*ends, run.online_steps]) if ends else 0  # an evaluation waits for the end of a trajectory
    if not done:
        return None
    rows = [row for row in run.rows if row["env_steps"] <= max(ends)]
    config = {**run.config, "run": {**run.config["run"], "online_steps": done}}
    shorter = replace(result, finished=True, run=replace(run, rows=rows, config=config))
    return Facts(shorter, older, cut_at=done)
