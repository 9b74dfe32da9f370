"""The first sentences of a report: what happened to the score at the switch and after, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from calql.results import logs_alone
from calql.results.divergence import Watch
from calql.results.runs import RecordedRun
from calql.results.summary import Number, SeedSummary, Stat, Summary

LITTLE = 0.005  # below what two decimals show


def headline(run: RecordedRun, summary: Summary) -> str:
    """Score before and after, whether it fell in between and by how much; and whether a seed runs away."""
    return " ".join(each for each in (_score(run, summary), _running_away(run)) if each)


def _running_away(run: RecordedRun) -> str:
    watch = Watch.of_config(run.config)
    watch.note(run.rows)
    count, several = len(watch.alarms), len(run.seeds) > 1
    who = f"{count} of {len(run.seeds)} seeds run" if several else "It runs"
    return f"{who} away, so these scores may not hold: under 'What looks suspicious' stands what to try." * bool(count)


def _score(run: RecordedRun, summary: Summary) -> str:
    last = summary.stat("last")
    if last is None:
        return logs_alone.lead(run.rows) or "No evaluation yet."
    before, after = summary.stat("before"), summary.stat("after")
    so_far = "" if run.finished else " so far"
    if after is None:
        what = "Offline pre-training reached" if summary.values("before") else "Pre-training is at"
        then = "there is no fine-tuning yet" if summary.fine_tunes else "this run has no online phase"
        return f"{what} a score of {last.mean:.2f}{_seeds(summary)}{so_far}; {then}."
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
    """Several runs in a few sentences: who ends highest, who paid least, who fell. Unfinished runs do not compare.

    Runs without an online phase end with what they learned offline.
    """
    named = zip(names, summaries, strict=True)
    scored = [(name, each) for name, each in named if each.finished and each.stat(_end(each))]
    aside = _aside(scored, len(names))
    if len(scored) < 2:
        return f"Fewer than two finished runs: nothing to rank yet.{aside}"
    ends = [(name, stat) for name, each in scored if (stat := each.stat(_end(each))) is not None]
    best, second = sorted(ends, key=lambda end: -end[1].mean)[:2]
    close = best[1].mean - second[1].mean < max(best[1].std or 0.0, second[1].std or 0.0)
    near = f", though {second[0]} ({second[1].mean:.2f}) is within the spread over seeds" if close else ""
    text = f"{best[0]} ends highest ({best[1].mean:.2f}){near}."
    return _falls(scored) + text + _least_regret(scored) + aside


def _end(summary: Summary) -> Number:
    """The number that a run is ranked by."""
    return "after" if summary.fine_tunes else "before"


def _aside(scored: Sequence[tuple[str, Summary]], count: int) -> str:
    """Which runs do not compare, or not in everything."""
    offline, left_out = [name for name, each in scored if not each.fine_tunes], count - len(scored)
    whose = "has no online phase: ranked by its" if len(offline) == 1 else "have no online phase: ranked by their"
    text = f" {_in_a_row(offline)} {whose} score after training offline." if offline else ""
    aside = f" {left_out} of {count} runs left out: not finished, or without a score to rank by."
    return text + (aside if left_out else "")


def _in_a_row(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _least_regret(scored: Sequence[tuple[str, Summary]]) -> str:
    ranked = _ranked(scored, "regret", sign=1)
    return f" {ranked[0][0]} has the least regret ({ranked[0][1].mean:.2f})." if len(ranked) > 1 else ""


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
