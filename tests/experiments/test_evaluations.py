"""The tidy table read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_tables import Made, cell_lines, write_lines, write_tidy

from calql.experiments.analysis.evaluations import read_results
from calql.system.errors import UserError


def test_numbers_of_a_cell_without_noise_are_those_it_was_made_with(tmp_path):
    made = Made("door-binary", "cal-ql", before=0.5, after=0.5, noise=0.0)
    (result,) = read_results(write_tidy(tmp_path / "results.csv", [made]))
    assert result.values("after") == pytest.approx([0.5] * 4)
    assert result.values("regret") == pytest.approx([0.5] * 4)
    assert result.values("before") == pytest.approx([0.5 * (1 - np.exp(-4))] * 4)
    assert result.provenance["commit"] == "0123abc"
    assert (result.paper_offline, result.paper_online) == (20_000, 100_000)


def test_a_method_without_pre_training_has_no_score_before(tmp_path):
    (result,) = read_results(write_tidy(tmp_path / "results.csv", [Made("door-binary", "sac", offline=0)]))
    assert result.values("before") is None
    assert result.values("after") is not None


def test_an_evaluation_without_a_score_is_passed_over(tmp_path):
    lines = cell_lines(Made("door-binary", "cal-ql", seeds=1), "table-scores")
    lines[-1]["score"] = ""
    (result,) = read_results(write_lines(tmp_path / "results.csv", lines))
    assert result.values("after")[0] == pytest.approx(lines[-2]["score"])


@settings(max_examples=25, deadline=None)
@given(scores=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_regret_is_between_0_and_1_where_scores_are(scores, tmp_path_factory):
    lines = cell_lines(Made("door-binary", "cal-ql", seeds=1, evaluations=len(scores)), "table-scores")
    online = [line for line in lines if line["phase"] == "online"]
    for line, score in zip(online, scores, strict=True):
        line["score"] = score
    (result,) = read_results(write_lines(tmp_path_factory.mktemp("tidy") / "results.csv", lines))
    (regret,) = result.values("regret")
    assert 0.0 <= regret <= 1.0
    assert regret == pytest.approx(1 - np.mean(scores))


def test_cells_with_one_name_in_two_variants_stay_apart(tmp_path):
    lines = cell_lines(Made("door-binary", "iql", "mixing=0.2"), "fig-mixing")
    other = [line | {"variant": "mixing=0.5"} for line in lines]
    found = read_results(write_lines(tmp_path / "results.csv", [*lines, *other]))
    assert [result.variant for result in found] == ["mixing=0.2", "mixing=0.5"]


def test_a_table_of_something_else_is_refused(tmp_path: Path):
    table = tmp_path / "results.csv"
    table.write_text("task,score\ndoor,1\n")
    with pytest.raises(UserError, match="without scale, cell"):
        read_results(table)
