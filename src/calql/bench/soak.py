"""A real run for a long while, watched from beside: does it hold more and more, and is that the replay buffer?"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calql.bench.sampling import Sample, require_proc, sampled, take
from calql.bench.trend import summary, warm_from
from calql.bench.whole import go_on
from calql.domains.registry import get_task
from calql.engine.memory import one_row, size
from calql.engine.options import RunOptions
from calql.engine.plan import buffer_rows
from calql.methods import method_entry
from calql.results import MetricsLog, Silent
from calql.runs import life as training
from calql.runs import record, request
from calql.runs.request import Choice
from calql.system.run_files import SOAKED

EVERY_S = 2.0
ENDLESS = 2_000_000_000  # environment steps: the clock ends the run
FOLLOWED = ("resident_mb", "anonymous_mb", "workers_mb", "shared_mb", "open_files", "threads", "mappings")


class Position(Silent):
    """Where the run stands, for whoever looks from another thread."""

    def __init__(self) -> None:
        self.env_steps, self.online = 0, False

    def phase(self, name: str) -> None:
        self.online = name == "online"

    def advance(self, updates: int, env_steps: int, updates_per_s: float, env_steps_per_s: float) -> None:
        self.env_steps = env_steps


@dataclass(frozen=True)
class Buffer:
    """The online buffers of all seeds."""

    row_bytes: int
    rows: int  # of one seed
    seeds: int

    def filled_mb(self, env_steps: int) -> float:
        """What the rows hold that were written so far; from a full ring on, it stays."""
        return min(env_steps, self.rows) * self.row_bytes * self.seeds / 1e6

    @property
    def size_mb(self) -> float:
        return self.filled_mb(self.rows)


def soak_options(task: str, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A run without end, soon online, with checkpoints and evaluations often, and the buffer of a usual run.

    What is given comes first. The buffer's rows follow from the steps of a run, of which there is no end here.
    """
    usual, _ = request.defaults(Choice(task=task, method=method), get_task(task))
    often = {
        "offline_updates": min(usual.offline_updates, 500),
        "online_steps": ENDLESS,
        "capacity": min(usual.capacity, usual.online_steps),
        "checkpoint_minutes": 0.1,
        "evaluate_online_every": min(usual.evaluate_online_every, 500),
    }
    return often | dict(given)


def measure_soak(
    task: str,
    method: str,
    options: Mapping[str, Any],
    *,
    minutes: float,
    keep: Path | None = None,
    dataset: str | None = None,
) -> dict[str, Any]:
    """Train for so long in a folder that is thrown away, or kept, and say what the processes held meanwhile."""
    require_proc()
    position = Position()
    chosen = soak_options(task, method, options)

    def look(seconds: float) -> Sample:
        found = take(os.getpid(), seconds)
        return dataclasses.replace(found, env_steps=position.env_steps, online=position.online)

    with tempfile.TemporaryDirectory() as place:
        folder = keep or Path(place) / "run"
        watching = training.Watching(display=position, max_minutes=minutes)
        with sampled(look, EVERY_S) as samples:
            go_on(folder, task, method, chosen, watching, dataset)
        MetricsLog(folder / SOAKED).append([dataclasses.asdict(sample) for sample in samples])
        buffer, run = buffer_of(folder)
    return {"task": task, "method": method, "options": chosen, "workers": run.workers, **report(samples, buffer)}


def buffer_of(folder: Path) -> tuple[Buffer, RunOptions]:
    """Of the run in the folder."""
    experiment, _ = record.from_config(folder)
    row = one_row(method_entry(experiment.choice.method).make(experiment.options), experiment.data)
    rows = buffer_rows(experiment.run, experiment.task.episode_limit)
    return Buffer(size(row), rows, experiment.run.seeds), experiment.run


def report(samples: Sequence[Sample], buffer: Buffer) -> dict[str, Any]:
    """Each quantity after the warm-up, next to how much the buffer filled in that time."""
    seconds = [sample.seconds for sample in samples]
    warm = warm_from(seconds, [sample.online for sample in samples])
    filled = [buffer.filled_mb(sample.env_steps) for sample in samples]
    followed = {name: [float(getattr(sample, name)) for sample in samples] for name in FOLLOWED}
    return {
        "samples": len(samples),
        "seconds": seconds[-1],
        "warm_up_s": warm,
        "env_steps": samples[-1].env_steps,
        "worker_processes": max(sample.workers for sample in samples),
        "buffer": {"row_bytes": buffer.row_bytes, "rows": buffer.rows, "seeds": buffer.seeds, "mb": buffer.size_mb},
        "buffer_filled_mb": summary(seconds, filled, warm),
        **{name: summary(seconds, values, warm) for name, values in followed.items()},
    }


def in_a_line(found: Mapping[str, Any]) -> str:
    """The same for people."""
    parts = [f"{_rounded(found['seconds'] / 60)} minutes, {found['env_steps']:,} steps"]
    parts.append(f"memory {_course(found['resident_mb'], ' MB')}, largest {found['resident_mb']['largest']:.0f}")
    parts.append(f"the buffer's rows {_course(found['buffer_filled_mb'], ' MB')} of {_rounded(found['buffer']['mb'])}")
    if found["worker_processes"]:
        parts.append(f"{found['worker_processes']} processes below it {_course(found['workers_mb'], ' MB')}")
    parts += [f"{name.replace('_', ' ')} {_ends(found[name])}" for name in ("open_files", "threads", "mappings")]
    return f"{found['method']} on {found['task']}: " + "; ".join(parts)


def _course(found: Mapping[str, Any], unit: str) -> str:
    slope, spread = found["slope_per_hour"], found["spread_per_hour"]
    pace = "" if slope is None else f" ({slope:+.1f} ± {spread:.1f}{unit} an hour)"
    return f"{_ends(found)}{unit}{pace}"


def _ends(found: Mapping[str, Any]) -> str:
    return f"{_rounded(found['first'])} to {_rounded(found['last'])}"


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"
