"""The result table: mean and spread over seeds, then each seed, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from calql.results.summary import NUMBERS, Number, SeedSummary, Summary

HEADINGS: dict[Number, str] = {
    "before": "before",
    "worst_early": "worst early",
    "after": "after",
    "regret": "regret",
    "unlearning_depth": "unlearning depth",
    "steps_to_recover": "steps to recover",
}
MEANINGS: dict[Number, str] = {
    "before": "score at the switch from offline to online",
    "worst_early": "worst score in the first fifth of fine-tuning",
    "after": "score of the last online evaluation",
    "regret": "mean over online evaluations of 1 - score; lower is better",
    "unlearning_depth": "worst online score minus score at the switch; below 0: it fell",
    "steps_to_recover": "environment steps until back at the switch score; 0: never below it",
}


def result_table(summaries: Sequence[Summary], *, per_seed: bool = True) -> Table:
    """One block per run: the mean ± standard deviation over seeds, and each seed below."""
    tasks = {summary.task for summary in summaries}
    table = Table(
        title=f"{tasks.pop() if len(tasks) == 1 else 'Results'}: mean ± standard deviation over seeds",
        caption="worst early: worst score in the first fifth of fine-tuning; regret: mean of 1 - score online",
        title_style="bold",
        caption_style="dim",
    )
    table.add_column("run")
    for name in NUMBERS:
        table.add_column(HEADINGS[name], justify="right")
    for summary in summaries:
        name = summary.method if len({s.task for s in summaries}) == 1 else f"{summary.method} · {summary.task}"
        title = Text(name, style="bold") + Text("" if summary.finished else " (unfinished)", style="yellow")
        table.add_row(title, *(cell(summary, number) for number in NUMBERS), end_section=not per_seed)
        if per_seed:
            for place, seed in enumerate(summary.seeds, start=1):
                cells = (Text(seed_cell(seed, number), style="dim") for number in NUMBERS)
                table.add_row(Text(f"  seed {seed.seed}", style="dim"), *cells, end_section=place == len(summary.seeds))
    return table


def cell(summary: Summary, name: Number) -> str:
    """A number over seeds, as text."""
    stat = summary.stat(name)
    if name == "steps_to_recover":
        return _recovery(summary)
    if stat is None:
        return "-"
    return signed(stat.mean, name) + ("" if stat.std is None else f" ± {stat.std:.2f}")


def seed_cell(seed: SeedSummary, name: Number) -> str:
    """A number of one seed, as text."""
    value = getattr(seed, name)
    if value is None:
        return "never" if name == "steps_to_recover" and seed.dropped else "-"
    return f"{value:,}" if name == "steps_to_recover" else signed(value, name)


def signed(value: float, name: Number) -> str:
    return f"{value:+.2f}" if name == "unlearning_depth" else f"{value:.2f}"


def _recovery(summary: Summary) -> str:
    """Mean over the seeds that came back (or never fell), and how many did not."""
    stat = summary.stat("steps_to_recover")
    fallen = sum(seed.dropped and seed.steps_to_recover is None for seed in summary.seeds)
    if stat is None:
        return "never" if fallen else "-"
    return f"{stat.mean:,.0f}" + (f" ({fallen} of {len(summary.seeds)} never)" if fallen else "")
