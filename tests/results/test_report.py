"""The report on made-up runs: whole, self-contained, honest about what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_runs import make_run

from calql.results import content, read_run, summarise
from calql.results.diagnosis import diagnose
from calql.results.divergence import Watch
from calql.results.headline import comparison, headline
from calql.results.plots import PLOTS, Runs, q_values
from calql.results.remedies import remedies
from calql.results.report import write_report
from calql.system.errors import UserError
from page_reader import Page

# Cal-QL has no metrics of the first two; the third is of runs on logs alone.
SHOWN = [plot.name for plot in PLOTS if plot.name not in ("weights", "cloning", "values")]


@pytest.mark.slow
def test_one_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", dip=0.5)
    written = write_report([folder])
    assert written == folder / "report.html"
    page = Page(written)
    assert page.sources == []  # nothing is loaded, and nothing is a picture
    assert "link" not in page.tags
    assert written.stat().st_size < 3_000_000
    summary = summarise(folder)
    for number in ("before", "worst_early", "after", "regret"):
        stat = summary.stat(number)  # type: ignore[arg-type]
        assert stat is not None
        assert f"{stat.low:.2f} to {stat.high:.2f}" in page.text
    assert "4 of 4 seeds (0, 1, 2, 3) fell below their score at the switch by more than 0.11" in page.text
    assert "--note '<b>&'" in page.text  # escaped, so the reader sees it as it was typed
    assert "evaluate_online_every" in page.text
    assert json.loads((folder / "summary.json").read_text()) == summary.as_dict()


def test_rates_are_of_a_seed_or_of_all_by_their_names(tmp_path: Path) -> None:
    """900 updates a second of four seeds together: 225 of each, the word for which is that of the terminal."""
    run = read_run(make_run(tmp_path / "run"))
    card = content.speed(["a run"], [run])
    assert card is not None
    assert [head.text for head in card.grid.heads][2:5] == ["updates/s", "seed-updates/s", "env steps/s"]
    assert [[cell.text for cell in row][1:5] for row in card.grid.rows] == [
        ["offline", "225", "900", "-"],
        ["online", "112", "450", "112"],
    ]


@pytest.mark.slow
def test_plots_are_pictures(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", seeds=2)
    write_report([folder])
    files = sorted(file.stem for file in (folder / "plots").iterdir())
    assert files == sorted(SHOWN)
    for file in (folder / "plots").iterdir():
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(content) > 10_000


@pytest.mark.slow
def test_several_runs(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / "a", seeds=2),
        make_run(tmp_path / "b", method="cql", seeds=2, dip=0.5),
        make_run(tmp_path / "c", method="iql", seeds=2, with_q=False, finished=False, stop_at=3_000),
        make_run(tmp_path / "d", method="sac", seeds=2, offline=0),
    ]
    written = write_report(folders, tmp_path / "compared.html")
    page = Page(written)
    assert "4 runs on point-maze-narrow" in page.text
    assert "1 of 4 unfinished" in page.text
    assert "1 of 4 runs left out" in page.text
    assert "has the least regret" in page.text
    assert (tmp_path / "compared-plots" / "score.png").is_file()
    assert not (folders[0] / "plots").exists()  # a comparison leaves the runs alone


def test_several_tasks_and_twice_the_same(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / "a", seeds=1, with_q=False),
        make_run(tmp_path / "b", seeds=1, with_q=False),
        make_run(tmp_path / "c", seeds=1, with_q=False, task="other/task"),
    ]
    page = Page(write_report(folders, tmp_path))
    assert "scores compare only within a task" in page.text
    assert "cal-ql · b" in page.text
    assert (tmp_path / "report-plots" / "other-task-score.png").is_file()


def test_interrupted_run_without_q(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", seeds=2, with_q=False, finished=False, stop_at=2_000)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"seed": 0, "pha')
    page = Page(write_report([folder]))
    assert "not finished: numbers so far" in page.text
    assert "(time limit)" in page.text
    assert sorted(file.stem for file in (folder / "plots").iterdir()) == ["price", "score"]


@pytest.mark.slow
@pytest.mark.parametrize(("offline", "online"), [(20_000, 0), (0, 10_000)])
def test_one_phase(tmp_path: Path, offline: int, online: int) -> None:
    folder = make_run(tmp_path / "run", seeds=2, offline=offline, online=online)
    page = Page(write_report([folder]))
    assert ("Offline pre-training reached" in page.text) == (online == 0)


def test_nothing_evaluated_yet(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", seeds=1)
    for name in ("metrics.jsonl", "speed.jsonl", "status.json", "calibration-switch.npz", "calibration-end.npz"):
        (folder / name).unlink()
    assert "No evaluation yet." in Page(write_report([folder])).text
    with pytest.raises(UserError, match="no run"):
        write_report([])


def findings(folder: Path) -> set[str]:
    run = read_run(folder)
    return {finding.title for finding in diagnose(run, summarise(run))}


def edit(folder: Path, **columns: object) -> None:
    rows = [json.loads(line) | columns for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write(folder: Path, rows: list[dict[str, Any]], **options: object) -> None:
    """Other rows, and options of the method."""
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "options": {**config.get("options", {}), **options}}))


def test_a_sound_run_raises_no_suspicion(tmp_path: Path) -> None:
    assert findings(make_run(tmp_path / "run")) == set()


@pytest.mark.parametrize(
    ("columns", "title"),
    [
        ({"score": 0.0}, "The score never left 0"),
        ({"average_q": 20.0}, "Q leaves the possible range"),
        ({"average_q": 90.0}, "Q is far above the returns in the data at the last evaluation"),
        ({"average_q": -90.0}, "Q is far below the returns in the data at the switch"),
        ({f"bound_rate/{q}/{a}": 0.99 for q in ("q1", "q2") for a in ("policy", "next")}, "Bound rate is 0.99"),
    ],
)
def test_suspicions(tmp_path: Path, columns: dict[str, float], title: str) -> None:
    folder = make_run(tmp_path / "run")
    edit(folder, **columns)
    assert title in findings(folder)


def test_dead_seed_and_entropy(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [row | ({"score": 0.0} if row["seed"] == 2 else {}) | {"entropy": -9.0} for row in rows]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = json.loads((folder / "config.json").read_text())
    config["dataset"]["action_dim"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    titles = {"1 of 4 seeds never scored", "The policy has almost no entropy left", "The seeds disagree"}
    assert titles <= findings(folder)


@pytest.mark.parametrize(("last", "titles"), [(20.0, {"TD error grows in 1 of 4 seeds"}), (5.0, set())])
def test_one_seed_that_diverges_is_found_among_the_others(tmp_path: Path, last: float, titles: set[str]) -> None:
    folder = make_run(tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    next(row for row in reversed(rows) if row["seed"] == 2)["td_loss"] = last
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = read_run(folder)
    found = diagnose(run, summarise(run))
    assert {finding.title for finding in found} == titles
    assert all("Seeds: 2." in finding.text for finding in found)


def test_headline_tells_a_drop_from_none(tmp_path: Path) -> None:
    calm, dip = read_run(make_run(tmp_path / "a", seeds=1)), read_run(make_run(tmp_path / "b", seeds=1, dip=0.5))
    assert "After the switch the score was never below its value there by more than 0.11" in headline(
        calm, summarise(calm)
    )
    assert "In between it fell by 0." in headline(dip, summarise(dip))


def test_a_seed_that_runs_away_is_in_the_headline_with_what_to_try(tmp_path: Path) -> None:
    """A dual weight that rises without bringing the gap down to its target is told in its own words."""
    folder = make_run(tmp_path / "run", seeds=2)
    assert "away" not in headline(read_run(folder), summarise(folder))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    grows = [{"average_q": 20.0, "alpha_prime": 2.0 + row["update"], "conservative_gap": 1.5} for row in rows]
    rows = [row | new if row["seed"] == 1 else row for row, new in zip(rows, grows, strict=True)]
    write(folder, rows, dual=True, gap=0.8, conservative=True, conservative_weight=5.0)
    run = read_run(folder)
    assert "1 of 2 seeds run away" in headline(run, summarise(run))
    (found,) = [each for each in diagnose(run, summarise(run)) if each.title == "Q leaves the possible range"]
    assert "alpha_prime rose from 2 to 30,0" in found.text
    assert "conservative_gap stands at 1.5, --gap asks for 0.8" in found.text
    assert "Try --no-dual --conservative-weight W" in found.text


def test_remedies_are_options_that_the_method_has() -> None:
    options = {"dual": False, "conservative": True, "conservative_weight": 5.0, "target_bounds": False}
    assert remedies("value", [{}], options) == "Try --target-bounds, or a --conservative-weight below 5."
    assert remedies("likelihood", [{}], options | {"policy_rate": 1e-4}) == "Try a --policy-rate below 0.0001."
    assert remedies("value", [{}], {}) == ""


def test_an_error_is_large_only_where_it_no_longer_falls() -> None:
    """The first row of a phase is of critics that are yet to be fitted; returns span 10."""

    def alarms(*losses: float) -> list[str]:
        rows = [
            {"seed": 0, "phase": "offline", "update": place, "env_steps": 0, "score": 0.0, "td_loss": loss}
            for place, loss in enumerate(losses)
        ]
        return [alarm.rule for alarm in Watch((0.0, 10.0)).note(rows)]

    assert alarms(4.0) == alarms(4.0, 3.0, 2.0, 0.9, 0.95) == []
    assert alarms(4.0, 4.1) == alarms(4.0, 3.0, 3.0) == ["large error"]
    assert alarms(*[0.1] * 5, 0.5) == ["growing error"]


def test_a_method_without_an_online_phase_is_ranked_and_named(tmp_path: Path) -> None:
    folders = {
        "bc": make_run(tmp_path / "bc", method="bc", seeds=2, online=0, with_q=False),
        "iql": make_run(tmp_path / "iql", method="iql", seeds=2),
    }
    runs = [read_run(folder) for folder in folders.values()]
    text = comparison(list(folders), [summarise(run) for run in runs])
    assert text.startswith("Lowest score after the switch")
    assert "iql ends highest" in text
    assert "bc has no online phase: ranked by its score after training offline." in text
    assert "left out" not in text
    assert "this run has no online phase" in headline(runs[0], summarise(runs[0]))


def test_returns_to_go_are_drawn_only_for_runs_with_q_and_say_whose_they_are(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / "bc", method="bc", seeds=2, with_q=False),
        make_run(tmp_path / "iql", method="iql", seeds=2),
        make_run(tmp_path / "cql", method="cql", seeds=2),
    ]

    def dotted() -> list[str]:
        (panel,) = q_values(Runs.of([read_run(folder) for folder in folders]))
        return [line.label for line in panel.lines if line.kind == "dashed"]

    edit(folders[0], average_return_to_go=-7.0)
    assert dotted() == ["return-to-go of the data"]
    edit(folders[2], average_return_to_go=-9.0)
    assert dotted() == ["return-to-go of the data: iql", "return-to-go of the data: cql"]


def test_a_calibration_file_that_cannot_be_read_costs_only_its_plot(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", seeds=1)
    (folder / "calibration-switch.npz").write_bytes(b"PK torn")
    np.savez(folder / "calibration-end.npz", q=np.array([object()]), return_to_go=np.zeros(1))  # a pickle: never loaded
    assert read_run(folder).calibration == {}


def test_divergence_is_a_problem(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False, stop_at=1_000)
    (folder / "status.json").write_text('{"finished": false, "reason": "diverged"}')
    assert "The run diverged" in findings(folder)
