"""Cells on a real Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reproduce_cells import tiny_cell

from calql.reproduce.engine import Stop
from calql.reproduce.folders import status
from calql.reproduce.ray_engine import RayEngine, pack, unpack

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one CPU each on this machine."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000})
    made.add_node(num_cpus=1, object_store_memory=80_000_000)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_cell_whose_node_is_killed_goes_on_elsewhere(cluster: Any, tmp_path: Path) -> None:
    """Nothing is shared: checkpoints travel to the matrix, and from there to the node that goes on."""
    cells = [tiny_cell("cal-ql", online_steps=1_600), tiny_cell("cql", online_steps=1_600)]
    engine = RayEngine(cluster.address, retries=2, share=False)
    told: list[str] = []
    matrix = threading.Thread(target=engine.run, args=(tmp_path, cells, Stop(), told.append))
    matrix.start()
    _wait_until(lambda: all(_checkpoints(tmp_path / cell.id) for cell in cells) or not matrix.is_alive())
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    matrix.join(timeout=300)
    assert not matrix.is_alive()
    assert [status(tmp_path, cell).state for cell in cells] == ["finished", "finished"]
    moved = [line for line in told if "sent elsewhere" in line]
    assert len(moved) == 1
    cell = next(cell for cell in cells if cell.id in moved[0])
    log = (tmp_path / cell.id / "log.txt").read_text()
    assert log.count(f"{cell.method} on {cell.task}") == 2  # it began twice,
    assert "starting from the beginning" not in log  # the second time from a checkpoint


def test_an_archive_of_a_cell_holds_whole_checkpoints_only(tmp_path: Path) -> None:
    run = tmp_path / "cell" / "run"
    for name in ("0", "1", "2.orbax-checkpoint-tmp"):
        (run / "checkpoints" / name).mkdir(parents=True)
        (run / "checkpoints" / name / "arrays").write_text(name)
    (run / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "cell" / ".lock").touch()
    unpack(pack(tmp_path / "cell"), tmp_path / "copy")
    found = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*"))
    assert [name for name in found if (tmp_path / "copy" / name).is_file()] == [
        "run/checkpoints/0/arrays",
        "run/checkpoints/1/arrays",
        "run/metrics.jsonl",
    ]


def _checkpoints(folder: Path) -> list[Path]:
    return [path for path in (folder / "run" / "checkpoints").glob("*") if path.name.isdigit()]


def _wait_until(condition: Any, seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.1)
