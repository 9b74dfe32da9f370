"""Settings for all tests: on the CPU, quick to compile, and nothing written outside temporary folders.

They are environment variables, so that processes which tests start have them too.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MANY = 20_000  # mappings of memory of one process: Linux allows 65,530, and a compiled program takes a dozen
SCRATCH = Path(tempfile.gettempdir()) / f"calql-tests-{os.getuid()}"

os.environ["JAX_PLATFORMS"] = "cpu"
# Tests compile many tiny programs and run them briefly: no time for the compiler's finer optimisations,
# and what one process has compiled the others read.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(SCRATCH / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("CALQL_DATA", str(SCRATCH / "data"))
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(scope="module", autouse=True)
def _programs_do_not_pile_up() -> Iterator[None]:
    """A process that compiles for all test modules may run out of mappings, and crash where nobody looks for it."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > MANY:
        import jax

        jax.clear_caches()
        gc.collect()
