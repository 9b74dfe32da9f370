"""How many cores this process may use."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROCESSORS = Path("/sys/devices/system/cpu")
DESCRIBED = Path("/proc/cpuinfo")


def available_cores() -> int:
    """Cores that this process may use: a container often sees all of its host's and is given the time of a few."""
    if sys.platform == "linux":
        return min(len(os.sched_getaffinity(0)), _quota(CGROUPS))
    return os.cpu_count() or 1


def _quota(root: Path) -> int:
    """Whole cores that the control group of this process is given the time of (versions 2 and 1); many if unlimited."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):
            given, period = (int(word) for name in names for word in (root / name).read_text().split())
            if given > 0:
                return max(given // period, 1)
    return sys.maxsize


def machine(processors: Path = PROCESSORS, described: Path = DESCRIBED) -> dict[str, str | int | None]:
    """What cores these are, which rates of processes depend on; None for what the system does not say."""
    name = None
    with contextlib.suppress(OSError, StopIteration):
        lines = described.read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {"processor": name, "cores": available_cores(), "threads_per_core": threads_per_core(processors)}


def threads_per_core(processors: Path = PROCESSORS) -> int | None:
    """How many of the processors seen share a core: with two, sixteen of them do the work of eight and a bit."""
    with contextlib.suppress(OSError, ValueError):
        lists = [path.read_text() for path in processors.glob("cpu[0-9]*/topology/thread_siblings_list")]
        return max((_how_many(words) for words in lists), default=None)
    return None


def _how_many(words: str) -> int:
    """Of a list as Linux writes them: 0,8 or 0-1."""
    spans = [[int(end) for end in span.split("-")] for span in words.strip().split(",")]
    return sum(span[-1] - span[0] + 1 for span in spans)
