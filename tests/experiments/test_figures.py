"""Figures: what is drawn is what the table says, in pictures and on the page alike."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from synthetic_tables import ONLINE, Made, write_idea, write_lines, write_tidy

from calql.experiments.analysis.comparison import compare
from calql.experiments.analysis.evaluations import read_results
from calql.experiments.pages.panels import AVERAGE_Q, BOUND_RATE, BY_METHOD, SCORE, online_curves, through_switch
from calql.experiments.pages.renderings import RENDERINGS, Material
from calql.results import charts, figures, statistics
from calql.results.panels import Sheet
from calql.results.style import COLOURS

PAIR = (Made("door-binary", "cal-ql"), Made("door-binary", "cql", dip=0.4))


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(statistics, "DRAWS", 50)
    monkeypatch.setattr(statistics, "PROFILE_DRAWS", 20)


def sheets_of(name: str, folder: Path, *cells: Made) -> list[Sheet]:
    rendering = RENDERINGS[name]
    results = read_results(write_tidy(folder / "results.csv", cells, experiment=name))
    entries = compare(results, [], rendering.paper(), rendering.judged, whole=rendering.whole)
    material = Material([each for each in results if each.finished], entries, folder, rendering.paper())
    return [sheet for make in rendering.sheets if (sheet := make(material)) is not None]


def test_a_curve_is_the_mean_over_seeds(tmp_path):
    table = write_tidy(tmp_path / "results.csv", PAIR[:1])
    (panel,) = online_curves(read_results(table))
    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "online" or row["switch"] == "1"]
    last = [float(row["score"]) for row in rows if int(row["env_steps"]) == ONLINE]
    (line,) = panel.lines
    assert (line.label, line.x[0], line.x[-1]) == ("Cal-QL", 0, ONLINE)
    assert line.y[-1] == pytest.approx(np.mean(last))
    assert min(last) <= line.low[-1] < line.y[-1] < line.high[-1] <= max(last)


def test_the_zoom_shows_the_first_fifth(tmp_path):
    whole, zoom = sheets_of("fig-curves", tmp_path, *PAIR, Made("door-binary", "iql"))
    assert [line.label for line in whole.panels[0].lines] == ["Cal-QL", "CQL", "IQL"]
    assert [line.label for line in zoom.panels[0].lines] == ["Cal-QL", "CQL"]
    assert max(line.x.max() for line in zoom.panels[0].lines) == ONLINE / 5
    assert zoom.panels[0].x_range == (0.0, pytest.approx(ONLINE / 5, rel=0.02))


def late(path: Path, by: int) -> Path:
    """Online evaluations of the table come later: they wait for the end of a trajectory."""
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        if line["phase"] == "online":
            line["env_steps"] = str(int(line["env_steps"]) + by + int(line["seed"]))
    return write_lines(path, lines)


def test_the_last_evaluation_is_drawn_though_it_falls_past_the_plan(tmp_path):
    """One method rises at its very last evaluation: without it the order of the two would be the other way round."""
    cells = (Made("pick-place", "cal-ql", after=0.5, noise=0.0), Made("pick-place", "cql", after=0.6, noise=0.0))
    table = write_tidy(tmp_path / "results.csv", cells)
    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        if line["method"] == "cal-ql" and int(line["env_steps"]) == ONLINE:
            line["score"] = "0.9"
    write_lines(table, lines)
    results = read_results(late(table, 130))
    (panel,) = online_curves(results)
    ends = {line.label: line.y[-1] for line in panel.lines}
    assert ends == {
        "Cal-QL": pytest.approx(0.9), "CQL": pytest.approx(results[1].values("after").mean()),
    }  # fmt: skip
    for line in panel.lines:
        assert line.x[-1] > ONLINE
        assert line.x[-1] < panel.x_range[1]


def test_the_first_fifth_counts_evaluations_where_they_fell_due(tmp_path):
    """Of 20 evaluations four fall due in it, and the switch makes five points; of 4 evaluations the first two stand."""
    (panel,) = online_curves(read_results(late(write_tidy(tmp_path / "a.csv", PAIR[:1]), 130)), early=True)
    assert panel.lines[0].x.size == 5
    few = Made("kitchen-mixed", "cal-ql", evaluations=4)
    (panel,) = online_curves(read_results(late(write_tidy(tmp_path / "b.csv", [few]), 130)), early=True)
    assert panel.lines[0].x.size == 3  # a line, and no dot at 0


def test_both_phases_meet_at_the_switch(tmp_path):
    results = read_results(write_tidy(tmp_path / "results.csv", PAIR))
    score, q, bound = through_switch(results, (SCORE, AVERAGE_Q, BOUND_RATE))
    assert score.timeline.both
    assert score.lines[0].x.min() < 0 < score.lines[0].x.max()
    assert [line.label for line in q.lines] == ["Cal-QL", "CQL", "return-to-go of the data"]
    assert np.all(q.lines[-1].y == -95.0)
    assert np.allclose(bound.lines[0].y, 0.4)  # the mean of its two columns


def test_a_method_has_one_colour_in_every_figure(tmp_path):
    alone = figures.draw(sheets_of("fig-curves", tmp_path, PAIR[1])[0])
    assert to_hex(alone.axes[0].lines[0].get_color()) == COLOURS[1].lower()
    traces = drawn_traces(sheets_of("fig-curves", tmp_path, *PAIR)[0])
    assert {trace["name"]: trace["line"]["color"] for trace in traces} == {"Cal-QL": "var(--c0)", "CQL": "var(--c1)"}


def test_variants_are_told_apart_within_a_method(tmp_path):
    cells = [Made("door-binary", method, f"mixing={mix}") for method in ("cal-ql", "iql") for mix in ("0.5", "-1")]
    panels = online_curves(read_results(write_tidy(tmp_path / "results.csv", cells)), BY_METHOD)
    assert [panel.title for panel in panels] == ["Cal-QL on door-binary", "IQL on door-binary"]
    for panel in panels:
        assert {line.label for line in panel.lines} == {"mixing=0.5", "mixing=-1"}
        assert len({line.place for line in panel.lines}) == 2


def test_figures_10_and_11_share_out_the_variants(tmp_path):
    variants = ("temperature_online=1", "temperature_online=10", "utd=5", "aggressive")
    ten, eleven = sheets_of("fig-iql", tmp_path, *(Made("pick-place", "iql", variant) for variant in variants))
    assert len(ten.panels[0].lines) == len(eleven.panels[0].lines) == 2
    assert {line.label for line in eleven.panels[0].lines} == {"IQL utd=5", "IQL aggressive"}


def test_a_slice_of_q_stands_against_the_true_return(tmp_path):
    write_idea(tmp_path / "idea.csv")
    (sheet,) = sheets_of("fig-idea", tmp_path, Made("point-maze-narrow", "cql", "moment=switch", online=0))
    assert len(sheet.panels) == 4
    for panel in sheet.panels:
        assert {"true return", "reference value", "logged action"} < {line.label for line in panel.lines}
    assert sheet.panels[0].title == "Cal-QL at the switch"


def test_without_a_finished_cell_there_is_no_figure(tmp_path):
    for name in RENDERINGS:
        assert sheets_of(name, tmp_path, Made("door-binary", "cal-ql", finished=False)) == []


def test_profiles_are_over_the_tasks_that_all_have(tmp_path):
    cells = (*PAIR, Made("pen-binary", "cal-ql"))
    _, profile = sheets_of("table-scores", tmp_path, *cells)
    assert profile.caption.startswith("Over door-binary:")


def test_points_against_the_paper_have_its_numbers(tmp_path):
    points, _ = sheets_of("table-scores", tmp_path, *PAIR)
    assert {line.label: list(line.x) for line in points.panels[0].lines} == {"Cal-QL": [0.92], "CQL": [0.88]}


def test_files_are_pictures_and_the_same_each_time(tmp_path):
    (sheet, _) = sheets_of("fig-curves", tmp_path, *PAIR)
    png, svg = figures.save(sheet, tmp_path)
    first = svg.read_bytes()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(first).tag.endswith("svg")
    figures.save(sheet, tmp_path)
    assert svg.read_bytes() == first


def test_long_curves_are_thinned_for_the_page_and_lose_no_dip(tmp_path):
    long = Made("door-binary", "cal-ql", evaluations=900, seeds=2)
    sheet = sheets_of("fig-curves", tmp_path, long)[0]
    whole = sheet.panels[0].lines[0]
    (curve,) = drawn_traces(sheet)
    assert charts.MOST_POINTS - 10 < len(curve["x"]) <= charts.MOST_POINTS
    assert (curve["x"][0], curve["x"][-1]) == (0, ONLINE)
    assert min(curve["y"]) == pytest.approx(whole.y.min(), abs=1e-4)
    assert max(curve["y"]) == pytest.approx(whole.y.max(), abs=1e-4)


def drawn_traces(sheet: Sheet) -> list[dict]:
    """The curves of the first panel as the page has them, without their bands."""
    ((_, markup), *_) = charts.drawn(sheet).panels
    text = re.search(r'<script type="application/json">(.*)</script>', str(markup))
    return [trace for trace in json.loads(text[1])["data"] if "name" in trace]
