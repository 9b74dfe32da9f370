"""The folder of a run: made by one process, worked in by one at a time, never removed with anything of worth in it."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from calql.engine.checkpoint import as_disk_error, whole
from calql.results.metrics import write_atomically
from calql.system.errors import UserError
from calql.system.run_files import CHECKPOINTS, CONFIG, DATA, FILMS, LOCK, METRICS, PARTIAL, STATUS

SET_UP = (CONFIG, STATUS, LOCK, DATA)  # all that is there before a run begins, besides an empty folder of checkpoints
ASIDE = re.compile(r"\..+\.[0-9a-f]{32}")  # a file that was being written when its process was killed


def default_folder(task: str, method: str) -> Path:
    name = re.sub(r"[^\w.+-]+", "-", f"{task}-{method}")
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def refuse_existing(out: str | Path | None) -> None:
    """Said early, before anything is computed; `make_folder` decides."""
    if out is not None and os.path.lexists(out):
        raise _exists(Path(out))


def make_folder(out: str | Path | None, default: Path) -> Path:
    """Make the folder that was asked for, or the default one with a number where others have its name.

    Making it is what claims it: of several processes that want one name, one makes it and the others are told.
    """
    if out is not None:
        return _made(Path(out))
    for folder in _numbered(default):
        try:
            return _made(folder)
        except _Exists:
            continue
    raise AssertionError  # the numbers do not end


def _numbered(folder: Path) -> Iterator[Path]:
    yield folder
    number = 2
    while True:
        yield folder.with_name(f"{folder.name}-{number}")
        number += 1


class _Exists(UserError):
    """Somebody has made it."""


def _exists(folder: Path) -> _Exists:
    if not any((folder / name).exists() for name in (CONFIG, METRICS)) and folder.is_dir():
        mend = "choose another --out, or remove it if nothing in it is needed"
    else:
        mend = f"choose another --out, or go on with --resume {folder}"
    return _Exists("exists already", where=str(folder), mend=mend)


def _made(folder: Path) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except FileExistsError:
        if os.path.lexists(folder):
            raise _exists(folder) from None
        raise UserError(
            "cannot be made: a part of its path is a file", where=str(folder), mend="choose another --out"
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise as_disk_error(error, folder) from error
        raise UserError(f"cannot be made: {error.strerror}", where=str(folder), mend="choose another --out") from error
    return folder


def discard(folder: Path) -> None:
    """Remove a folder whose run has not begun; one that holds anything else stays."""
    with suppress(OSError):
        if set(_names(folder)) <= {*SET_UP, CHECKPOINTS} and not _names(folder / CHECKPOINTS):
            for name in SET_UP:
                (folder / name).unlink(missing_ok=True)
            clean(folder)
            if (folder / CHECKPOINTS).is_dir():
                (folder / CHECKPOINTS).rmdir()
            folder.rmdir()


def _names(folder: Path) -> list[str]:
    """What is in a folder, apart from what a kill left of files."""
    return [path.name for path in folder.iterdir() if not ASIDE.fullmatch(path.name)] if folder.is_dir() else []


def clean(folder: Path) -> None:
    """Remove what a kill left of files that were being written; nobody else may be at work."""
    for path in (*folder.iterdir(), *(folder / FILMS).glob(".*")):
        if ASIDE.fullmatch(path.name) and not path.is_dir():
            path.unlink(missing_ok=True)
    for path in (folder / CHECKPOINTS).glob(f"*{PARTIAL}"):
        path.unlink(missing_ok=True)


def require_begun(folder: Path) -> None:
    """Refuse a folder that no run was begun in, and say what to do."""
    if (folder / CONFIG).is_file():
        return
    if folder.is_dir() and set(_names(folder)) <= {*SET_UP, CHECKPOINTS}:
        raise UserError(
            "its run was ended before it had begun, nothing is lost",
            where=str(folder),
            mend="remove the folder and give the command that began it again",
        )
    raise UserError(
        f"is not a run folder (no {CONFIG})", where=str(folder), mend="name a folder that 'calql train' made"
    )


def has_checkpoint(folder: Path) -> bool:
    return bool(whole(folder / CHECKPOINTS))


def finished(folder: Path) -> bool:
    """Whether the run came to its end."""
    return bool(read_status(folder).get("finished", False))


def read_status(folder: Path) -> dict[str, Any]:
    """What status.json says; nothing where it is missing or damaged."""
    with suppress(OSError, ValueError):
        found = json.loads((folder / STATUS).read_text())
        return found if isinstance(found, dict) else {}
    return {}


def write_status(folder: Path, *, finished: bool, reason: str, **more: Any) -> None:
    write_json(folder / STATUS, {"finished": finished, "reason": reason, **more}, indent=None)


def write_json(path: Path, content: dict[str, Any], indent: int | None = 2) -> None:
    try:
        write_atomically(path, json.dumps(content, indent=indent, default=str) + "\n")
    except OSError as error:
        raise as_disk_error(error, path.parent) from error
