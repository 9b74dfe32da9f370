"""The process of a cell, started with the same code and a share of the device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import calql
from calql.experiments.cells import LOG
from calql.experiments.folders import CellProgress, read_progress, write_progress

MEMORY_SHARE = 0.9  # of a GPU, given to all of its cells together


def launch(
    folder: Path, *, workers: int, gpu: str | None = None, sharing: int = 1, wait_s: float = 0.0
) -> subprocess.Popen[bytes]:
    """Start a cell; what it says goes to its log. It stops by itself when this process is gone."""
    write_progress(folder, CellProgress("running", seconds=read_progress(folder).seconds))
    words = ["--workers", str(workers), "--parent", str(os.getpid()), "--wait", str(wait_s)]
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "calql.experiments.launchers.process", str(folder), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(gpu, sharing),
            start_new_session=True,  # Ctrl-C reaches the matrix alone, which then tells its cells
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a cell at once, with the processes that step its environments."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(gpu: str | None, sharing: int) -> dict[str, str]:
    """Variables of a cell's process: the same code and a share of the GPU."""
    variables = {
        "PYTHONUNBUFFERED": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{MEMORY_SHARE / sharing:.3f}",
    }
    chosen = {name: os.environ.get(name, value) for name, value in variables.items()}
    if gpu is not None:
        chosen["CUDA_VISIBLE_DEVICES"] = gpu
    package = Path(calql.__file__).parent.parent
    paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **chosen, "PYTHONPATH": os.pathsep.join(paths)}
