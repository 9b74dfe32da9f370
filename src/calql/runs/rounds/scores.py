"""What each round of a project came to: its episodes by the ledger, its evaluation by the rows of its run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calql.methods.vocabulary import FQE_HIGH, FQE_LOW, FQE_VALUE
from calql.results.arms import by_member, member_of
from calql.results.logs_alone import assessed, best
from calql.results.metrics import Row, read_rows
from calql.results.rounds import RoundSummary
from calql.runs.rounds.branch import round_folder
from calql.runs.rounds.ledger import Ledger, Round
from calql.system.run_files import METRICS, STANDING


def summaries(project: Path, ledger: Ledger) -> list[RoundSummary]:
    """Every round that was ever begun."""
    line = {each.number for each in ledger.line(ledger.latest)}
    return [_summary(project, ledger, each, on_line=each.number in line) for each in ledger.rounds]


def _summary(project: Path, ledger: Ledger, each: Round, *, on_line: bool) -> RoundSummary:
    played = [entry for entry in ledger.entries.values() if entry.round == each.number]
    return RoundSummary(
        number=each.number,
        parent=each.parent,
        ended=each.ended is not None,
        present=each.number == ledger.current,
        on_line=on_line,
        episodes=len(each.episodes),
        steps=sum(ledger.entries[one].steps for one in each.episodes),
        returns=[entry.total for entry in played],
        successes=[entry.success for entry in played if entry.success is not None],
        evaluated=_evaluated(last_rows(round_folder(project, each.number))),
    )


def last_rows(folder: Path) -> list[Row]:
    """Of each seed, at the end of a round; of the first round, those of its last evaluation."""
    rows = read_rows(folder / STANDING) or read_rows(folder / METRICS)
    return [row for _, row in by_member({member_of(row): row for row in rows})]


def _evaluated(rows: list[Row]) -> str:
    """The mean score of its seeds in the environment; without one, the value of the seed to take."""
    scores = [row["score"] for row in rows if isinstance(row.get("score"), int | float)]
    if scores:
        return f"score {np.mean(scores):.2f}"
    chosen = best(rows)
    if chosen is None:
        return ""
    row = assessed(rows)[chosen]
    return f"value {row[FQE_VALUE]:.3g} ({row[FQE_LOW]:.3g} to {row[FQE_HIGH]:.3g})"
