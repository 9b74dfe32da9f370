"""Reports go by the vocabulary of metrics: what a metric is for decides where it is shown, whatever method made it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

import pytest
from synthetic_runs import make_run

from calql.methods.vocabulary import METRICS, Panel, Unit, by_part, in_family, meaning_of, of_panel
from calql.results import diagnosis, divergence, plots
from calql.results.metrics import MetricsLog, read_rows
from calql.results.runs import read_run


def test_every_metric_has_a_meaning_a_unit_and_where_it_is_shown_a_title() -> None:
    for name, meaning in METRICS.items():
        assert meaning.text, name
        assert meaning.unit in get_args(Unit), name
        assert meaning.panel is None or meaning.panel in get_args(Panel), name
        assert bool(meaning.title) == (meaning.panel is not None), name


def test_families() -> None:
    assert meaning_of("bound_rate/q1/policy") is METRICS["bound_rate"]
    assert meaning_of("seed") is None
    assert in_family("bound_rate", {"bound_rate/b", "bound_rate/a", "bound_rates", "score"}) == [
        "bound_rate/a",
        "bound_rate/b",
    ]


def test_parts_of_a_family_stand_in_its_order_and_unknown_ones_last() -> None:
    names = {f"bound_rate/{name}" for name in ("q1/other", "q2/policy", "q1/policy", "q1/next")} | {"score"}
    found = by_part("bound_rate", names)
    assert list(found) == ["Bound rate, actions at s", "Bound rate, actions at s′", "Bound rate, other"]
    assert found["Bound rate, actions at s"] == ["bound_rate/q1/policy", "bound_rate/q2/policy"]


def with_metric(folder: Path, name: str) -> Path:
    """A run whose rows have one more metric."""
    run = make_run(folder)
    rows = read_rows(run / "metrics.jsonl")
    (run / "metrics.jsonl").unlink()
    MetricsLog(run / "metrics.jsonl").append([{**row, name: 0.5} for row in rows])
    return run


@pytest.mark.parametrize("name", [name for panel in ("weights", "cloning") for name in of_panel(panel)])
def test_a_metric_is_drawn_in_its_figure(name: str, tmp_path: Path) -> None:
    def titles(folder: Path) -> list[str]:
        found = {sheet.name: sheet for sheet in plots.sheets([read_run(folder)])}
        return [panel.title for panel in found[panel_of].panels] if panel_of in found else []

    panel_of = str(METRICS[name].panel)
    assert titles(make_run(tmp_path / "without")) == []
    assert titles(with_metric(tmp_path / "with", name)) == [METRICS[name].title]


def test_rules_and_plots_name_no_metric_by_themselves() -> None:
    """What they need of a metric they take from the vocabulary."""
    for module in (diagnosis, divergence, plots):
        text = inspect.getsource(module)
        parts = [part for meaning in METRICS.values() for part, _ in meaning.parts]
        assert [name for name in (*METRICS, *parts) if f'"{name}"' in text] == []
