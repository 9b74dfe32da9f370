"""One owner of a run folder at a time: a lock of the system that dies with its process, and a note of whose it is.

The lock decides on one machine and on network file systems that share locks between machines. Where they do not, the
note does: its owner touches it every few seconds, and one of another machine that was touched lately is believed.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from calql.system.errors import UserError
from calql.system.locks import taken
from calql.system.run_files import LOCK

TOUCH_S = 15.0
BELIEVED_S = 4 * TOUCH_S  # a note of another machine that is older is left over


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Be the only one at work in a run folder; UserError where somebody else is."""
    path = folder / LOCK
    file = _taken(path)
    over = threading.Event()
    threading.Thread(target=_touch, args=(file, over), daemon=True, name="calql-lock").start()
    try:
        yield
    finally:
        over.set()
        with suppress(OSError):
            path.unlink(missing_ok=True)  # still held: whoever opened it meanwhile finds that it is gone
        os.close(file)


def _taken(path: Path) -> int:
    """The lock file, locked and noted as ours."""
    while True:
        file = _opened(path)
        try:
            locks = taken(file)
            if locks is False or _held_elsewhere(file, locks):
                raise _busy(path.parent, _note(file))
            if _is(path, file):
                _write_note(file)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        raise UserError(
            f"cannot be written to ({error.strerror})",
            where=str(path.parent),
            mend="a run that goes on needs a folder that it may write to",
        ) from error


def _held_elsewhere(file: int, locks: bool | None) -> bool:
    """Whether the note says so: of another machine, touched lately; or of a living process, where nothing locks."""
    note = _note(file)
    if not note:
        return False
    if note.get("host") == socket.gethostname():
        return locks is None and _alive(note.get("pid"))
    return time.time() - os.fstat(file).st_mtime < BELIEVED_S


def _alive(pid: Any) -> bool:
    try:
        os.kill(int(pid), 0)
    except (OSError, TypeError, ValueError):
        return False
    return True


def _is(path: Path, file: int) -> bool:
    """Whether the path still names the opened file: its last owner may have removed it meanwhile."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def _note(file: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(file, 4096, 0))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_note(file: int) -> None:
    note = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(note).encode(), 0)


def _touch(file: int, over: threading.Event) -> None:
    while not over.wait(TOUCH_S):
        with suppress(OSError):
            os.utime(file)


def _busy(folder: Path, note: dict[str, Any]) -> UserError:
    who = f"process {note.get('pid')} on {note.get('host')} since {note.get('since')}" if note else "another process"
    return UserError(
        f"{who} is at work on this run",
        where=str(folder),
        mend=f"wait for it or stop it; after a crash of another machine, try again in {BELIEVED_S:.0f} s",
    )
