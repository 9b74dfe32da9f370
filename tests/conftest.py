"""Settings for all tests: on the CPU, quick to compile, and nothing written outside temporary folders.

They are environment variables, so that processes which tests start have them too.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

LARGE = 1_350_000_000  # bytes of one process after a module of tests
TOO_LARGE = 1_500_000_000  # and after any test: a worker is to stay below 2 GB
STEP = 300_000_000  # by which it has grown since it last forgot in this module
TOGETHER = 100  # programs that are lowered in one context, which keeps all constants that it has seen
MANY = 20_000  # mappings of memory of one process: Linux allows 65,530, and a compiled program takes a dozen
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SCRATCH = Path(tempfile.gettempdir()) / f"calql-tests-{os.getuid()}"

os.environ["JAX_PLATFORMS"] = "cpu"
# Tests compile many tiny programs and run them briefly: no time for the compiler's finer optimisations, fusions are
# written by the plain emitter (half the time of all compiling) where there is a choice, and what one process has
# compiled the others read.
PLAIN = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
if metadata.version("jaxlib") < "0.11":  # which ends the process at a flag that is gone
    PLAIN.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(PLAIN))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(SCRATCH / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("CALQL_DATA", str(SCRATCH / "data"))
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # whose threads keep a core busy while they wait
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # of the operations of a program, which nobody reads
if sys.dont_write_bytecode:  # then every fresh process would compile every module again
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""
    os.environ["PYTHONPYCACHEPREFIX"] = str(SCRATCH / "bytecode")
gc.set_threshold(
    50_000, 25, 25
)  # tracing makes many objects that live on: looking through them took a tenth of the time
_left = 0
settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with long tests go first, so that no worker begins one when the other has nothing left to do.

    `make test` keeps a module in one worker (`--dist loadfile`): its fixtures and compiled programs serve all of it.
    """
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)
    gc.collect()
    gc.freeze()  # what is there by now stays


@pytest.fixture(scope="session", autouse=True)
def _programs_share_a_context() -> Iterator[None]:
    """jax makes one of MLIR's for each program, which takes longer than to lower a small one."""
    from jax._src.interpreters import mlir

    make, own = mlir.make_ir_context, threading.local()

    def shared() -> Any:
        own.programs = getattr(own, "programs", 0) + 1
        if own.programs % TOGETHER == 1:
            own.context = make()
        return own.context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "make_ir_context", shared)
        yield


@pytest.fixture(scope="module", autouse=True)
def _programs_do_not_pile_up() -> Iterator[None]:
    """A process that compiles for all test modules grows to gigabytes, and may run out of mappings and crash."""
    global _left
    _left = 0
    yield
    if _resident_bytes() > LARGE or _mappings() > MANY:
        _forget_programs()


@pytest.fixture(autouse=True)
def _nor_within_a_module() -> Iterator[None]:
    """What is held by the tests themselves stays: then forgetting after each of them would only compile again."""
    global _left
    yield
    if _resident_bytes() > max(TOO_LARGE, _left + STEP):
        _forget_programs()
        _left = _resident_bytes()


def _forget_programs() -> None:
    import jax

    jax.clear_caches()
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _mappings() -> int:
    maps = Path("/proc/self/maps")
    return len(maps.read_bytes().splitlines()) if maps.exists() else 0


def _resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, where the machine has one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: dev)")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser found: {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=list(QUIET))
        yield opened
        opened.close()
