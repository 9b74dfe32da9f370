"""Compiled programs kept between processes: a second run of the same kind starts without its compile time."""

from __future__ import annotations

import os
import platform
import zlib
from pathlib import Path

import jax
import platformdirs

VARIABLE = "CALQL_COMPILED"  # a folder, or "off"
WORTH_KEEPING_S = 0.1  # programs that compile faster are not kept; a run has a dozen between this and a second


def keep_compiled() -> Path | None:
    """Let JAX keep what it compiles; the folder, or None where that is switched off.

    A folder that was chosen through JAX itself stays. Programs for a CPU fit the instructions of the
    processor that they were compiled on, so each kind of processor has a folder of its own.
    """
    before = jax.config.values["jax_compilation_cache_dir"]
    if before is not None:
        return Path(before)
    chosen = os.environ.get(VARIABLE, "")
    if chosen == "off":
        return None
    root = Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("calql")) / "compiled"
    folder = root / f"{zlib.crc32(_processor().encode()):08x}"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING_S)
    return folder


def _processor() -> str:
    """What tells apart processors with other instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
