"""What a run came to: the score around the switch, the price of fine-tuning, and how it recovered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calql.results.metrics import Row
from calql.results.runs import RecordedRun, read_run
from calql.results.statistics import band

Number = Literal["before", "worst_early", "after", "regret", "unlearning_depth", "steps_to_recover", "last"]
NUMBERS: tuple[Number, ...] = ("before", "worst_early", "after", "regret", "unlearning_depth", "steps_to_recover")
Recovery = Literal["never fell", "came back", "not back"]
EARLY = 0.2  # the first fifth of fine-tuning
ROUNDING = 1e-9  # of scores that are written as equal
LEAST_FALL = 0.05  # of the score: less than that below the switch is no fall, however many episodes were played


@dataclass(frozen=True)
class SeedSummary:
    """One seed; None where the run has not (or has no) such number."""

    seed: int
    before: float | None  # score at the switch
    worst_early: float | None  # worst online score in the first fifth of the planned environment steps
    after: float | None  # score of the last online evaluation
    regret: float | None  # mean over online evaluations of 1 - score
    unlearning_depth: float | None  # worst online score minus score at the switch; positive: never below
    steps_to_recover: int | None  # environment steps from its first evaluation in a fall until it is back for good
    recovery: Recovery | None  # whether it fell, and came back
    last: float | None  # score of the latest evaluation, of either phase

    @property
    def fell(self) -> bool:
        """Some online evaluation was below the score at the switch by more than the tolerance."""
        return self.recovery in ("came back", "not back")


@dataclass(frozen=True)
class Stat:
    """A number over the seeds that have it."""

    mean: float
    std: float | None  # sample standard deviation; None for a single seed
    values: tuple[float, ...]
    low: float | None = None  # 95% bootstrap interval of the mean; None for a single seed
    high: float | None = None


@dataclass(frozen=True)
class Summary:
    """One run over its seeds."""

    folder: Path
    task: str
    method: str
    finished: bool
    seeds: tuple[SeedSummary, ...]
    tolerance: float = LEAST_FALL  # how far below the switch a score is no fall yet
    fine_tunes: bool = True  # whether an online phase is planned

    def count(self, recovery: Recovery) -> int:
        """Seeds with this recovery."""
        return sum(seed.recovery == recovery for seed in self.seeds)

    def values(self, name: Number) -> tuple[float, ...]:
        found = (getattr(seed, name) for seed in self.seeds)
        return tuple(float(value) for value in found if value is not None)

    def stat(self, name: Number) -> Stat | None:
        """Mean and spread over seeds; None where no seed has the number."""
        values = self.values(name)
        if not values:
            return None
        mean, found = float(np.mean(values)), band(np.array(values)[:, None])
        if found is None:
            return Stat(mean, None, values)
        return Stat(mean, float(np.std(values, ddof=1)), values, *(float(end[0]) for end in found))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every seed, and mean and spread of every number."""
        stats = {name: self.stat(name) for name in NUMBERS}
        return {
            "task": self.task,
            "method": self.method,
            "finished": self.finished,
            "over_seeds": {name: None if stat is None else _as_dict(stat) for name, stat in stats.items()},
            "fell": sum(seed.fell for seed in self.seeds),
            "never_came_back": self.count("not back"),
            "tolerance": self.tolerance,
            "seeds": [asdict(seed) for seed in self.seeds],
        }


def _as_dict(stat: Stat) -> dict[str, Any]:
    return {"mean": stat.mean, "std": stat.std, "low": stat.low, "high": stat.high, "seeds": len(stat.values)}


def summarise(run: RecordedRun | Path | str) -> Summary:
    """The summary of a run folder."""
    read = run if isinstance(run, RecordedRun) else read_run(run)
    every, tolerance = int(read.option("evaluate_online_every") or 0), tolerance_of(read.option("evaluation_episodes"))
    seeds = tuple(
        summarise_seed(rows, online_steps=read.online_steps, every=every, tolerance=tolerance)
        for rows in map(read.of_seed, read.seeds)
        if rows
    )
    return Summary(read.folder, read.task, read.method, read.finished, seeds, tolerance, read.online_steps > 0)


def tolerance_of(episodes: Any) -> float:
    """One standard error of a success rate over so many episodes, at its largest; no less than `LEAST_FALL`."""
    known = isinstance(episodes, int) and episodes > 0
    return max(LEAST_FALL, 0.5 / episodes**0.5) if known else LEAST_FALL


def summarise_seed(
    rows: Sequence[Row], *, online_steps: int, every: int = 0, tolerance: float = LEAST_FALL
) -> SeedSummary:
    """The numbers of one seed from its rows in order; evaluations without a score are passed over."""
    scored = [row for row in rows if row["score"] is not None]
    online = [row for row in scored if row["phase"] == "online"]
    offline = [row for row in scored if row["phase"] != "online"]
    before = _score_at_switch(offline, fine_tunes=online_steps > 0)
    scores = [float(row["score"]) for row in online]
    early = [float(row["score"]) for row in online if due(row, every) <= EARLY * online_steps]
    recovery, steps = (None, None) if before is None else _recovery(online, before - tolerance - ROUNDING)
    return SeedSummary(
        seed=int(rows[0]["seed"]),
        before=before,
        worst_early=min(early, default=None),
        after=scores[-1] if scores else None,
        regret=float(np.mean([1.0 - score for score in scores])) if scores else None,
        unlearning_depth=min(scores) - before if scores and before is not None else None,
        steps_to_recover=steps,
        recovery=recovery,
        last=float(scored[-1]["score"]) if scored else None,
    )


def _score_at_switch(offline: Sequence[Row], *, fine_tunes: bool) -> float | None:
    """The evaluation marked as the switch; a run that never fine-tunes ends where it would have been."""
    at_switch = [row for row in offline if row.get("switch")]
    if not at_switch and not fine_tunes:
        at_switch = list(offline)
    return float(at_switch[-1]["score"]) if at_switch else None


def due(row: Row, every: int) -> int:
    """Environment steps at which an evaluation fell due: it waits for the end of the trajectory under way."""
    steps = int(row["env_steps"])
    return steps // every * every if every > 0 else steps


def _recovery(online: Sequence[Row], level: float) -> tuple[Recovery | None, int | None]:
    """Whether the score fell below a level, and the steps from its first evaluation there until none is any more."""
    below = [place for place, row in enumerate(online) if row["score"] < level]
    if not online:
        return None, None
    if not below:
        return "never fell", None
    if below[-1] == len(online) - 1:
        return "not back", None
    return "came back", int(online[below[-1] + 1]["env_steps"]) - int(online[below[0]]["env_steps"])
