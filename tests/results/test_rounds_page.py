"""Scores by round: intervals, the warning about a round that got worse, the table and the page."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from calql.results.rounds import RoundSummary, rounds_table, warnings, wilson, worse, write_page


def summary(number: int, returns: list[float], **more: object) -> RoundSummary:
    known = {
        "parent": number - 1 if number else None, "ended": True, "present": False, "on_line": True, "episodes": 4,
        "steps": 40, "returns": returns, "successes": [value > 0.5 for value in returns],
    }  # fmt: skip
    return RoundSummary(number, **{**known, **more})  # type: ignore[arg-type]


def test_wilsons_interval_by_hand() -> None:
    """Of 8 in 10: (0.8 + 1.92/10) / (1 + 3.84/10), and so on; of 0 in 4 the upper end is z^2 / (4 + z^2)."""
    found = wilson(8, 10)
    assert (found.value, found.low, found.high) == pytest.approx((0.8, 0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 4).high == pytest.approx(3.8415 / 7.8415, abs=1e-4)
    assert wilson(4, 4).high == pytest.approx(1.0)


def test_a_round_that_got_worse_is_named_with_the_way_back() -> None:
    good, bad = [1.0, 0.9, 1.0, 0.8, 1.0], [0.1, 0.0, 0.2, 0.0, 0.1]
    rounds = [summary(0, bad), summary(1, good), summary(2, bad, present=True)]
    (text,) = warnings(rounds, "arm")
    assert text.startswith("round 2 did worse than round 1: mean return 0.08")
    assert text.endswith("go back with: calql round back arm 1")
    assert not worse(summary(2, good), summary(1, good))
    assert not worse(summary(2, [0.0]), summary(1, good))  # one episode says nothing
    assert warnings([summary(0, good), summary(1, bad, on_line=False)], "arm") == []


def test_the_table_and_the_page(tmp_path: Path) -> None:
    rounds = [
        summary(0, [0.0, 1.0, 1.0]),
        summary(1, [1.0, 1.0], on_line=False),
        summary(2, [], parent=0, present=True),
    ]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(rounds_table(rounds))
    said = console.export_text()
    assert "(1)" in said
    assert "2*" in said
    assert "0.667" in said
    assert "0 to 1" in said
    assert max(map(len, said.splitlines())) <= 80
    console.print(rounds_table([replace(each, returns=[-54.04, -26.62, -12.0]) for each in rounds]))
    assert "…" not in console.export_text()
    (tmp_path / "a<b>").mkdir()
    page = write_page(rounds, tmp_path / "a<b>" / "report.html")
    text = page.read_text()
    assert {"Return by round", "Success by round"} <= {each.split("<")[0] for each in text.split("<h4>")}
    assert "<b>" not in text.split("<main>")[1].split("</h1>")[0]
    assert (
        "No policy of this project has collected an episode yet."
        in write_page([summary(0, [])], tmp_path / "empty.html").read_text()
    )
