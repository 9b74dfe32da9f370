"""The command line: `calql COMMAND`. Bad input ends with exit code 2 and one line, divergence with 3, Ctrl-C 130."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import NoReturn

from calql.system.errors import DIVERGED, Diverged, UserError, of_system, shown, unknown

COMMANDS = {
    "train": ("train", "pre-train on logged data, then fine-tune online"),
    "round": ("rounds", "collect, train and deploy in rounds, with new episodes from files"),
    "evaluate": ("evaluate", "play episodes with the policy of a run"),
    "report": ("report", "write a report of one run, or of several compared"),
    "watch": ("watch", "show runs that go on in the browser"),
    "tasks": ("listing", "list the tasks"),
    "methods": ("listing", "list the methods"),
    "compare": ("compare", "train every method on the point maze and write one report"),
    "reproduce": ("reproduce", "run the experiment behind a figure of the paper"),
    "data": ("data", "inspect, view, build, download or certify datasets"),
    "render": ("render", "film an episode of a task or of a run"),
    "export": ("export", "write the policy of a run for ONNX Runtime, JAX or plain NumPy"),
    "bench": ("bench", "measure updates/s and environment steps/s, as JSON"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if words[0] in ("-V", "--version"):
        from calql import __version__

        print(f"calql {__version__}")
        return 0
    try:
        if words[0] not in COMMANDS:
            raise unknown("command", words[0], COMMANDS)
        with nullcontext() if arguments is not None else _ctrl_c_ends_here(), _loading(words[0]):
            module = importlib.import_module(f"calql.cli.{COMMANDS[words[0]][0]}")
        return int(module.run(words[0], words[1:]))
    except UserError as error:
        print(f"calql: {shown(str(error))}", file=sys.stderr)
        return DIVERGED if isinstance(error, Diverged) else 2
    except BrokenPipeError:  # whoever read what is printed has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"calql: {shown(str(of_system(error)))}", file=sys.stderr)
        return 2
    except MemoryError:
        print("calql: not enough memory; use less data, fewer seeds or smaller batches", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        print(f"calql: {shown(str(interruption)) or 'interrupted'}", file=sys.stderr)
        code = int(getattr(interruption, "code", 130))
        if arguments is None:
            _end_here(code)
        return code


@contextmanager
def _ctrl_c_ends_here() -> Iterator[None]:
    """While libraries are imported: an exception that comes up within one of C++ would be a crash."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _loading(command: str) -> Iterator[None]:
    """A word on the terminal while libraries are imported, which takes seconds; gone when they are there."""
    if not sys.stderr.isatty():
        yield
        return
    print(f"calql {command}: loading the libraries ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _interrupted(*_: object) -> NoReturn:
    os.write(2, b"calql: interrupted\n")
    os._exit(130)


def _end_here(code: int) -> NoReturn:
    """Let the process go as it is, with the code that was promised.

    The compiler may still be at work in other threads, and crashes now and then when the interpreter is taken down
    around it; and `python -m` ends by the signal, not by a code, where Ctrl-C came during an `exec`, as in imports.
    """
    from multiprocessing import active_children

    for process in active_children():
        process.kill()
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


def _usage() -> str:
    lines = [f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(["usage: calql COMMAND [options]", "", *lines, "", "calql COMMAND --help says more."])
