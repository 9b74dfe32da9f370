"""What one machine has to offer, and how it is divided among cells that run at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import calql
from calql.data.store import available_cores

CORES_PER_CELL = 3  # one that feeds the GPU, two that step environments
CELLS_PER_GPU = 6  # more of them only wait for each other
MEMORY_SHARE = 0.9  # of a GPU, given to all of its cells together


@dataclass(frozen=True)
class Machine:
    """Cores, and the GPUs by the names that CUDA_VISIBLE_DEVICES takes."""

    cores: int
    gpus: tuple[str, ...] = ()
    gpu_kind: str = ""

    @property
    def device(self) -> str:
        """In words."""
        return f"{len(self.gpus)} x {self.gpu_kind}" if self.gpus else f"{self.cores} CPU cores"

    @property
    def jobs(self) -> int:
        """Cells at once: as many as keep the GPUs busy, or one for every few cores."""
        by_cores = max(1, self.cores // CORES_PER_CELL)
        return min(by_cores, CELLS_PER_GPU * len(self.gpus)) if self.gpus else by_cores


def this_machine() -> Machine:
    """Found without starting JAX, which would take the GPU's memory for itself."""
    names, kind = _gpus()
    return Machine(available_cores(), names, kind)


def _gpus() -> tuple[tuple[str, ...], str]:
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu") or shutil.which("nvidia-smi") is None:
        return (), ""
    query = ["nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return (), ""
    found = dict(line.split(", ", 1) for line in told.splitlines() if ", " in line)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = tuple(found) if visible is None else tuple(name for name in visible.split(",") if name)
    return names, next(iter(found.values()), "") if names else ""


def environment(*, gpu: str | None = None, sharing: int = 1) -> dict[str, str]:
    """Variables of a cell's process: the same code, a share of the GPU, and compiled programs kept for the next."""
    compiled = Path(tempfile.gettempdir()) / f"calql-compiled-{os.getuid()}"
    variables = {
        "JAX_COMPILATION_CACHE_DIR": str(compiled),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1",
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
