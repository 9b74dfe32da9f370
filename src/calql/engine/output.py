"""What a run writes and shows while it goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.engine.counters import Counters
from calql.engine.plan import Plan, Probe
from calql.engine.speed import Stopwatch, resident_mb
from calql.results import Display, MetricsLog, Row, Sink, read_rows
from calql.results.arms import in_words, member_of
from calql.results.divergence import Watch
from calql.results.metrics import encode, write_atomically
from calql.results.remedies import remedies
from calql.system.files import written_whole
from calql.system.run_files import METRICS, SPEED, STANDING, calibration


class Output:
    """The files of a run folder, the display and further loggers."""

    def __init__(self, plan: Plan, folder: Path, display: Display, sinks: Sequence[Sink]) -> None:
        self._plan, self._folder, self._display, self._sinks = plan, folder, display, sinks
        self.metrics = MetricsLog(folder / METRICS)
        self._speed = MetricsLog(folder / SPEED)
        self._begun = time.monotonic()
        self.rows_written = 0
        low, high = plan.inputs.possible
        self.watch = Watch((low, high) if high > low else None, plan.inputs.spec.action_dim)

    def announce(self) -> None:
        options = self._plan.options
        self._display.start(options.offline_updates, options.online_steps, self._plan.label)

    def go_on_after(self, rows: int) -> list[Row]:
        """Take up a run whose first `rows` rows are there, and give them; what follows them will be written again."""
        self.rows_written, there = rows, read_rows(self.metrics.path)[:rows]
        self.watch.note(there)
        for sink in self._sinks:
            sink.go_on_after(there)
        return there

    def phase(self, *, online: bool) -> None:
        self._display.phase("online" if online else "offline")

    def write(self, rows: list[Row], watch: Stopwatch, unfinished: int) -> None:
        """Rows of one evaluation, how fast things went until now, and how many other evaluations are being played."""
        episodes = self._plan.options.evaluation_episodes
        watch.evaluation_steps += round(sum(row["episode_length"] or 0.0 for row in rows) * episodes)
        self.metrics.append(rows)
        self.rows_written += len(rows)
        means = {name: float(np.mean([row[name] for row in rows])) for name in ("update", "env_steps")}
        self.speed(rows[0]["phase"], means["update"], means["env_steps"], watch, unfinished)
        self._display.evaluation(rows)
        self._warn(rows)
        for sink in self._sinks:
            sink.write(rows)

    def standing(self, rows: list[Row]) -> None:
        """Rows of the end of a round of episodes that were handed in, which are none of the run's own."""
        write_atomically(self._folder / STANDING, "".join(f"{encode(row)}\n" for row in rows))
        self._display.evaluation(rows)
        self._warn(rows)

    def _warn(self, rows: list[Row]) -> None:
        """Of seeds that begin to run away; what to try is told once for those of one evaluation."""
        alarms = self.watch.note(rows)
        for alarm in alarms:
            self.message(f"{in_words(alarm.member)} is running away: {alarm.text}")
        for alarm in alarms[:1]:
            method = next((arm.method for arm in self._plan.arms if arm.name == alarm.arm), self._plan.method)
            mine = [row for row in [*read_rows(self.metrics.path), *rows] if member_of(row) == alarm.member]
            options = getattr(method, "options", None)
            told = remedies(alarm.signal, mine, {} if options is None else vars(options), self.watch.width)
            if told:
                self.message(told)

    def speed(self, phase: str, update: float, env_steps: float, watch: Stopwatch, unfinished: int) -> None:
        """How fast a phase has gone until now."""
        self._speed.append(
            [
                {
                    "phase": phase,
                    "update": update,
                    "env_steps": env_steps,
                    "updates_per_s": watch.updates_per_s,
                    "seeds_at_once": watch.seeds_at_once,
                    "env_steps_per_s": watch.env_steps_per_s,
                    "collection_round_s": watch.collection_round_s,
                    "device_wait_share": watch.device_wait_share,
                    "waited_s": dict(watch.waited_s),
                    "evaluation_steps": watch.evaluation_steps,
                    "evaluations_unfinished": unfinished,
                    "memory_mb": resident_mb(),
                    "elapsed_s": time.monotonic() - self._begun,
                }
            ]
        )

    def message(self, text: str) -> None:
        self._display.message(text)

    def calibration(self, checkpoint: str, probe: Probe, q: NDArray[Any]) -> None:
        """Q against return-to-go on logged states, for the report."""
        with written_whole(self._folder / calibration(checkpoint)) as file:
            np.savez(file, q=q, return_to_go=probe.return_to_go, held_out=np.array(probe.held_out))

    def progress(self, counters: Counters, watch: Stopwatch) -> None:
        seeds = len(self._plan.seeds)
        self._display.advance(
            round(float(counters.gradient_steps.mean())),
            round(float(counters.env_steps.mean())),
            watch.updates_per_s / seeds,
            watch.env_steps_per_s / seeds,
        )

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        self._display.close()
