"""Requests to stop: heard while the main thread is busy, and answered whether or not it ever comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from calql.runs.stops import CODES, Stopped, Stops, process_start

pytestmark = pytest.mark.slow

DEAF = """
    import ctypes, time
    from calql.runs.stops import Stops
    libc = ctypes.CDLL(None)  # its sleep: Python's signal handlers wait

    {body}
"""


def script(body: str) -> subprocess.Popen[str]:
    """A process of its own, which says 'ready' when it may be sent signals."""
    code = textwrap.dedent(DEAF).replace("{body}", textwrap.dedent(body))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_process_that_comes_to_no_checkpoint_is_ended_where_it_is(number: int, code: int, tmp_path: Path) -> None:
    """With the main thread in C for as long as it likes, and a worker that hangs."""
    body = f"""
        import multiprocessing
        from pathlib import Path
        def tell(reason):
            Path({str(tmp_path / "told")!r}).write_text(reason)
        with Stops(own_process=True, grace_s=0.5) as stops, stops.running(), stops.telling(tell):
            worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
            worker.start()
            Path({str(tmp_path / "worker")!r}).write_text(str(worker.pid))
            print("ready", flush=True)
            while True:
                libc.sleep(1)
    """
    process = script(body)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert errors.splitlines()[0].endswith("stopping at a checkpoint")
    assert "goes on from its last one" in errors
    assert "--resume" in (tmp_path / "told").read_text()
    worker = int((tmp_path / "worker").read_text())
    for _ in range(100):
        if not Path(f"/proc/{worker}/stat").exists() or " Z " in Path(f"/proc/{worker}/stat").read_text():
            break
        time.sleep(0.05)
    else:
        pytest.fail("the worker lives on")


def test_time_is_up_also_where_nothing_looks(tmp_path: Path) -> None:
    process = script("""
        with Stops(0.02, own_process=True) as stops, stops.running():
            print("ready", flush=True)
            libc.sleep(600)
    """)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == CODES["--max-minutes"] == 124
    assert "the time is nearly up" in errors


def test_what_is_being_written_is_written() -> None:
    process = script("""
        with Stops(own_process=True, grace_s=0.1) as stops, stops.running():
            with stops.shield():
                print("ready", flush=True)
                while not stops.asked():
                    time.sleep(0.01)
                time.sleep(1.0)
                print("written", flush=True)
            time.sleep(600)
    """)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert output == "written\n"


def test_one_signal_that_python_hears_late_is_not_two() -> None:
    process = script("""
        with Stops() as stops, stops.running():
            print("ready", flush=True)
            libc.usleep(1_500_000)
            time.sleep(0.2)
            print(stops.asked(), flush=True)
    """)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "True\n"), errors


def test_a_second_ctrl_c_ends_at_once() -> None:
    process = script("""
        try:
            with Stops() as stops, stops.running():
                print("ready", flush=True)
                while not stops.asked():
                    time.sleep(0.01)
                time.sleep(0.6)
                print("again", flush=True)
                time.sleep(600)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "again\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "interrupted\n"), errors


def test_before_a_run_a_signal_ends_at_once() -> None:
    with pytest.raises(Stopped, match="SIGTERM") as stopped, Stops():
        signal.raise_signal(signal.SIGTERM)
    assert stopped.value.code == 143


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Stops():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert not any(thread.name == "calql-stops" for thread in threading.enumerate())


def test_a_time_limit_counts_from_the_start_of_the_process() -> None:
    code = "import time; time.sleep(1.0); from calql.runs.stops import process_start; import json; print(json.dumps(time.monotonic() - process_start()))"  # noqa: E501
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert json.loads(told) >= 1.0
    with Stops(1.0, since=process_start() - 120.0) as stops:
        while not stops.asked():
            time.sleep(0.01)
        assert stops.cause == "--max-minutes"


@pytest.mark.parametrize(
    ("interruption", "code"),
    [("KeyboardInterrupt", 130), ("Stopped('SIGTERM', 'stopped')", 143), ("Stopped('Ctrl-C', 'stopped')", 130)],
)
def test_an_interrupted_command_ends_with_its_code(interruption: str, code: int) -> None:
    """Whatever would happen while the interpreter is taken down."""
    process = script(f"""
        import atexit, os, sys
        from calql import cli
        from calql.cli import listing
        from calql.runs.stops import Stopped
        def run(command, words):
            print("ready", flush=True)
            raise {interruption}
        listing.run, sys.argv = run, ["calql", "tasks"]
        atexit.register(os.abort)  # as a compiler that is still at work may end it
        sys.exit(cli.main())
    """)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert len(errors.splitlines()) == 1


def test_ctrl_c_during_imports_raises_nothing_in_them() -> None:
    """Libraries of C++ end the process by a crash where an exception comes up in their own start."""
    process = script("""
        import importlib, os, signal, sys
        from calql import cli
        def import_module(name):
            print("ready", flush=True)
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                os.abort()
        importlib.import_module, sys.argv = import_module, ["calql", "tasks"]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.exit(cli.main())
    """)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "calql: interrupted\n")
