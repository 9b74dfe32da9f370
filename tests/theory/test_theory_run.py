"""The real entry point at its smallest, and that what it writes is whole and consistent."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from small_mdps import quick_jit

from calql import theory
from calql.theory import experiment
from calql.theory.experiment import Scale


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    patch = pytest.MonkeyPatch()
    tiny = Scale(2, seeds=9, episodes=16, scaling_instances=2, families=("random-tabular", "lock"))
    patch.setattr(theory, "SCALES", {"smoke": tiny})
    patch.setattr(experiment, "_compiled", quick_jit(experiment.simulate, static_argnames=("checkpoints", "seeds")))
    patch.setattr(experiment, "_make_problems", quick_jit(experiment._make_problems.__wrapped__, static_argnums=0))
    lines: list[str] = []
    out = theory.run("smoke", seeds=2, out=tmp_path_factory.mktemp("theory") / "fig", report=lines.append)
    patch.undo()
    assert any("growth with K" in line for line in lines)
    return out


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as handle:
        return list(csv.DictReader(handle))


@pytest.mark.slow
def test_tidy_table_has_every_run_and_its_split_adds_up(folder: Path) -> None:
    table = rows(folder / "results.csv")
    checkpoints = {row["k"] for row in table}
    assert len(table) == 4 * 2 * 2 * 2 * 5 * len(checkpoints)
    total = np.array([float(row["regret"]) for row in table])
    split = np.array([float(row["miscalibration"]) + float(row["overestimation"]) for row in table])
    np.testing.assert_allclose(total, split, atol=1e-3)
    assert (total >= -1e-3).all()


def test_the_class_of_the_theorem_is_never_above_the_optimum(folder: Path) -> None:
    for row in rows(folder / "results.csv"):
        if row["algorithm"] == "cal-ql-oracle":
            assert float(row["not_pessimistic"]) == 0.0


def test_calibrated_coefficients_and_ranks_are_the_smaller(folder: Path) -> None:
    for row in rows(folder / "instances.csv"):
        assert float(row["calibrated_coefficient"]) <= float(row["plain_coefficient"]) * (1 + 1e-9)
        assert int(row["calibrated_rank"]) <= int(row["plain_rank"]) <= int(row["parameters"])


def test_figure_and_report_are_written(folder: Path) -> None:
    assert (folder / "theory.png").stat().st_size > 20_000
    assert (folder / "theory.svg").read_text().lstrip().startswith("<?xml")
    text = (folder / "report.md").read_text()
    for heading in ("What held", "The bound", "assumptions do not hold", "(a)", "(b)", "(c)", "(d)", "(e)"):
        assert heading in text
    assert len(rows(folder / "instances.csv")) == 4 * 2 * 2
    assert {row["outcome"] for row in rows(folder / "verdicts.csv")} <= {"holds", "fails", "undecided"}
