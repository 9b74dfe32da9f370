"""What looks suspicious in a run, in plain words and computed from its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calql.methods.vocabulary import AVERAGE_Q, AVERAGE_RETURN_TO_GO, BOUND_RATE, ENTROPY, in_family
from calql.results.divergence import Rule as Broken
from calql.results.divergence import Watch
from calql.results.metrics import Row
from calql.results.remedies import remedies
from calql.results.runs import RecordedRun
from calql.results.summary import Summary

Level = Literal["problem", "notice"]


@dataclass(frozen=True)
class Finding:
    """One thing worth a look: a `problem` puts the result in doubt, a `notice` limits what it says."""

    level: Level
    title: str
    text: str


Rule = Callable[[RecordedRun, Summary], Iterator[Finding]]


def diagnose(run: RecordedRun, summary: Summary) -> list[Finding]:
    """Every finding, problems first."""
    found = [finding for rule in RULES for finding in rule(run, summary)]
    return sorted(found, key=lambda finding: finding.level != "problem")


def _unfinished(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    if run.finished:
        return
    reason = run.status.get("reason")
    if reason == "diverged":
        text = "It cannot go on from what is not a number; the rows and the last sound checkpoint are kept."
        yield Finding("problem", "The run diverged", text)
        return
    yield Finding(
        "notice",
        "The run is not finished",
        f"It is still going on or was stopped{f' ({reason})' if reason else ''}: the numbers are those so far. "
        "'calql train --resume' goes on from the last checkpoint.",
    )


def _never_scored(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    best = {seed.seed: _best(run.of_seed(seed.seed)) for seed in summary.seeds}
    dead = [seed for seed, score in best.items() if score is not None and score <= 0.0]
    if dead and len(dead) == len(best):
        yield Finding(
            "problem",
            "The score never left 0",
            "No seed ever scored. Check that success is reported by the environment, that the data reach the goal, "
            "and that rewards of data and environment mean the same.",
        )
    elif dead:
        yield Finding(
            "problem",
            f"{len(dead)} of {len(best)} seeds never scored",
            f"Seeds {_list(dead)} stayed at 0 while others learned: the means hide two kinds of runs. "
            "Look at the seeds one by one.",
        )


def _worse_than_before(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    before, after = summary.stat("before"), summary.stat("after")
    if before and after and after.mean < before.mean - 0.05:
        yield Finding(
            "problem",
            "Fine-tuning ends below where it started",
            f"The mean score went from {before.mean:.2f} at the switch to {after.mean:.2f} at the last evaluation.",
        )


def _seeds_disagree(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    last = summary.stat("last")
    if last and last.std is not None and last.std > 0.25:
        yield Finding(
            "notice",
            "The seeds disagree",
            f"Last scores run from {min(last.values):.2f} to {max(last.values):.2f} "
            f"(standard deviation {last.std:.2f}): the mean stands for none of them. More seeds would tell.",
        )


def _q_against_returns(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    """Far is measured by the spread of the returns in the data."""
    for when, rows in (("at the switch", _at_switch(run)), ("at the last evaluation", _latest(run))):
        q, returns = _mean(rows, AVERAGE_Q), _mean(rows, AVERAGE_RETURN_TO_GO)
        if q is None or returns is None:
            continue
        far = max(1.5 * _spread_of_returns(run, returns), 1e-6)
        numbers = f"Average Q is {q:.4g} {when}, the average return-to-go of the same data {returns:.4g}."
        if q > returns + 2 * far:
            yield Finding(
                "problem", f"Q is far above the returns in the data {when}",
                f"{numbers} Some excess is expected of a policy better than the data; this much suggests "
                "overestimation.",
            )  # fmt: skip
        elif q < returns - far:
            yield Finding(
                "notice", f"Q is far below the returns in the data {when}",
                f"{numbers} The values are not calibrated: actions tried online look better than they are next to "
                "logged ones, which is how unlearning starts.",
            )  # fmt: skip


def _bound_rate(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    rate = _bound_rate_of(_latest(run))
    if rate is not None and rate > 0.95:
        yield Finding(
            "notice",
            f"Bound rate is {rate:.2f}",
            "Nearly every action of the policy is valued below the reference value. With calibration on, the "
            "regulariser no longer pushes these down at all; check that the reference values belong to the same "
            "rewards and discount as Q.",
        )


def _entropy(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    """Collapse is measured by the target, minus the number of action dimensions where it is not set."""
    action_dim = (run.config.get("dataset") or {}).get("action_dim")
    target = float(run.option("target_entropy") or 0.0)
    target = -float(action_dim) if target >= 0 and action_dim else target
    entropy = _mean(_latest(run), ENTROPY)
    if target < 0 and entropy is not None and entropy < 2.5 * target:
        yield Finding(
            "notice",
            "The policy has almost no entropy left",
            f"Entropy is {entropy:.3g}, its target {target:.3g}: the policy hardly explores. It can be right at the "
            "end of a solved task; early on it freezes learning.",
        )


RUNNING_AWAY: dict[Broken, tuple[str, str]] = {
    "value": ("Q leaves the possible range", "values this far off come of critics that overestimate or diverge."),
    "large error": ("TD error is large", "the critics do not fit their targets."),
    "growing error": (
        "TD error grows",
        "the critics may be diverging. Scores may look well for a while yet: earlier evaluations are worth more than "
        "the last.",
    ),
    "likelihood": ("The policy has left the data", "logged actions have become all but impossible under it."),
}


def _diverged(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    """Seeds that are frozen: their rows say so."""
    lost = {seed: rows[-1] for seed in run.seeds if (rows := run.of_seed(seed)) and "diverged_update" in rows[-1]}
    if not lost:
        return
    each = [
        f"seed {seed} at update {row['diverged_update']:,} (environment step {row['diverged_env_steps']:,})"
        for seed, row in lost.items()
    ]
    yield Finding(
        "problem",
        f"{len(lost)} of {len(run.seeds)} seeds diverged",
        f"An update gave what is not a number: {'; '.join(each)}. From there on a seed stays as it was before and "
        "learns no more; its rows go on with that policy, and count in every mean. What led there is told below.",
    )


def _running_away(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    """Of each seed by itself: the mean over seeds would hide which one, and when there are many, that any does."""
    watch = Watch.of_config(run.config)
    watch.note(run.rows)
    for rule, (title, text) in RUNNING_AWAY.items():
        alarms = [alarm for alarm in watch.alarms.values() if alarm.rule == rule]
        if not alarms:
            continue
        several = len(run.seeds) > 1
        who = f" in {len(alarms)} of {len(run.seeds)} seeds" if several and rule != "value" else ""
        named = f" Seeds: {_list([alarm.seed for alarm in alarms])}." if several else ""
        first = min(alarms, key=lambda alarm: alarm.update)
        of_seed = f"of seed {first.seed} " if several else ""
        told = remedies(first.signal, run.of_seed(first.seed), run.config.get("options") or {}, watch.width)
        noticed = f"First noticed {of_seed}when {first.text}; {text}{named}"
        yield Finding("problem", f"{title}{who}", f"{noticed} {told}".strip())


def _few(run: RecordedRun, summary: Summary) -> Iterator[Finding]:
    if 0 < len(summary.seeds) < 3:
        count = "one seed" if len(summary.seeds) == 1 else f"{len(summary.seeds)} seeds"
        yield Finding("notice", f"Only {count}", "Differences between runs of this kind are often larger than effects.")
    episodes = run.option("evaluation_episodes")
    if isinstance(episodes, int) and 0 < episodes < 10:
        yield Finding(
            "notice",
            f"Only {episodes} evaluation episodes",
            f"A score that is a success rate is uncertain by about ±{0.5 / np.sqrt(episodes):.2f} (one standard "
            "error); dips of that size may be chance.",
        )


RULES: tuple[Rule, ...] = (
    _unfinished,
    _never_scored,
    _worse_than_before,
    _diverged,
    _running_away,
    _q_against_returns,
    _bound_rate,
    _entropy,
    _seeds_disagree,
    _few,
)


def _best(rows: list[Row]) -> float | None:
    return max((float(row["score"]) for row in rows if row["score"] is not None), default=None)


def _at_switch(run: RecordedRun) -> list[Row]:
    return [row for row in run.rows if row.get("switch")]


def _latest(run: RecordedRun) -> list[Row]:
    """The last row of every seed, where it is not the switch."""
    last = [rows[-1] for seed in run.seeds if (rows := run.of_seed(seed))]
    return [row for row in last if not row.get("switch")]


def _mean(rows: list[Row], name: str) -> float | None:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else None


def _bound_rate_of(rows: list[Row]) -> float | None:
    names = in_family(BOUND_RATE, {name for row in rows for name in row})
    rates = [rate for name in names if (rate := _mean(rows, name)) is not None]
    return float(np.mean(rates)) if rates else None


def _spread_of_returns(run: RecordedRun, average: float) -> float:
    """Standard deviation of the return-to-go over logged states, but no less than a quarter of its average."""
    if run.calibration:
        returns = next(iter(run.calibration.values())).return_to_go
        return max(float(returns.std()), 0.25 * abs(average))
    return 0.5 * abs(average)


def _list(seeds: list[int]) -> str:
    return ", ".join(str(seed) for seed in seeds)
