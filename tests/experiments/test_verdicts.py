"""One rule for the marks: what is reproduced, differs, is at reduced scale, or was not run."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_tables import Made, write_tidy

from calql.experiments.analysis.evaluations import Result, read_results
from calql.experiments.analysis.verdicts import Mark, judge
from calql.experiments.cells import CellStatus
from calql.results.statistics import Estimate

NEAR, FAR = Estimate(0.90, 0.85, 0.95), Estimate(0.60, 0.55, 0.65)


@pytest.fixture
def result(tmp_path: Path):
    def make(**changes: object) -> Result:
        (read,) = read_results(write_tidy(tmp_path / "results.csv", [Made("door-binary", "cal-ql", **changes)]))
        return read

    return make


def status(state: str, reason: str = "") -> CellStatus:
    return CellStatus("cell", "door-binary", "cal-ql", "", state, reason)


def test_within_every_interval_is_reproduced_and_one_number_outside_differs(result):
    assert judge(result(), None, [(NEAR, 0.92), (FAR, 0.56)]).mark is Mark.REPRODUCED
    assert judge(result(), None, [(NEAR, 0.92), (FAR, 0.92)]).mark is Mark.DIFFERS


def test_the_interval_is_widened_by_the_papers_rounding(result):
    assert judge(result(), None, [(NEAR, 0.954)]).mark is Mark.REPRODUCED
    assert judge(result(), None, [(NEAR, 0.956)]).mark is Mark.DIFFERS


@pytest.mark.parametrize("changes", [{"short": True}, {"scale": "small"}, {"seeds": 1}])
def test_reduced_scale_is_said_whatever_the_numbers(result, changes):
    for paper in (0.90, 0.10):
        verdict = judge(result(**changes), status("finished"), [(NEAR, paper)])
        assert verdict.mark is Mark.REDUCED
        assert verdict.reason


def test_without_a_number_in_the_paper_nothing_is_claimed(result):
    assert judge(result(), None, [(NEAR, None)]).mark is Mark.NO_NUMBER
    assert judge(result(), None, [(None, 0.5)]).mark is Mark.NO_NUMBER


def test_what_did_not_finish_was_not_run_and_says_why(result):
    assert str(judge(None, None, [(None, 0.5)])) == "not run"
    assert str(judge(None, status("not run"), [])) == "not run"
    assert str(judge(None, status("failed", "out of memory"), [])) == "not run (failed: out of memory)"
    assert str(judge(result(finished=False), status("running"), [(NEAR, 0.9)])) == "not run (running)"
    assert str(judge(result(finished=False), None, [(NEAR, 0.9)])) == "not run (not finished)"
