"""Runs and tables, wherever they lie, as one table: sweeps, cut runs, kept rows, cells that two tables share."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_tables import Made, write_tidy

from calql.experiments.analysis.evaluations import Result, read_results
from calql.experiments.analysis.facts import facts_of
from calql.experiments.analysis.gather import gather
from calql.experiments.pages.results import body, cells_of, page_tables, read_difficulties, read_older, write_page

CONFIG: dict[str, Any] = {
    "task": "point-maze-narrow",
    "method": "cal-ql",
    "seeds": [0, 1, 2, 3],
    "run": {"offline_updates": 20, "online_steps": 400, "evaluation_episodes": 20, "evaluate_online_every": 100},
    "versions": {"commit": "c0ffee"},
    "command": "calql train --vary calibrate=true,false",
}
SWEEP = {
    "choice": {"vary": "calibrate=true,false"},
    "known_as": {"calibrate=true": "Cal-QL", "calibrate=false": "CQL"},
    "origins": {"precision": "you", "online_steps": "you", "mixing": "domain point-maze"},
}


def rows(until: int, score: float, arm: str = "") -> list[dict[str, Any]]:
    """An evaluation at the start, at the switch, and every hundred steps; `score` from the switch on."""
    moments = [("offline", 0, 0, 0.0), ("offline", 20, 0, 0.8)]
    moments += [("online", 20 + steps, steps, score) for steps in range(100, until + 1, 100)]
    return [
        {
            "seed": seed, **({"arm": arm} if arm else {}), "phase": phase, "switch": update == 20, "update": update,
            "env_steps": steps, "score": value, "average_q": -10.0, "average_q_batch": -90.0,
            "average_return_to_go": -12.0, "bound_rate/q1/policy": 0.5, "bound_rate/q1/next": 0.7,
        }
        for seed in range(4)
        for phase, update, steps, value in moments
    ]  # fmt: skip


def write_run(folder: Path, found: list[dict[str, Any]], start: str = "", **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{start}config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / f"{start}metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return folder


def read(place: Path) -> dict[tuple[str, str, str], Result]:
    return {result.key: result for result in read_results(gather([place], place.parent / "table.csv"))}


def test_a_sweep_over_calibration_is_cal_ql_and_cql(tmp_path):
    both = rows(400, 0.9, "calibrate=true") + rows(400, 0.1, "calibrate=false")
    folder = write_run(tmp_path / "runs" / "maze", both, **SWEEP)
    times = [5.0, 60.0, 10.0, 30.0]  # resumed once
    (folder / "speed.jsonl").write_text("".join(json.dumps({"elapsed_s": each}) + "\n" for each in times))
    found = read(tmp_path / "runs")
    assert list(found) == [("point-maze-narrow", "cal-ql", ""), ("point-maze-narrow", "cql", "")]
    ours, theirs = found.values()
    assert ours.finished
    assert ours.values("regret") == pytest.approx([0.1] * 4)
    assert theirs.values("regret") == pytest.approx([0.9] * 4)
    assert ours.minutes == 1.5
    assert (ours.paper_offline, ours.paper_online) == (8_000, 5_000)  # the task's own
    assert ours.provenance["rows"] == "maze/metrics.jsonl"


def test_what_a_cell_says_by_hand(tmp_path):
    write_run(tmp_path / "runs" / "maze", rows(400, 0.1))
    (result,) = read(tmp_path / "runs").values()
    facts = facts_of(result)
    assert facts is not None
    assert facts.average_q.tolist() == [-10.0] * 4  # not the batch's
    assert facts.return_to_go.tolist() == [-12.0] * 4
    assert facts.bound_rate == pytest.approx([0.6] * 4)
    assert facts.values("unlearning_depth") == pytest.approx([-0.7] * 4)
    assert facts.recovery() == "4 of 4 fell, 0 back"
    assert facts.tolerance == pytest.approx(0.5 / 20**0.5)


def test_a_cut_run_counts_as_far_as_it_came_and_an_offline_one_not_at_all(tmp_path):
    write_run(tmp_path / "runs" / "a", rows(200, 0.5))
    write_run(tmp_path / "runs" / "b", rows(0, 0.5), method="cql")
    found = read(tmp_path / "runs")
    cut, begun = found["point-maze-narrow", "cal-ql", ""], found["point-maze-narrow", "cql", ""]
    assert not cut.finished
    facts = facts_of(cut)
    assert facts is not None
    assert (facts.cut_at, facts.result.run.online_steps, facts.result.finished) == (200, 200, True)
    assert facts.values("after") == pytest.approx([0.5] * 4)
    assert facts_of(begun) is None


def test_what_was_set_and_decides_a_result_is_the_variant(tmp_path):
    origins = {"mixing": "you", "reference": "you", "precision": "you", "seeds": "you", "discount": "default"}
    run = {**CONFIG["run"], "mixing": 0.25, "reference": "regression"}
    write_run(tmp_path / "runs" / "a", rows(400, 0.5), origins=origins, run=run)
    write_run(tmp_path / "runs" / "b", rows(400, 0.5), choice={"dataset": "door-binary-human"})
    write_run(tmp_path / "runs" / "c", rows(400, 0.5), program="authors' program")
    variants = {variant for _, _, variant in read(tmp_path / "runs")}
    assert variants == {"mixing=0.25, reference=regression", "dataset=door-binary-human", "authors' program"}


def test_rows_are_also_found_without_their_folder_and_packed(tmp_path):
    write_run(tmp_path / "runs", rows(400, 0.5), start="maze-cal-ql-")
    path = tmp_path / "runs" / "maze-cal-ql-metrics.jsonl"
    with gzip.open(tmp_path / "runs" / "maze-cal-ql-metrics.jsonl.gz", "wt") as packed:
        packed.write(path.read_text())
    path.unlink()
    (result,) = read(tmp_path / "runs").values()
    assert result.finished
    assert result.provenance["rows"] == "maze-cal-ql-metrics.jsonl.gz"


def test_a_cell_that_two_tables_share_is_counted_once(tmp_path):
    made = Made("door-binary", "cal-ql")
    for name in ("fig-data", "table-scores"):
        write_tidy(tmp_path / "runs" / f"{name}.csv", [made], experiment=name)
    (result,) = read(tmp_path / "runs").values()
    assert len(result.run.rows) == 4 * (6 + 20)


def test_the_page_shows_what_was_run_what_was_begun_and_what_was_not(tmp_path):
    both = rows(400, 0.9, "calibrate=true") + rows(400, 0.1, "calibrate=false")
    write_run(tmp_path / "runs" / "maze", both, **SWEEP)
    write_run(tmp_path / "runs" / "door", rows(0, 0.5), task="door-binary")
    write_run(tmp_path / "runs" / "pen", rows(400, 0.5), task="pen-binary")
    (tmp_path / "runs" / "older.csv").write_text("of,before\npen/,a correction\n")
    out = tmp_path / "page"
    table = gather([tmp_path / "runs"], out / "table.csv")
    written = write_page(table, out, read_older([tmp_path / "runs"]))
    tasks = (out / "tasks.md").read_text().replace("\u00a0", " ")
    line = next(line for line in tasks.splitlines() if line.startswith("| point-maze-narrow "))
    assert "| 0.02K + 0.4K<br>0.2%, 8.0%, 4 seeds | 80 → 90 [90, 90] | 0.10 [0.10, 0.10] |" in line
    assert "| 80 → 10 [10, 10] | 0.90 [0.90, 0.90] |" in line
    assert "| door-binary | begun, still offline / not run | -<br>paper 35 → 92 | -<br>paper 0.23 |" in tasks
    assert "not decided†" in next(line for line in tasks.splitlines() if line.startswith("| pen-binary "))
    assert "| relocate-binary | not run | -<br>paper 3 → 98 |" in tasks
    claims = (out / "claims.md").read_text()
    assert "| CQL falls at the switch and Cal-QL does not | point-maze-narrow | yes |" in claims
    assert "| antmaze-large-diverse, antmaze-large-play, " in claims  # not run: in one line
    assert {path.name for path in written} >= {"curves-point-maze.svg", "curves-adroit.svg", "switch.md"}
    assert all(path.is_file() for path in written)


@pytest.mark.slow
def test_the_tables_of_the_results_page_are_those_of_the_rows(tmp_path):
    """After a change of rows or of a rule: calql reproduce page results --out docs/figures/results."""
    root = Path(__file__).parents[2]
    kept = root / "results"
    results = read_results(gather([kept], tmp_path / "table.csv"))
    for made in page_tables(results, cells_of(results, read_older([kept])), read_difficulties([kept])):
        assert (root / "docs" / "figures" / "results" / f"{made.name}.md").read_text() == body(made)
