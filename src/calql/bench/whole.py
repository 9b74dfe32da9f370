"""A whole run for a while: updates/s, environment steps/s, and how long the device waits, from its own log."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calql import training
from calql.results.metrics import read_rows


def measure_run(task: str, method: str, options: Mapping[str, Any], *, minutes: float) -> dict[str, Any]:
    """Train with the given options for at most `minutes`, in a folder that is thrown away."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        watching = training.Watching(max_minutes=minutes)
        outcome = training.train(task, method=method, out=Path(place) / "run", watching=watching, **options)
        rows = read_rows(outcome.folder / "speed.jsonl")
    phases = {str(row["phase"]): row for row in rows}  # the last row of each
    return {
        "task": task,
        "method": method,
        "finished": outcome.finished,
        "wall_s": time.monotonic() - begun,
        "phases": {name: {key: value for key, value in row.items() if key != "phase"} for name, row in phases.items()},
    }
