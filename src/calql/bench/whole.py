"""A whole run for a while: updates/s, environment steps/s, and how long the device waits, from its own log."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
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
    return {
        "task": task,
        "method": method,
        "options": dict(options),
        "finished": outcome.finished,
        "wall_s": time.monotonic() - begun,
        "phases": {name: _phase([row for row in rows if row["phase"] == name]) for name in ("offline", "online")},
    }


def _phase(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The row that covers most of the phase; what waits included; and how much memory the phase took.

    An evaluation that comes late says what held when it began. The first row of a phase is written before the
    device has done its first block.
    """
    if not rows:
        return None
    widest = max(rows, key=lambda row: float(row["update"]))
    last = {key: value for key, value in widest.items() if key not in ("phase", "memory_mb")}
    waited = last["device_wait_share"]
    last["updates_per_wall_s"] = None if waited is None else last["updates_per_s"] * (1.0 - waited)
    return last | {"memory_mb": [rows[min(1, len(rows) - 1)]["memory_mb"], rows[-1]["memory_mb"]]}
