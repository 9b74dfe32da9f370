"""What a run came to: the score around the switch, the price of fine-tuning, and how it recovered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calql.results.metrics import Row
from calql.results.runs import Run, read_run

Number = Literal["before", "worst_early", "after", "regret", "unlearning_depth", "steps_to_recover", "last"]
NUMBERS: tuple[Number, ...] = ("before", "worst_early", "after", "regret", "unlearning_depth", "steps_to_recover")
EARLY = 0.2  # the first fifth of fine-tuning


@dataclass(frozen=True)
class SeedSummary:
    """One seed; None where the run has not (or has no) such number."""

    seed: int
    before: float | None  # score at the switch
    worst_early: float | None  # worst online score in the first fifth of the planned environment steps
    after: float | None  # score of the last online evaluation
    regret: float | None  # mean over online evaluations of 1 - score
    unlearning_depth: float | None  # worst online score minus score at the switch; positive: never below
    steps_to_recover: int | None  # environment steps at the first evaluation back at the switch score; 0: never below
    last: float | None  # score of the latest evaluation, of either phase

    @property
    def dropped(self) -> bool:
        """Some online evaluation was below the score at the switch."""
        return self.unlearning_depth is not None and self.unlearning_depth < 0


@dataclass(frozen=True)
class Stat:
    """A number over the seeds that have it."""

    mean: float
    std: float | None  # sample standard deviation; None for a single seed
    values: tuple[float, ...]


@dataclass(frozen=True)
class Summary:
    """One run over its seeds."""

    folder: Path
    task: str
    method: str
    finished: bool
    seeds: tuple[SeedSummary, ...]

    def values(self, name: Number) -> tuple[float, ...]:
        found = (getattr(seed, name) for seed in self.seeds)
        return tuple(float(value) for value in found if value is not None)

    def stat(self, name: Number) -> Stat | None:
        """Mean and spread over seeds; None where no seed has the number."""
        values = self.values(name)
        if not values:
            return None
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return Stat(float(np.mean(values)), spread, values)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every seed, and mean and spread of every number."""
        stats = {name: self.stat(name) for name in NUMBERS}
        return {
            "task": self.task,
            "method": self.method,
            "finished": self.finished,
            "over_seeds": {
                name: None if stat is None else {"mean": stat.mean, "std": stat.std, "seeds": len(stat.values)}
                for name, stat in stats.items()
            },
            "seeds": [asdict(seed) for seed in self.seeds],
        }


def summarise(run: Run | Path | str) -> Summary:
    """The summary of a run folder."""
    read = run if isinstance(run, Run) else read_run(run)
    every = int(read.option("evaluate_online_every") or 0)
    seeds = tuple(
        summarise_seed(rows, online_steps=read.online_steps, every=every)
        for rows in map(read.of_seed, read.seeds)
        if rows
    )
    return Summary(read.folder, read.task, read.method, read.finished, seeds)


def summarise_seed(rows: Sequence[Row], *, online_steps: int, every: int = 0) -> SeedSummary:
    """The numbers of one seed from its rows in order; evaluations without a score are passed over."""
    scored = [row for row in rows if row["score"] is not None]
    online = [row for row in scored if row["phase"] == "online"]
    offline = [row for row in scored if row["phase"] != "online"]
    before = _score_at_switch(offline, fine_tunes=online_steps > 0)
    scores = [float(row["score"]) for row in online]
    early = [float(row["score"]) for row in online if _due(row, every) <= EARLY * online_steps]
    return SeedSummary(
        seed=int(rows[0]["seed"]),
        before=before,
        worst_early=min(early, default=None),
        after=scores[-1] if scores else None,
        regret=float(np.mean([1.0 - score for score in scores])) if scores else None,
        unlearning_depth=min(scores) - before if scores and before is not None else None,
        steps_to_recover=None if before is None else _steps_to_recover(online, before),
        last=float(scored[-1]["score"]) if scored else None,
    )


def _score_at_switch(offline: Sequence[Row], *, fine_tunes: bool) -> float | None:
    """The evaluation marked as the switch; a run that never fine-tunes ends where it would have been."""
    at_switch = [row for row in offline if row.get("switch")]
    if not at_switch and not fine_tunes:
        at_switch = list(offline)
    return float(at_switch[-1]["score"]) if at_switch else None


def _due(row: Row, every: int) -> int:
    """Environment steps at which an evaluation fell due: it waits for the end of the trajectory under way."""
    steps = int(row["env_steps"])
    return steps // every * every if every > 0 else steps


def _steps_to_recover(online: Sequence[Row], before: float) -> int | None:
    """Where the score is first back at `before` after first falling below it; 0: never below, None: not yet back."""
    if not online:
        return None
    below = False
    for row in online:
        if row["score"] < before:
            below = True
        elif below:
            return int(row["env_steps"])
    return None if below else 0
