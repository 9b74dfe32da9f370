"""Memory of a process that writes ever larger checkpoints: MB of one, then of the process, and seconds it took."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from calql.engine.checkpoint import Checkpoints
from calql.engine.speed import resident_mb

SIZES = (50, 100, 200, 300, 400, 600, 800, 800, 800, 100)  # MB

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder))
        for size in SIZES:
            rows = round(size * 1e6 / (6 * 120 * 4))
            arrays = {f"replay/{n}": rng.random((6, rows, 30), np.float32) for n in range(4)}
            arrays |= {f"state/{n}": rng.random((6, 512, 512), np.float32) for n in range(30)}
            begun = time.monotonic()
            checkpoints.save(arrays)
            taken = time.monotonic() - begun
            del arrays
            print(size, round(resident_mb() or 0), round(taken, 1), flush=True)
