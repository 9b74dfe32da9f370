"""A whole run for a while: updates/s, environment steps/s, and how long the device waits, from its own log."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calql.domains.registry import get_task
from calql.results import MetricsLog
from calql.results.metrics import read_rows
from calql.runs import api, life, record, request
from calql.runs.request import Choice
from calql.system.errors import UserError
from calql.system.run_files import BENCHED, SPEED


def measure_run(
    task: str,
    method: str,
    options: Mapping[str, Any],
    *,
    minutes: float,
    keep: Path | None = None,
    dataset: str | None = None,
) -> dict[str, Any]:
    """Train with the given options for at most `minutes`, in a folder that is thrown away, or kept.

    A run that is in the kept folder already is gone on with; rates are then those of this part.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = keep or Path(place) / "run"
        before = len(read_rows(folder / SPEED))
        outcome = go_on(folder, task, method, options, life.Watching(max_minutes=minutes), dataset)
        rows = read_rows(folder / SPEED)[before:]
        MetricsLog(folder / BENCHED).append([{"wall_s": time.monotonic() - begun}])
        parts = [row["wall_s"] for row in read_rows(folder / BENCHED)]
    return {
        "task": task,
        "method": method,
        "options": dict(options),
        "finished": outcome.finished,
        "wall_s": sum(parts),
        "parts_s": parts,
        "phases": {name: _phase([row for row in rows if row["phase"] == name]) for name in ("offline", "online")},
    }


def go_on(
    folder: Path,
    task: str,
    method: str,
    options: Mapping[str, Any],
    watching: life.Watching,
    dataset: str | None = None,
) -> life.Outcome:
    """Start the run in the folder, or resume it if it is the same one; on the task's own data, or on those given."""
    if folder.exists():
        _require_same(folder, task, method, options)
    begin = partial(api.train, task, dataset=dataset, method=method, out=folder, watching=watching, **options)
    return life.start_or_resume(folder, watching, begin)


def _require_same(folder: Path, task: str, method: str, options: Mapping[str, Any]) -> None:
    there, _ = record.from_config(folder)
    usual = request.defaults(Choice(task=task, method=method), get_task(task))
    asked = request.set_options(*usual, options, method)
    if (there.choice.task, there.choice.method, there.run, there.options) != (task, method, *asked):
        raise UserError(
            "is a run of another task, method or options",
            where=str(folder),
            mend="give the command that began it, or choose another --keep",
        )


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
