"""Cells on a real Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reproduce_cells import tiny_cell

from calql.engine.checkpoint import whole
from calql.experiments.folders import status
from calql.experiments.launchers.base import StopRequest
from calql.experiments.launchers.ray import RayLauncher, pack, unpack

pytestmark = pytest.mark.slow

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one CPU each on this machine."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False},
    )
    made.add_node(num_cpus=1, object_store_memory=80_000_000)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_cell_whose_node_is_killed_goes_on_elsewhere(cluster: Any, tmp_path: Path) -> None:
    """Nothing is shared: checkpoints travel to the matrix, and from there to the node that goes on."""
    cells = [tiny_cell("cal-ql", online_steps=1_600), tiny_cell("cql", online_steps=1_600)]
    launcher = RayLauncher(cluster.address, retries=2, share=False)
    told: list[str] = []
    matrix = threading.Thread(target=launcher.run, args=(tmp_path, cells, StopRequest(), told.append))
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


def test_cells_share_a_gpu_and_a_folder(tmp_path: Path) -> None:
    """A node with one GPU, by its own word, takes two cells of half a GPU at once; a third waits for room.

    All work in the folder of the matrix, which the node sees, and each is given its share of the GPU's memory.
    """
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 4, "num_gpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cells = [tiny_cell("cal-ql", online_steps=steps) for steps in (400, 401, 402)]
    launcher = RayLauncher(cluster.address, gpus=0.5)
    matrix = threading.Thread(target=launcher.run, args=(tmp_path, cells, StopRequest(), lambda _: None))
    given: dict[Path, dict[str, str]] = {}  # by the folder that a cell works in
    at_once = 0
    try:
        matrix.start()
        while matrix.is_alive():
            found = _environments(tmp_path)
            given |= found
            at_once = max(at_once, len(found))
            time.sleep(0.2)
    finally:
        matrix.join(timeout=300)
        ray.shutdown()
        cluster.shutdown()
    assert [status(tmp_path, cell).state for cell in cells] == ["finished"] * 3
    assert at_once == 2
    assert given.keys() == {tmp_path / cell.id for cell in cells}
    assert {variables["CUDA_VISIBLE_DEVICES"] for variables in given.values()} == {"0"}
    assert {variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] for variables in given.values()} == {"0.450"}


def _environments(root: Path) -> dict[Path, dict[str, str]]:
    """Variables of the processes that cells below a folder run in, by the cell's folder."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "calql.experiments.launchers.process" in words and words[
                words.index("calql.experiments.launchers.process") + 1
            ].startswith(str(root)):
                variables = (process / "environ").read_bytes().decode(errors="replace").split("\0")
                folder = Path(words[words.index("calql.experiments.launchers.process") + 1])
                found[folder] = dict(text.split("=", 1) for text in variables if "=" in text)
    return found


def test_an_archive_of_a_cell_holds_whole_checkpoints_only(tmp_path: Path) -> None:
    run = tmp_path / "cell" / "run"
    (run / "checkpoints").mkdir(parents=True)
    for name in ("0.npz", "1.npz", "2.partial"):
        (run / "checkpoints" / name).write_text(name)
    (run / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "cell" / ".lock").touch()
    unpack(pack(tmp_path / "cell"), tmp_path / "copy")
    found = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*"))
    assert [name for name in found if (tmp_path / "copy" / name).is_file()] == [
        "run/checkpoints/0.npz",
        "run/checkpoints/1.npz",
        "run/metrics.jsonl",
    ]


def _checkpoints(folder: Path) -> list[Path]:
    return whole(folder / "run" / "checkpoints")


def _wait_until(condition: Any, seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.1)
