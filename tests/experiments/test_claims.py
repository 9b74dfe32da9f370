"""The paper's claims as checks: rules at their edges by hand, and cells that must answer yes, no and not decided."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from synthetic_tables import Made, write_tidy

from calql.experiments.analysis.checks import Answer, alike, below, falls
from calql.experiments.analysis.claims import DIVERSE, NARROW, Finding, find_claims
from calql.experiments.analysis.evaluations import read_results
from calql.experiments.analysis.facts import facts_of

CURE = "CQL falls at the switch and Cal-QL does not"
REGRET = "Cal-QL's regret is below CQL's"


def same(value: float, seeds: int = 4) -> np.ndarray:
    """Seeds that agree, so that the interval is the value itself."""
    return np.full(seeds, value)


def test_the_smaller_is_below_and_a_draw_is_not_decided():
    assert below(same(0.2), same(0.3)) == (Answer.YES, "difference -0.10 [-0.10, -0.10]")
    assert below(same(0.3), same(0.2))[0] is Answer.NO
    assert below(same(0.3), same(0.3))[0] is Answer.OPEN
    spread = np.array([0.0, 1.0, 0.0, 1.0])
    assert below(spread, same(0.6))[0] is Answer.OPEN


def test_fewer_than_four_seeds_decide_nothing():
    assert below(same(0.2, 3), same(0.9))[0] is Answer.OPEN
    assert alike(same(0.2, 3), same(0.2))[0] is Answer.OPEN
    assert falls(same(-0.9, 3), 0.1) is Answer.OPEN
    assert below(None, same(0.9))[0] is Answer.OPEN


@pytest.mark.parametrize(("gap", "answer"), [(0.0, "YES"), (0.0999, "YES"), (0.1001, "NO"), (-0.2, "NO")])
def test_alike_is_within_a_tenth(gap, answer):
    assert alike(same(0.5 + gap), same(0.5))[0] is Answer[answer]


def test_alike_is_not_decided_across_a_tenth():
    assert alike(np.array([0.5, 0.7, 0.5, 0.7]), same(0.5))[0] is Answer.OPEN  # 0.1 and its interval on both sides


@pytest.mark.parametrize(("depth", "answer"), [(0.2, "NO"), (-0.1, "NO"), (-0.1001, "YES"), (-0.9, "YES")])
def test_a_fall_is_more_than_the_tolerance(depth, answer):
    assert falls(same(depth), 0.1) is Answer[answer]


def found(folder: Path, *cells: Made, tasks: tuple[str, ...] = ("door-binary",)) -> dict[str, Finding]:
    results = read_results(write_tidy(folder / "results.csv", cells))
    facts = [cell for result in results if (cell := facts_of(result)) is not None]
    return {f"{each.claim}, {each.task}": each for each in find_claims(facts, tasks)}


def cell(method: str, dip: float = 0.0, task: str = "door-binary", **changes: object) -> Made:
    return Made(task, method, before=0.8, after=0.9, dip=dip, noise=0.0, **changes)


def test_cql_that_falls_beside_cal_ql_that_does_not_is_a_yes(tmp_path):
    said = found(tmp_path, cell("cal-ql"), cell("cql", dip=0.6))
    assert said[f"{CURE}, door-binary"].answer is Answer.YES
    assert said[f"{REGRET}, door-binary"].answer is Answer.YES


def test_both_falling_or_neither_is_a_no(tmp_path):
    assert found(tmp_path, cell("cal-ql", dip=0.6), cell("cql", dip=0.6))[f"{CURE}, door-binary"].answer is Answer.NO
    said = found(tmp_path, cell("cal-ql"), cell("cql"))
    assert said[f"{CURE}, door-binary"].answer is Answer.NO
    assert said[f"{REGRET}, door-binary"].answer is Answer.OPEN  # equal


def test_who_has_nothing_to_lose_decides_nothing(tmp_path):
    poor = Made("door-binary", "cql", before=0.05, after=0.0, noise=0.0)
    finding = found(tmp_path, cell("cal-ql"), poor)[f"{CURE}, door-binary"]
    assert finding.answer is Answer.OPEN
    assert "too little to lose" in finding.why


def test_cells_of_another_length_are_not_compared(tmp_path):
    said = found(tmp_path, cell("cal-ql"), cell("cql", dip=0.6, online=50_000))
    assert said[f"{CURE}, door-binary"].why == "not run"


def test_the_lowest_regret_names_who_is_below(tmp_path):
    said = found(
        tmp_path, cell("cal-ql"), cell("cql", dip=0.6), Made("door-binary", "iql", before=0.9, after=1.0, noise=0.0)
    )
    finding = said["Cal-QL's regret is the lowest of all methods, door-binary"]
    assert (finding.answer, finding.why) == (Answer.NO, "below it: IQL")


def test_narrow_against_diverse_data(tmp_path):
    narrow = [cell("cal-ql", task=NARROW), cell("cql", dip=0.6, task=NARROW)]
    diverse = [cell("cal-ql", task=DIVERSE), cell("cql", task=DIVERSE)]
    said = found(tmp_path, *narrow, *diverse, tasks=(NARROW, DIVERSE))
    assert said[f"calibration helps more on narrow data than on diverse, {NARROW}"].answer is Answer.YES
    assert said[f"on diverse data Cal-QL and CQL are alike, {DIVERSE}"].answer is Answer.YES
    assert said[f"the bound acts more on narrow data than on diverse, {NARROW}"].answer is Answer.OPEN  # made alike


def test_mixing_reference_and_update_ratio(tmp_path):
    cells = [
        cell("cal-ql", variant="mixing=0.25"),
        cell("cal-ql", dip=0.6),
        cell("cal-ql-utd20", variant="utd=20"),
        cell("rlpd", dip=0.6, variant="utd=20", offline=0),
        cell("cal-ql", task="kitchen-partial"),
        cell("cal-ql", task="kitchen-partial", variant="reference=regression"),
    ]
    said = found(tmp_path, *cells, tasks=("door-binary", "kitchen-partial"))
    answers = {claim: finding.answer for claim, finding in said.items() if finding.why != "not run"}
    assert answers == {
        "more offline data in a batch slows fine-tuning (a quarter against a half), door-binary": Answer.YES,
        "a regressed reference value does as well, kitchen-partial": Answer.YES,
        "at 20 updates a step Cal-QL's regret is below RLPD's, door-binary": Answer.YES,
    }
