"""Summaries against numbers worked out by hand."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rich.console import Console
from synthetic_runs import make_run

from calql.cli.train import print_numbers
from calql.results import read_run, result_table, summarise
from calql.results.curves import align, column, phase_curve
from calql.results.statistics import band, means
from calql.results.summary import Summary, summarise_seed, tolerance_of
from calql.results.table import cell, seed_cell
from calql.system.errors import UserError


def rows(before: float | None, online: list[tuple[int, float]], seed: int = 0) -> list[dict]:
    switch = {"seed": seed, "phase": "offline", "update": 100, "env_steps": 0, "switch": True, "score": before}
    return ([switch] if before is not None else []) + [
        {"seed": seed, "phase": "online", "update": 100 + steps, "env_steps": steps, "switch": False, "score": score}
        for steps, score in online
    ]


DIP = [(100, 0.5), (200, 0.1), (300, 0.4), (400, 0.7), (500, 0.2), (1000, 0.9)]


def test_a_dip_by_hand() -> None:
    seed = summarise_seed(rows(0.6, DIP), online_steps=1000, every=100)
    assert seed.before == 0.6
    assert seed.worst_early == 0.1  # evaluations at 100 and 200 are in the first 200 steps
    assert seed.after == 0.9
    assert seed.regret == pytest.approx((0.5 + 0.9 + 0.6 + 0.3 + 0.8 + 0.1) / 6)
    assert seed.unlearning_depth == pytest.approx(-0.5)
    assert seed.steps_to_recover == 900  # from 100, the first below 0.55, to 1000: it touched its level at 400 alone
    assert (seed.recovery, seed.fell) == ("came back", True)


def test_within_the_tolerance_is_no_fall() -> None:
    """0.55 is exactly 0.05 below the switch, which is allowed; 0.3 is far below, but within a tolerance of 0.4."""
    seed = summarise_seed(rows(0.6, [(100, 0.55), (200, 0.7)]), online_steps=200, every=100)
    assert (seed.unlearning_depth, seed.steps_to_recover, seed.recovery) == (pytest.approx(-0.05), None, "never fell")
    assert not seed.fell
    assert summarise_seed(rows(0.6, [(100, 0.3)]), online_steps=100, tolerance=0.4).recovery == "never fell"
    assert tolerance_of(25) == 0.1  # one standard error of a success rate of a half
    assert tolerance_of(10_000) == tolerance_of(None) == tolerance_of(0) == 0.05


def test_a_fall_that_begins_late_counts_from_there() -> None:
    seed = summarise_seed(rows(0.5, [(100, 0.6), (200, 0.2), (300, 0.3), (400, 0.5)]), online_steps=400, every=100)
    assert seed.steps_to_recover == 200


def test_never_recovered() -> None:
    seed = summarise_seed(rows(0.6, [(100, 0.1), (200, 0.7), (300, 0.5)]), online_steps=300, every=100)
    assert (seed.steps_to_recover, seed.recovery) == (None, "not back")  # though it was there at 200
    assert summarise_seed(rows(0.6, []), online_steps=300).recovery is None


def test_never_recovered_is_a_count_and_no_number() -> None:
    came = summarise_seed(rows(0.6, DIP, 0), online_steps=1000, every=100)
    lost = summarise_seed(rows(0.8, [(100, 0.1)], 1), online_steps=1000, every=100)
    calm = summarise_seed(rows(0.5, [(100, 0.9)], 2), online_steps=1000, every=100)
    summary = Summary(Path(), "task", "method", True, (came, lost, calm))
    assert summary.values("steps_to_recover") == (900.0,)  # no zero of the seed that never fell
    assert [cell(each, "steps_to_recover") for each in (summary,)] == ["900 (1/2)"]
    assert [seed_cell(seed, "steps_to_recover") for seed in summary.seeds] == ["900", "never", "no fall"]
    found = summary.as_dict()
    assert (found["fell"], found["never_came_back"]) == (2, 1)
    assert cell(replace(summary, seeds=(lost,)), "steps_to_recover") == "never (0/1)"
    assert cell(replace(summary, seeds=(calm,)), "steps_to_recover") == "no fall"


def test_an_evaluation_counts_where_it_fell_due() -> None:
    """Evaluations wait for the end of a trajectory: the one due at 200 of 1000 may come at 230."""
    online = [(230, 0.1), (410, 0.0)]
    assert summarise_seed(rows(0.5, online), online_steps=1000, every=200).worst_early == 0.1
    assert summarise_seed(rows(0.5, online), online_steps=1000).worst_early is None


def test_scores_above_one_give_negative_regret() -> None:
    assert summarise_seed(rows(1.0, [(1, 1.2)]), online_steps=1).regret == pytest.approx(-0.2)


def test_one_phase_only() -> None:
    only_online = summarise_seed(rows(None, [(100, 0.2), (200, 0.6)]), online_steps=200, every=100)
    assert (only_online.before, only_online.unlearning_depth, only_online.steps_to_recover) == (None, None, None)
    assert only_online.after == 0.6
    offline = [{**row, "switch": False} for row in rows(0.4, [])]
    assert summarise_seed(offline, online_steps=0).before == 0.4
    still_offline = summarise_seed(offline, online_steps=500)
    assert (still_offline.before, still_offline.after, still_offline.last) == (None, None, 0.4)


def test_over_seeds() -> None:
    first = summarise_seed(rows(0.6, DIP, 0), online_steps=1000, every=100)
    second = summarise_seed(rows(0.8, [(100, 0.7)], 1), online_steps=1000, every=100)
    summary = Summary(Path(), "task", "method", True, (first, second))
    before = summary.stat("before")
    assert before is not None
    assert before.mean == pytest.approx(0.7)
    assert before.std == pytest.approx(0.2 / np.sqrt(2))
    assert (before.low, before.high) == (0.6, 0.8)  # a quarter of the draws is one seed twice
    found = summary.as_dict()["over_seeds"]["steps_to_recover"]
    assert found == {"mean": 900.0, "std": None, "low": None, "high": None, "seeds": 1}


def test_curves_are_means_of_evaluations() -> None:
    """The k-th evaluations of seeds, a few steps apart, are averaged as they are, the last one too."""
    lines = {
        0: (np.array([0.0, 105.0, 210.0]), np.array([0.2, 0.4, 0.9])),
        1: (np.array([0.0, 101.0, 290.0]), np.array([0.4, 0.0, 0.1])),
    }
    curve = align(lines)
    np.testing.assert_allclose(curve.x, [0, 103, 250])
    np.testing.assert_allclose(curve.mean, [0.3, 0.2, 0.5])
    np.testing.assert_allclose(curve.low, [0.2, 0.0, 0.1])  # of two seeds the interval is from one to the other
    np.testing.assert_allclose(curve.high, [0.4, 0.4, 0.9])


def test_curves_of_seeds_that_lack_an_evaluation_meet_on_one_grid() -> None:
    """y = x for one seed and y = 2x for the other, which lacks the one at 10: the mean is 1.5x on every grid."""
    x1, x2 = np.array([0.0, 10.0, 20.0, 30.0]), np.array([0.0, 21.0, 31.0])
    curve = align({0: (x1, x1), 1: (x2, 2 * x2)})
    np.testing.assert_allclose(curve.x, [0, 15.5, 25.5])
    np.testing.assert_allclose(curve.mean, 1.5 * curve.x)


@given(values=arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 5)), elements=st.floats(0, 1)))
def test_an_interval_holds_its_mean_and_stays_in_the_range_of_the_seeds(values: np.ndarray) -> None:
    found = band(values)
    assert found is not None
    low, high = found
    assert np.all(values.min(axis=0) <= low)
    assert np.all(high <= values.max(axis=0))
    assert np.all(low <= values.mean(axis=0) + 1e-12)
    assert np.all(values.mean(axis=0) <= high + 1e-12)
    assert band(values[:1]) is None


def test_an_interval_of_a_curve_is_that_of_the_tables() -> None:
    values = np.random.default_rng(0).uniform(size=(5, 1))
    (estimate,) = means(values)
    low, high = band(values) or (None, None)
    assert (low, high) == (pytest.approx(estimate.low), pytest.approx(estimate.high))


def test_the_online_curve_starts_at_the_switch(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", dip=0.5))
    curve = phase_curve(run, column("score"), "online")
    assert curve is not None
    assert curve.x[0] == 0.0
    before = summarise(run).stat("before")
    assert before is not None
    assert curve.mean[0] == pytest.approx(before.mean)


def test_table_fits_80_columns_and_shows_every_seed(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a"), make_run(tmp_path / "b", method="cql", dip=0.5, finished=False)]
    console = Console(file=io.StringIO(), width=80)
    console.print(result_table([summarise(folder) for folder in folders]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("seed 3") == 2
    assert "unfinished" in text
    assert "…" not in text


def test_runs_of_one_method_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    both = [summarise(make_run(tmp_path / name)) for name in ("monday", "tuesday")]
    console.print(result_table(both, per_seed=False))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.strip() for line in lines if line.strip() in ("monday", "tuesday")] == ["monday", "tuesday"]


def test_without_an_early_evaluation_the_table_says_why(tmp_path: Path) -> None:
    whole = summarise(make_run(tmp_path / "run"))
    late = replace(whole, seeds=tuple(replace(seed, worst_early=None) for seed in whole.seeds))
    said = {name: str(result_table([each]).caption) for name, each in (("whole", whole), ("late", late))}
    assert "--evaluate-online-every" in said["late"]
    assert "--evaluate-online-every" not in said["whole"]


def test_not_a_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such run folder"):
        summarise(tmp_path / "missing")
    with pytest.raises(UserError, match=r"no config\.json"):
        summarise(tmp_path)


def test_no_table_before_a_number_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run", seeds=1)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    print_numbers(folder, Console())
    assert "cal-ql" in capsys.readouterr().out
    (folder / "metrics.jsonl").write_text(f"{lines[0]}\n")
    print_numbers(folder, Console())
    assert not capsys.readouterr().out
