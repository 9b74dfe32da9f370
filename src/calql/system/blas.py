"""The threads of OpenBLAS, to which JAX hands decompositions on a CPU.

They wait for each other by spinning: on a machine that does other things too, or in a container that is given the time
of a few of the cores it sees, a decomposition of milliseconds takes seconds. And its last digits follow from their
number.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MAPS = Path("/proc/self/maps")
LIBRARY = re.compile(r"/\S*openblas\S*\.so\S*")
SETTERS = ("{}_set_num_threads", "{}_set_num_threads64_")  # with 32-bit and with 64-bit integers
GETTERS = ("{}_get_num_threads", "{}_get_num_threads64_")
NAMES = ("scipy_openblas", "openblas")  # as SciPy and NumPy build it, and as others do


@contextmanager
def one_thread() -> Iterator[None]:
    """Let every OpenBLAS of this process work with one thread; afterwards as before. Where none is found, nothing."""
    importlib.import_module("scipy.linalg.cython_lapack")  # or JAX would bring it into memory after this
    found = [(library, _asked(library, GETTERS)) for library in _loaded()]
    try:
        for library, threads in found:
            if threads is not None:
                _asked(library, SETTERS, 1)
        yield
    finally:
        for library, threads in found:
            if threads is not None:
                _asked(library, SETTERS, threads)


def _loaded() -> list[Any]:
    """Those that this process has in memory; known on Linux alone."""
    if sys.platform != "linux":
        return []
    with suppress(OSError):
        return [ctypes.CDLL(path) for path in sorted(set(LIBRARY.findall(MAPS.read_text())))]
    return []


def _asked(library: Any, functions: tuple[str, ...], *given: int) -> int | None:
    """What the first of its functions that there is answers."""
    for function in functions:
        for name in NAMES:
            with suppress(AttributeError):
                return int(getattr(library, function.format(name))(*given))
    return None
