"""How long a run takes to its first update, as it is measured and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calql.bench import start
from calql.bench.growth import measure_growth
from calql.bench.updates import Shapes
from calql.cli import main
from calql.methods import method_entry
from calql.system.errors import UserError

TIMES = [{"wall_s": 9.0, "cpu_s": 8.0, "update_cpu_s": 0.5}, {"wall_s": 4.0, "cpu_s": 3.0, "update_cpu_s": 0.4}]


@pytest.mark.slow
def test_the_first_update_is_noted_and_the_run_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, which has lived for a while."""
    start.main(["point-maze-narrow", "bc", "1", "{}"])
    found = json.loads(capsys.readouterr().out)
    assert found["cpu_s"] > 0.0
    assert found["wall_s"] > 0.0
    assert 0.0 < found["update_cpu_s"] < found["cpu_s"]


@pytest.mark.slow
def test_a_run_that_ends_before_its_first_update_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ended before its first update \(.*no-such-task"):
        start._in_a_process(["no-such-task", "bc", "1", "{}"], tmp_path)


def test_the_command_measures_every_method_of_the_task(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    took = iter(TIMES * 2)
    monkeypatch.setattr(start, "_in_a_process", lambda words, cache: next(took))
    monkeypatch.setattr("calql.cli.bench.able", lambda discrete: ["bc", "iql"])
    assert main(["bench", "--starts", "all", "--seeds", "2"]) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)["results"]
    assert [(row["method"], row["seeds"], row["first"]["cpu_s"], row["second"]["wall_s"]) for row in rows] == [
        ("bc", 2, 8.0, 4.0),
        ("iql", 2, 8.0, 4.0),
    ]
    said = "7.5 s of the processor, then 2.6; an update 0.4"
    assert printed.err.splitlines() == [f"{name}: {said}" for name in ("bc", "iql")]


def test_one_method_may_be_given_options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller batches, where an update takes longer than all that is to be measured; the others keep theirs."""
    asked: list[str] = []
    took = iter(TIMES * 2)

    def measured(words: list[str], cache: Path) -> dict[str, float]:
        asked.append(words[-1])
        return next(took)

    monkeypatch.setattr(start, "_in_a_process", measured)
    assert main(["bench", "--starts", "bc", "iql", "--method", "iql", "--batch-size", "8", "--seeds", "1"]) == 0
    assert asked == ["{}", "{}", '{"batch_size": 8}', '{"batch_size": 8}']
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [row.get("changes") for row in rows] == [None, {"batch_size": 8}]


def test_growth_with_width_keeps_the_number_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves devices out where there is one."""
    seen = []

    def measured(name: str, options: object, shapes: Shapes, **_: object) -> dict[str, float]:
        seen.append((vars(options)["critic_widths"], shapes.devices))
        return {"updates_per_s": 1.0, "compile_s": 1.0}

    monkeypatch.setattr("calql.bench.growth.measure_updates", measured)
    options = method_entry("cal-ql").options(critic_widths=(64, 64, 64))
    measure_growth("cal-ql", options, Shapes(), ["critic_widths", "devices"])
    assert seen == [((width,) * 3, 1) for width in (128, 256, 512)]
