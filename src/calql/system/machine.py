"""How much memory there is: asked before it is taken, since a process that takes too much is killed without a word."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import jax

CGROUPS = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def host_memory(cgroups: Path = CGROUPS, meminfo: Path = MEMINFO) -> int:
    """Bytes that this process may ever have: the machine's, or what its control group is given; else no limit."""
    found = [sys.maxsize]
    with contextlib.suppress(OSError, ValueError, StopIteration):
        line = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemTotal:"))
        found.append(int(line.split()[1]) * 1024)
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
            found.append(int((cgroups / name).read_text()))
    return min(found)


def device_memory() -> int:
    """Bytes of the device that learns: of a GPU, what its allocator may take; of a CPU, the host's."""
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return host_memory()
    return int((device.memory_stats() or {}).get("bytes_limit", sys.maxsize))


def in_words(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
