"""How many cores this process may use."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


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
