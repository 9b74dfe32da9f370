"""Runs that are looked at while they go on: their page as it is now, made again when their files have changed.

Files are only read, and nothing is locked: a run neither waits for who looks nor notices them.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calql.results import html, interactive
from calql.results.page import Material, report_page
from calql.results.runs import RecordedRun, read_runs
from calql.system.errors import UserError
from calql.system.run_files import CALIBRATED, CONFIG, FILM_LIST, FILMS, MAPS, METRICS, SPEED, STATUS, calibration

READ = (CONFIG, METRICS, SPEED, STATUS, MAPS, *map(calibration, CALIBRATED), f"{FILMS}/{FILM_LIST}")
LEAST_PAUSE_S = 1.5  # between two pages
SHARE = 0.1  # of the time: no more goes into making pages
RUNNING = "running"  # what status.json says of a run that goes on


@dataclass(frozen=True)
class Page:
    """A page, and the part of it that changes."""

    text: str
    version: str  # of the part that changes

    @property
    def main(self) -> str:
        return self.text[self.text.index("<main>") : self.text.index("</main>") + len("</main>")]


@dataclass
class Watched:
    """Run folders, the last page of them and what their files were then. May be asked by several threads."""

    folders: list[Path]
    clock: Callable[[], float] = time.monotonic
    _page: Page | None = None
    _stamp: tuple[Any, ...] = ()
    _next: float = 0.0  # when a page may be made again
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> Page:
        """The page as it is, or as it was a moment ago: pages take a small share of the time, however often asked."""
        with self._lock:
            if self._page is None or self.clock() >= self._next or self.ended:
                stamp = self._look()
                if self._page is None or stamp != self._stamp:
                    begun = self.clock()
                    self._page, self._stamp = self._made(), stamp
                    took = self.clock() - begun
                    self._next = self.clock() + max(LEAST_PAUSE_S, took / SHARE)
            return self._page

    @property
    def ended(self) -> bool:
        """Every run has come to its end, or was stopped; one that was killed seems to go on."""
        return bool(self.folders) and all(_state(folder) not in ("", RUNNING) for folder in self.folders)

    def _look(self) -> tuple[Any, ...]:
        """What the files of the runs look like from outside."""
        found = []
        for path in (folder / name for folder in self.folders for name in READ):
            with suppress(OSError):
                seen = path.stat()
                found.append((str(path), seen.st_mtime_ns, seen.st_size))
        return tuple(found)

    def _made(self) -> Page:
        runs = [run for folder in self.folders for run in _runs(folder)]
        text = report_page(Material.of(runs), None, live=True) if runs else _waiting(self.folders)
        main = Page(text, "").main
        return Page(text, hashlib.sha256(main.encode()).hexdigest()[:24])


def _runs(folder: Path) -> Sequence[RecordedRun]:
    """None where there is nothing to read yet, or no more."""
    try:
        return read_runs(folder)
    except (UserError, OSError):
        return []


def _state(folder: Path) -> str:
    """What status.json gives as the reason; nothing where there is none yet."""
    with suppress(OSError, ValueError):
        found = json.loads((folder / STATUS).read_text())
        return str(found.get("reason", "")) if isinstance(found, dict) else ""
    return ""


def _waiting(folders: Sequence[Path]) -> str:
    names = ", ".join(str(folder) for folder in folders) or "its folder is not there yet"
    return html.render(
        "waiting.html.j2", title="The run is being prepared", subtitle=names, script=interactive.script()
    )
