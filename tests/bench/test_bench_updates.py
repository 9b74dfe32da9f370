"""What is measured of updates: the right products counted, every axis grown, a run looked at from its own log."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from toy_task import noted_loops, tiny_options

from calql.bench import updates
from calql.bench.growth import AXES, draw_growth, measure_growth
from calql.bench.products import _multiply, measure_products, products_of
from calql.bench.updates import Shapes, measure_updates
from calql.cli import main

pytestmark = pytest.mark.slow

TINY = ["--critic-widths", "8", "--policy-widths", "8", "--batch-size", "4", "--sampled-actions", "2"]
SHAPES = Shapes(observation=4, action=2, transitions=100, episode=20)


def test_products_are_counted_with_their_loops() -> None:
    """[3, 4] by [4, 5] once and seven times in a loop: 2 * 3 * 4 * 5 operations each."""

    def program(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda total, _: (total + x @ y, None), x @ y, length=7)[0]

    found = list(products_of(jax.make_jaxpr(program)(jnp.ones((3, 4)), jnp.ones((4, 5))).jaxpr))
    assert [product.times for product in found] == [1, 7]
    assert [product.operations for product in found] == [120, 840]


def test_products_with_a_batch_axis() -> None:
    found = list(products_of(jax.make_jaxpr(jnp.matmul)(jnp.ones((6, 3, 4)), jnp.ones((6, 4, 5))).jaxpr))
    assert [product.operations for product in found] == [6 * 120]


def test_products_are_measured_in_the_arithmetic_of_the_update() -> None:
    """On a GPU, a product in float32 and the same one in TF32 take different times."""
    both = [jax.lax.Precision.HIGHEST, jax.lax.Precision.DEFAULT]
    program = jax.make_jaxpr(lambda x: [jnp.matmul(x, x, precision=precision) for precision in both])(jnp.ones((3, 3)))
    found = list(products_of(program.jaxpr))
    assert [product.precision for product in found] == [(precision, precision) for precision in both]
    again = jax.make_jaxpr(_multiply(found))([(jnp.ones((3, 3)), jnp.ones((3, 3)))] * 2)
    assert [product.precision for product in products_of(again.jaxpr)] == [product.precision for product in found]


def test_an_update_beside_its_products() -> None:
    measured = measure_products("cal-ql", tiny_options("cal-ql"), SHAPES, seconds=0.1)
    assert measured["products"] > 10
    assert measured["ratio"]["cpu"] == pytest.approx(measured["update_ms"]["cpu"] / measured["products_ms"]["cpu"])


def test_on_a_gpu_the_loops_of_runs_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole ones of the fixed length; what an update is made of is counted once, however long they are."""
    options = tiny_options("cal-ql")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with monkeypatch.context() as shorter:
        shorter.setattr(updates, "short_part", lambda _: 1)
        one = measure_products("cal-ql", options, SHAPES, seconds=0.1)
    given = noted_loops(monkeypatch)
    fixed = measure_products("cal-ql", options, SHAPES, seconds=0.1)
    assert (fixed["products"], fixed["gflop_per_update"]) == (one["products"], one["gflop_per_update"])
    measured = measure_updates("cal-ql", options, SHAPES, seconds=0.1)
    assert (measured["updates_per_loop"], measured["updates_per_block"] % 8) == (8, 0)
    assert set(given) == {8}


def test_growth_has_a_row_and_a_panel_for_each_axis(tmp_path: Path) -> None:
    most = dict.fromkeys(AXES, 0) | {"seeds": 1, "critics": 2}
    told: list[str] = []
    rows = measure_growth("cal-ql", tiny_options("cal-ql"), SHAPES, most=most, seconds=0.1, tell=told.append)
    assert [(row["axis"], row["value"]) for row in rows] == [("seeds", 1), ("critics", 2)]
    assert all(row["updates_per_s"] > 0 for row in rows)
    assert rows[0] == {**rows[1], "axis": "seeds", "value": 1}  # the same point, measured once
    assert [text.split(":")[0] for text in told] == ["seeds 1", "critics 2"]
    draw_growth(rows, tmp_path / "growth.png", "toy")
    assert (tmp_path / "growth.png").stat().st_size > 5_000


