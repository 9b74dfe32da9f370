"""One rule for the marks: what agrees with the paper, is better or worse, is not decided, or was not run."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_tables import Made, write_tidy

from calql.experiments.analysis.evaluations import Result, read_results
from calql.experiments.analysis.verdicts import Mark, judge
from calql.experiments.cells import CellStatus
from calql.results.statistics import Estimate

NEAR, FAR = Estimate(0.90, 0.85, 0.95), Estimate(0.60, 0.55, 0.65)
BOTH = ("before", "after")


@pytest.fixture
def result(tmp_path: Path):
    def make(**changes: object) -> Result:
        (read,) = read_results(write_tidy(tmp_path / "results.csv", [Made("door-binary", "cal-ql", **changes)]))
        return read

    return make


def status(state: str, reason: str = "") -> CellStatus:
    return CellStatus("cell", "door-binary", "cal-ql", "", state, reason)


def test_within_every_interval_agrees_and_one_number_outside_says_on_which_side(result):
    ours = {"before": NEAR, "after": FAR}
    assert judge(result(), None, ours, {"before": 0.92, "after": 0.56}, BOTH).mark is Mark.AGREES
    verdict = judge(result(), None, ours, {"before": 0.92, "after": 0.92}, BOTH)
    assert (verdict.mark, verdict.reason) == (Mark.WORSE, "after")
    assert judge(result(), None, ours, {"before": 0.92, "after": 0.40}, BOTH).mark is Mark.BETTER
    assert judge(result(), None, ours, {"before": 0.99, "after": 0.40}, BOTH).mark is Mark.WORSE  # one on each side


def test_the_interval_is_widened_by_the_papers_rounding(result):
    assert judge(result(), None, {"after": NEAR}, {"after": 0.954}, BOTH).mark is Mark.AGREES
    assert judge(result(), None, {"after": NEAR}, {"after": 0.956}, BOTH).mark is Mark.WORSE
    assert judge(result(), None, {"after": NEAR}, {"after": 0.844}, BOTH).mark is Mark.BETTER


def test_a_lower_regret_is_better(result):
    assert judge(result(), None, {"regret": FAR}, {"regret": 0.9}, ["regret"]).mark is Mark.BETTER
    assert judge(result(), None, {"regret": FAR}, {"regret": 0.1}, ["regret"]).mark is Mark.WORSE


def test_half_of_the_steps_may_agree_or_be_better_but_not_worse(result):
    short = result(short=True)  # as many updates as the paper's, half of its steps
    assert judge(short, None, {"after": NEAR}, {"after": 0.9}, BOTH).mark is Mark.AGREES
    assert judge(short, None, {"after": NEAR}, {"after": 0.5}, BOTH).mark is Mark.BETTER
    worse = judge(short, None, {"after": FAR}, {"after": 0.9}, BOTH)
    assert (worse.mark, worse.reason) == (Mark.NOT_DECIDED, "after: worse, with 50% of the steps")
    before = judge(short, None, {"before": FAR}, {"before": 0.9}, BOTH)
    assert before.mark is Mark.WORSE  # the score before fine-tuning has nothing to wait for
    fallen = judge(short, None, {"after": NEAR}, {"before": 0.55, "after": 0.13}, ["after"])
    assert fallen.mark is Mark.NOT_DECIDED  # the paper's own falls with more steps
    assert "where the paper's falls online" in fallen.reason


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scale": "small"}, "scale small"),
        ({"seeds": 1}, "one seed has no interval"),
        ({"seeds": 3}, "3 seeds"),
        ({"short": True, "online": 100_000, "part": 25}, "4% of the steps"),
    ],
)
def test_too_little_decides_nothing_whatever_the_numbers(result, changes, why):
    for paper in (0.90, 0.10):
        verdict = judge(result(**changes), status("finished"), {"after": NEAR}, {"after": paper}, BOTH)
        assert (verdict.mark, verdict.reason) == (Mark.NOT_DECIDED, why)


def test_a_twentieth_of_the_steps_is_enough(result):
    assert judge(result(short=True, part=20), None, {"after": NEAR}, {"after": 0.9}, BOTH).mark is Mark.AGREES


def test_code_from_before_a_correction_decides_nothing(result):
    verdict = judge(result(), None, {"after": NEAR}, {"after": 0.9}, BOTH, older="a bug was found")
    assert str(verdict) == "not decided (made before a bug was found)"


def test_without_a_number_in_the_paper_nothing_is_claimed(result):
    assert judge(result(), None, {"after": NEAR}, {}, BOTH).mark is Mark.NO_NUMBER
    assert judge(result(), None, {}, {"after": 0.5}, BOTH).mark is Mark.NO_NUMBER


def test_what_did_not_finish_was_not_run_and_says_why(result):
    assert str(judge(None, None, {}, {"after": 0.5}, BOTH)) == "not run"
    assert str(judge(None, status("not run"), {}, {}, BOTH)) == "not run"
    assert str(judge(None, status("failed", "out of memory"), {}, {}, BOTH)) == "not run (failed: out of memory)"
    assert str(judge(result(finished=False), status("running"), {}, {}, BOTH)) == "not run (running)"
    assert str(judge(result(finished=False), None, {}, {}, BOTH)) == "not run (not finished)"
