"""The result table: mean and spread over seeds, then each seed, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from calql.results.runs import labels
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
    "steps_to_recover": "environment steps from the first evaluation in a fall until the score is back for good; "
    "(2/3): 3 seeds fell, 2 came back, and the number is their mean",
}

CAPTION = (
    "worst early: worst score in the first fifth of fine-tuning. regret: mean over online evaluations of 1 - score. "
    "unlearning depth: worst online score minus score before."
)
FALLS = (
    " steps to recover: from the first score more than {tolerance:.2f} below the switch until none is; (2/3): 3 seeds "
    "fell, 2 came back for good, and the number is their mean."
)

NONE_EARLY = (
    " worst early is - where no evaluation fell in that fifth: a smaller --evaluate-online-every has one there."
)


def result_table(summaries: Sequence[Summary], *, per_seed: bool = True) -> Table:
    """One block per run: the mean ± standard deviation over seeds, and each seed below; fits 80 columns."""
    tasks = sorted({summary.task for summary in summaries})
    fell = [summary.tolerance for summary in summaries if any(seed.fell for seed in summary.seeds)]
    missing = any(seed.worst_early is None and seed.after is not None for each in summaries for seed in each.seeds)
    table = Table(
        title=Text(f"{tasks[0] if len(tasks) == 1 else 'Results'}: mean ± standard deviation over seeds"),
        caption=CAPTION + (FALLS.format(tolerance=max(fell)) if fell else "") + (NONE_EARLY if missing else ""),
        title_style="bold",
        caption_style="dim",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("run", overflow="fold", min_width=10)
    for number in NUMBERS:
        table.add_column("\n".join(HEADINGS[number].rsplit(" ", 1)), justify="right", no_wrap=True)
    for summary, name in zip(summaries, _names(summaries, with_task=len(tasks) > 1), strict=True):
        _add_run(table, summary, name, per_seed)
    return table


def _names(summaries: Sequence[Summary], *, with_task: bool) -> list[str]:
    """What tells the runs apart, and the task in any case where there are several."""
    names = [label.replace(" · ", "\n") for label in labels(summaries)]
    tasks = [f"\n{each.task}" if with_task else "" for each in summaries]
    return [name if name.endswith(task) else name + task for name, task in zip(names, tasks, strict=True)]


def _add_run(table: Table, summary: Summary, name: str, per_seed: bool) -> None:
    title = Text(name, style="bold") + Text("" if summary.finished else "\nunfinished", style="yellow")
    table.add_row(title, *(cell(summary, number).replace(" ± ", "±") for number in NUMBERS))
    for seed in summary.seeds if per_seed else ():
        cells = (Text(seed_cell(seed, number), style="dim") for number in NUMBERS)
        table.add_row(Text(f"  seed {seed.seed}", style="dim"), *cells)
    table.add_section()


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
    if name == "steps_to_recover":
        return (
            f"{value:,}"
            if value is not None
            else {"never fell": "no fall", "not back": "never"}.get(seed.recovery or "", "-")
        )
    return "-" if value is None else signed(value, name)


def signed(value: float, name: Number) -> str:
    return f"{value:+.2f}" if name == "unlearning_depth" else f"{value:.2f}"


def _recovery(summary: Summary) -> str:
    """Mean over the seeds that fell and came back, and how many of those that fell they are."""
    stat, back = summary.stat("steps_to_recover"), summary.count("came back")
    fell = back + summary.count("not back")
    if not fell:
        return "no fall" if summary.count("never fell") else "-"
    return f"{'never' if stat is None else f'{stat.mean:,.0f}'} ({back}/{fell})"
