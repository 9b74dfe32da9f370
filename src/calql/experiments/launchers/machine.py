"""What one machine has to offer, and how it is divided among cells that run at once."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from calql.system.cores import available_cores

CORES_PER_CELL = 3  # one that feeds the GPU, two that step environments
CELLS_PER_GPU = 6  # more of them only wait for each other


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
