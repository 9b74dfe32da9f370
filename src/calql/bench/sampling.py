"""What a process and those it has started hold at a moment: memory, files, threads, mappings, as /proc tells it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from calql.system.errors import UserError

PROC = Path("/proc")


@dataclass(frozen=True)
class Sample:
    """Memory in MB of 10^6 bytes; `workers` are all processes below this one, `shared` is that of all of them."""

    seconds: float  # since the sampling began
    resident_mb: float
    anonymous_mb: float  # of it, what is no page of a file: a leak of ours shows here
    workers_mb: float
    workers: int
    shared_mb: float
    open_files: int
    threads: int
    mappings: int
    env_steps: int = 0  # mean over seeds
    online: bool = False


def take(pid: int, seconds: float, proc: Path = PROC) -> Sample:
    """Look at a process once. Processes that end meanwhile are left out."""
    own, below = status_of(pid, proc), []
    for child in descendants(pid, proc):
        with suppress(OSError):
            below.append(status_of(child, proc))
    return Sample(
        seconds,
        resident_mb=_mb(own, "VmRSS"),
        anonymous_mb=_mb(own, "RssAnon"),
        workers_mb=sum(_mb(status, "VmRSS") for status in below),
        workers=len(below),
        shared_mb=sum(_mb(status, "RssShmem") for status in (own, *below)),
        open_files=len(os.listdir(proc / str(pid) / "fd")),
        threads=int(own["Threads"]),
        mappings=len((proc / str(pid) / "maps").read_bytes().splitlines()),
    )


def status_of(pid: int, proc: Path = PROC) -> dict[str, str]:
    lines = (proc / str(pid) / "status").read_text().splitlines()
    return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}


def descendants(pid: int, proc: Path = PROC) -> list[int]:
    """Every process that this one, or one of those, has started and that is still there."""
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with suppress(OSError, KeyError):
                children.setdefault(int(status_of(int(folder.name), proc)["PPid"]), []).append(int(folder.name))
    found = list(children.get(pid, []))
    for child in found:  # grows as it goes
        found += children.get(child, [])
    return found


def _mb(status: Mapping[str, str], name: str) -> float:
    """A line such as 'VmRSS:   619000 kB'; a process that has ended has none."""
    return int(status.get(name, "0 kB").split()[0]) * 1024 / 1e6


@contextmanager
def sampled(look: Callable[[float], Sample], every_s: float) -> Iterator[list[Sample]]:
    """Look every so often, beside whatever is done inside; the list fills as it goes."""
    samples: list[Sample] = []
    over, begun = threading.Event(), time.monotonic()

    def follow() -> None:
        while True:
            samples.append(look(time.monotonic() - begun))
            if over.wait(every_s):
                return

    thread = threading.Thread(target=follow, daemon=True, name="calql-soak")
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def require_proc(proc: Path = PROC) -> None:
    if not (proc / "self" / "status").exists():
        raise UserError("this system does not say what a process holds", mend="soak on Linux, which has /proc")
