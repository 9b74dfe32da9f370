"""Ctrl-C, SIGTERM and --max-minutes: answered at once, done within seconds, each with an exit code of its own.

Python runs its signal handlers between two instructions of the main thread, which may be waiting for the compiler
for a minute. So a thread listens to the signals, as they arrive, through a pipe, says that they were heard, and keeps
the time. A run that does not come to a checkpoint in time is ended where it is: as after a kill, it goes on from
its last checkpoint to the same results.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Literal

Cause = Literal["Ctrl-C", "SIGTERM", "--max-minutes"]
CODES: dict[Cause, int] = {"Ctrl-C": 130, "SIGTERM": 143, "--max-minutes": 124}  # 128 + signal; as timeout(1) has it
SIGNALS: dict[int, Cause] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

GRACE_S = 10.0  # from a signal to the end, where no checkpoint can be written
AGAIN_S = 0.5  # a second Ctrl-C that comes sooner is the first one, passed on by another program
MARGIN_S, MARGIN = 10.0, 0.2  # kept back from --max-minutes for the last checkpoint: seconds, at most this share


class Stopped(KeyboardInterrupt):
    """A command ended before its run had begun, or with its run unfinished."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(f"{text} ({cause})")
        self.code = CODES[cause]


class Stops:
    """Listens for requests to stop while it is open.

    `own_process`: nobody else lives in this process, so that it may be ended where it is stuck.
    """

    def __init__(
        self,
        max_minutes: float | None = None,
        *,
        since: float | None = None,
        own_process: bool = False,
        grace_s: float = GRACE_S,
    ) -> None:
        self.cause: Cause | None = None
        self._grace_s = grace_s
        self._own, self._running, self._shields = own_process, False, 0
        self._soft = self._hard = self._limit = math.inf  # when to ask, and when to end, in time.monotonic()
        if max_minutes is not None:
            seconds = 60.0 * max_minutes
            end = (time.monotonic() if since is None else since) + seconds
            self._soft, self._limit = end - min(MARGIN_S, MARGIN * seconds), end - min(1.0, 0.05 * seconds)
        self._heard_at, self._again = 0.0, False
        self._asked, self._over = threading.Event(), threading.Event()
        self._told: list[Callable[[str], None]] = []

    def asked(self) -> bool:
        return self._asked.is_set()

    def check(self) -> None:
        """Between the steps of setting a run up: end here, if asked to. Time that is up ends at a first checkpoint."""
        if self.cause is not None and self.cause != "--max-minutes":
            raise Stopped(self.cause, "stopped before the run had begun")

    @contextmanager
    def running(self) -> Iterator[None]:
        """A run goes on, which comes to a checkpoint when asked; before and after, a signal ends things at once."""
        self._running = True
        try:
            yield
        finally:
            self._running = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1

    @contextmanager
    def telling(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Have somebody told why, should the process be ended where it is."""
        self._told.append(tell)
        try:
            yield
        finally:
            self._told.remove(tell)

    def __enter__(self) -> Stops:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
            self._handlers = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._thread = threading.Thread(target=self._listen, daemon=True, name="calql-stops")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handlers:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup)
        self._over.set()
        os.write(self._writing, b"\0")
        self._thread.join()
        os.close(self._reading)
        os.close(self._writing)

    def _handle(self, number: int, _: FrameType | None) -> None:
        """In the main thread, when it comes to that: perhaps long after the listener has answered."""
        if not self._running:
            raise Stopped(SIGNALS[number], "stopped")
        time.sleep(0.05)  # the listener counts
        if self._again and number == signal.SIGINT:
            raise KeyboardInterrupt("Ctrl-C, twice")

    def _listen(self) -> None:
        while not self._over.is_set():
            now = time.monotonic()
            soonest = min(self._hard if self._asked.is_set() else self._soft, now + 1.0)
            if select.select([self._reading], [], [], max(soonest - now, 0.01))[0]:
                for number in os.read(self._reading, 64):
                    if number in SIGNALS:
                        self._hear(SIGNALS[number])
            if self.cause is None and time.monotonic() >= self._soft:
                self._hear("--max-minutes")
            if self._own and time.monotonic() >= self._hard and not self._shields and not self._over.is_set():
                self._end_here()

    def _hear(self, cause: Cause) -> None:
        """Answer the first request; later ones may shorten the wait. The listener's alone: each counts once."""
        now = time.monotonic()
        if self.cause is None:
            self.cause, self._heard_at = cause, now
            self._hard = min(self._limit, math.inf if cause == "--max-minutes" else now + self._grace_s)
            self._asked.set()
            what = "the time is nearly up" if cause == "--max-minutes" else cause
            say(f"{what}: stopping{' at a checkpoint' if self._running else ''}")
        elif cause == "Ctrl-C" and now - self._heard_at > AGAIN_S:
            self._again, self._hard = True, min(self._hard, now + 2.0)
        elif cause == "SIGTERM":
            self._hard = min(self._hard, now + self._grace_s)

    def _end_here(self) -> None:
        assert self.cause is not None
        reason = "stopped: go on with --resume, from the last checkpoint before the end"
        say("no checkpoint could be written in time: ending here; the run goes on from its last one")
        for tell in self._told:
            with suppress(Exception):
                tell(reason)
        for process in multiprocessing.active_children():
            process.kill()
        if sys.stdout.isatty():
            os.write(1, b"\x1b[?25h\n")  # a live display hides the cursor
        os._exit(CODES[self.cause])


def say(text: str) -> None:
    """A line to who watches, written at once: in a signal handler, Python's own streams may be in use."""
    with suppress(OSError):
        os.write(2, f"calql: {text}\n".encode())


def process_start() -> float:
    """When this process began, in time.monotonic(); now, where the system does not tell."""
    with suppress(OSError, ValueError, IndexError, AttributeError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begun = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # since the machine was started
        return time.monotonic() - max(time.clock_gettime(time.CLOCK_BOOTTIME) - begun, 0.0)
    return time.monotonic()
