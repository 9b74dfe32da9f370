"""The tidy table holds every evaluation of every seed, and what it came from."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from reproduce_cells import tiny_cell

from calql.experiments.analysis.tidy import read_table, write_table
from calql.experiments.cells import Cell
from calql.experiments.folders import prepare
from calql.system.errors import UserError

EVALUATION = {"phase": "online", "switch": False, "update": 30, "env_steps": 200, "score": 0.5, "return": -1.0}


def _with_run(root: Path, cell: Cell, rows: list[dict[str, object]], *, finished: bool) -> None:
    folder = prepare(root, cell)
    (folder / "run").mkdir()
    config = {
        "task": cell.task,
        "method": cell.method,
        "seeds": [0],
        "run": {"offline_updates": 20, "online_steps": 200},
        "dataset": {"fingerprint": "0123abcd", "source": "/somewhere/on/this/machine/data.npz"},
        "versions": {"commit": "c0ffee", "jax": "1.2.3", "device": "cpu"},
        "command": "calql train ...",
    }
    (folder / "run" / "config.json").write_text(json.dumps(config))
    (folder / "run" / "status.json").write_text(json.dumps({"finished": finished}))
    (folder / "run" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "provenance.json").write_text(json.dumps({"dataset": "built/a/data.npz", "manifest": {"sha256": "ff"}}))


def test_a_row_for_every_evaluation_with_its_provenance(tmp_path: Path) -> None:
    done = dataclasses.replace(tiny_cell(), variant="narrow", paper_online_steps=9, shortened="much")
    half, never = tiny_cell("cql"), tiny_cell("sac")
    _with_run(tmp_path, done, [{"seed": s, **EVALUATION, "average_q": None} for s in (0, 1)], finished=True)
    _with_run(tmp_path, half, [{"seed": 0, **EVALUATION, "bound_rate/q1/policy": 0.25}], finished=False)
    path = write_table("fig-data", [done, half, never], tmp_path, tmp_path / "out" / "results.csv")
    rows = read_table(path)
    assert [(row["cell"], row["seed"], row["finished"]) for row in rows] == [
        (done.id, "0", "1"),
        (done.id, "1", "1"),
        (half.id, "0", "0"),
    ]
    expected = {
        "experiment": "fig-data",
        "variant": "narrow",
        "switch": "0",
        "score": "0.5",
        "average_q": "",
        "bound_rate/q1/policy": "",
        "offline_updates": "20",
        "paper_online_steps": "9",
        "shortened": "much",
        "commit": "c0ffee",
        "calql": "",
        "dataset": "built/a/data.npz",
        "dataset_fingerprint": "0123abcd",
        "dataset_manifest": '{"sha256": "ff"}',
    }
    assert {name: rows[0][name] for name in expected} == expected
    assert rows[2]["bound_rate/q1/policy"] == "0.25"
    assert "/somewhere" not in path.read_text()


def test_a_table_that_is_not_there_is_a_mistake_to_mend(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="calql reproduce"):
        read_table(tmp_path / "results.csv")


@pytest.mark.parametrize("damage", ["cut", "changed", "not compressed", "not text"])
def test_a_damaged_table_is_a_mistake_to_mend(damage: str, tmp_path: Path) -> None:
    text = "experiment,task\n" + "".join(f"fig-data,task-{number * 7919 % 997}\n" for number in range(500))
    whole = gzip.compress(text.encode())
    path = tmp_path / ("results.csv" if damage == "not text" else "results.csv.gz")
    kinds = {
        "cut": whole[: len(whole) // 2],
        "changed": whole[:200] + bytes(255 - byte for byte in whole[200:400]) + whole[400:],
        "not compressed": text.encode(),
        "not text": b"experiment\n\xff\xfe\x00\n",
    }
    path.write_bytes(kinds[damage])
    with pytest.raises(UserError, match="not a whole table"):
        read_table(path)