def test_the_command_writes_what_it_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert main(["bench", "--seeds", "1", "--seconds", "0.1", "--critic-widths", "8", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found == json.loads(capsys.readouterr().out)
    assert found["command"] == "calql bench --seeds 1 --seconds 0.1 --critic-widths 8"
    assert {"device", "jax", "commit"} <= found["versions"].keys()
    assert found["results"][0]["options"]["critic_widths"] == [8]


def test_one_thing_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--envs", "--growth"]) != 0
    assert "exclude each other" in capsys.readouterr().err


def test_methods_are_measured_each_with_its_own_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calql.cli.bench.able", lambda discrete: ["bc", "td3-bc"])
    assert main(["bench", "--methods", "--seeds", "1", "2", "--seconds", "0.1"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [(row["method"], row["seeds"]) for row in rows] == [("bc", 1), ("bc", 2), ("td3-bc", 1), ("td3-bc", 2)]
    assert all(row["updates_per_s"] > 0 for row in rows)


def test_a_whole_run_with_options_of_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """Four updates in blocks of two, then an episode online: each phase has its rates, and the options are told."""
    engine = ["offline_updates=4", "online_steps=1", "evaluation_episodes=1", "block=2", "lag=1", "reference=none"]
    assert main(["bench", "--run", "5", "--method", "cql", "--seeds", "1", *TINY, "--set", *engine]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert found["finished"]
    assert found["options"]["lag"] == 1
    assert found["options"]["difference_clip"] == ["-inf", "inf"]  # JSON has no infinity
    assert found["phases"]["online"]["waited_s"].keys() <= {"collection", "evaluations", "policies"}
    offline, online = found["phases"]["offline"], found["phases"]["online"]
    assert offline["update"] == 4
    assert online["env_steps"] >= 1
    assert offline["updates_per_wall_s"] == pytest.approx(offline["updates_per_s"] * (1 - offline["device_wait_share"]))
    assert len(online["memory_mb"]) == 2
    assert offline["seeds_at_once"] == 1.0
    assert online["collection_round_s"] > 0.0


def test_a_kept_run_is_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stopped before its end, a second command ends it; its time is that of both. Another run is refused."""
    engine = ["--set", "offline_updates=4", "online_steps=1", "evaluation_episodes=1", "block=2", "reference=none"]
    keep = ["--keep", str(tmp_path / "run")]

    def bench(minutes: str, *changes: str) -> int:
        return main(["bench", "--run", minutes, "--method", "cql", "--seeds", "1", *TINY, *keep, *engine, *changes])

    assert bench("0.001") == 0
    (first,) = json.loads(capsys.readouterr().out)["results"]
    assert not first["finished"]
    assert bench("5") == 0
    (second,) = json.loads(capsys.readouterr().out)["results"]
    assert second["finished"]
    assert second["parts_s"][0] == first["wall_s"]
    assert second["wall_s"] == pytest.approx(sum(second["parts_s"]))
    assert len(second["parts_s"]) == 2
    assert second["phases"]["online"]["env_steps"] >= 1
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    assert bench("5", "lag=1") != 0
    assert "another task, method or options" in capsys.readouterr().err


def test_what_is_kept_is_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--run", "1", "--seeds", "1", "2", "--keep", "runs"]) != 0
    assert "one number of --seeds" in capsys.readouterr().err


def test_a_whole_run_refuses_what_the_engine_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--run", "1", "--set", "lagg=1"]) != 0
    assert "lag" in capsys.readouterr().err


def test_options_of_the_engine_need_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--set", "lag=1"]) != 0
    assert "--run MINUTES" in capsys.readouterr().err
