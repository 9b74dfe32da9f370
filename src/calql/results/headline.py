"""The first sentences of a report: what happened to the score at the switch and after, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from calql.results import logs_alone
from calql.results.runs import RecordedRun
from calql.results.summary import Number, SeedSummary, Stat, Summary

LITTLE = 0.005  # below what two decimals show


def headline(run: RecordedRun, summary: Summary) -> str:
    """Score before and after, whether it fell in between, by how much, and what one evaluation can resolve."""
    last = summary.stat("last")
    if last is None:
        return logs_alone.lead(run.rows) or "No evaluation yet."
    before, after = summary.stat("before"), summary.stat("after")
    so_far = "" if run.finished else " so far"
    if after is None:
        what = "Offline pre-training reached" if summary.values("before") else "Pre-training is at"
        return f"{what} a score of {last.mean:.2f}{_seeds(summary)}{so_far}; there is no fine-tuning yet."
    steps = max(int(row["env_steps"]) for row in run.rows)
    if before is None:
        return f"The score is {after.mean:.2f} after {steps:,} environment steps{_seeds(summary)}{so_far}."
    verb = "rose" if after.mean > before.mean + LITTLE else "fell" if after.mean < before.mean - LITTLE else "stayed"
    change = f"{verb} from {before.mean:.2f} at the switch to {after.mean:.2f}"
    if verb == "stayed":
        change = f"was {before.mean:.2f} at the switch and is {after.mean:.2f}"
    time = f"after {steps:,} environment steps of fine-tuning{_seeds(summary)}{so_far}"
    return f"The score {change} {time}. {_drop(summary)}"


def _drop(summary: Summary) -> str:
    """What happened in between. Seeds count one by one: each against its own score at the switch."""
    depth = summary.stat("unlearning_depth")
    if depth is None:
        return ""
    fallen, back = [seed for seed in summary.seeds if seed.fell], summary.count("came back")
    count, by = len(summary.seeds), f"by more than {summary.tolerance:.2f}"
    if not fallen:
        who = "the score was never" if count == 1 else "no seed was ever"
        return f"After the switch {who} below its value there {by}."
    if count == 1:
        steps = fallen[0].steps_to_recover
        again = f"and was back for good {steps:,} environment steps later" if back else "and was not back by the end"
        return f"In between it fell by {-depth.mean:.2f} below the switch {again}."
    return (
        f"In between, {len(fallen)} of {count} seeds ({_list(fallen)}) fell below their score at the switch {by}, "
        f"by {-min(depth.values):.2f} at worst; {_back(back, len(fallen))} came back for good."
    )


def _back(count: int, fallen: int) -> str:
    return "none" if not count else "all" if count == fallen else f"{count} of these {fallen}"


def _list(seeds: Sequence[SeedSummary]) -> str:
    shown = [str(seed.seed) for seed in seeds[:6]]
    return ", ".join([*shown, "..."] if len(seeds) > 6 else shown)


def resolution(run: RecordedRun) -> str:
    """How much of a dip may be chance; without an environment, what the numbers cannot tell."""
    if logs_alone.assessed(run.rows):
        return logs_alone.WARNING
    episodes = run.option("evaluation_episodes")
    if not isinstance(episodes, int) or episodes < 1:
        return ""
    return (
        f"One evaluation has {episodes} episodes, so a single one, where it is a success rate, is uncertain by up to "
        f"±{0.5 / episodes**0.5:.2f} (one standard error), and the lowest of many evaluations reads low by chance."
    )


def comparison(names: Sequence[str], summaries: Sequence[Summary]) -> str:
    """Several runs in a few sentences: who ends highest, who paid least, who fell. Unfinished runs do not compare."""
    scored = [(name, each) for name, each in zip(names, summaries, strict=True) if each.finished and each.stat("after")]
    left_out = len(names) - len(scored)
    aside = f" {left_out} of {len(names)} runs left out: not finished, or never fine-tuned." if left_out else ""
    if len(scored) < 2:
        return f"Fewer than two finished runs: nothing to rank yet.{aside}"
    best, second = _ranked(scored, "after", sign=-1)[:2]
    least = _ranked(scored, "regret", sign=1)[0]
    close = best[1].mean - second[1].mean < max(best[1].std or 0.0, second[1].std or 0.0)
    near = f", though {second[0]} ({second[1].mean:.2f}) is within the spread over seeds" if close else ""
    text = f"{best[0]} ends highest ({best[1].mean:.2f}){near}. {least[0]} has the least regret ({least[1].mean:.2f})."
    return _falls(scored) + text + aside


def _falls(scored: Sequence[tuple[str, Summary]]) -> str:
    """Who paid for going online, deepest first."""
    ranked = _ranked(scored, "unlearning_depth", sign=1)
    depths = ", ".join(f"{name} {stat.mean:+.2f}" for name, stat in ranked)
    return f"Lowest score after the switch, against the score at it: {depths} (means over seeds). " if ranked else ""


def _ranked(scored: Sequence[tuple[str, Summary]], number: Number, *, sign: int) -> list[tuple[str, Stat]]:
    found = [(name, stat) for name, summary in scored if (stat := summary.stat(number)) is not None]
    return sorted(found, key=lambda each: sign * each[1].mean)


def _seeds(summary: Summary) -> str:
    return " (one seed)" if len(summary.seeds) == 1 else f" (mean of {len(summary.seeds)} seeds)"
