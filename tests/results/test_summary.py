"""Summaries against numbers worked out by hand."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from synthetic_runs import make_run

from calql.results import read_run, result_table, summarise
from calql.results.curves import align, column, phase_curve
from calql.results.summary import Summary, summarise_seed
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
    assert seed.steps_to_recover == 400  # the second dip, at 500, does not count again
    assert seed.dropped


def test_never_below_the_switch() -> None:
    seed = summarise_seed(rows(0.3, [(100, 0.3), (200, 0.5)]), online_steps=200, every=100)
    assert (seed.unlearning_depth, seed.steps_to_recover, seed.dropped) == (0.0, 0, False)
    seed = summarise_seed(rows(0.3, [(100, 0.4)]), online_steps=200, every=100)
    assert seed.unlearning_depth == pytest.approx(0.1)


def test_never_recovered() -> None:
    seed = summarise_seed(rows(0.6, [(100, 0.7), (200, 0.5)]), online_steps=200, every=100)
    assert seed.steps_to_recover is None
    assert seed.dropped


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
    assert summary.values("steps_to_recover") == (400.0,)
    assert summary.as_dict()["over_seeds"]["steps_to_recover"] == {"mean": 400.0, "std": None, "seeds": 1}


def test_curves_of_seeds_meet_on_one_grid() -> None:
    """y = x for one seed and y = 2x for the other, at different steps: the mean is 1.5x on every grid."""
    x1, x2 = np.array([0.0, 10.0, 22.0]), np.array([0.0, 12.0, 20.0, 30.0])
    curve = align([(x1, x1), (x2, 2 * x2)])
    np.testing.assert_allclose(curve.x, [0, 11, 21])
    np.testing.assert_allclose(curve.mean, 1.5 * curve.x)
    np.testing.assert_allclose(curve.std, 0.5 * np.sqrt(2) * curve.x)


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


def test_not_a_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such run folder"):
        summarise(tmp_path / "missing")
    with pytest.raises(UserError, match=r"no config\.json"):
        summarise(tmp_path)
