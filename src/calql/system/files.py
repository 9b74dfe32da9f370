"""Files that are there whole or not at all, whatever is killed or unplugged meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


@contextlib.contextmanager
def written_whole(path: Path, aside: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to. It takes its name in one step, once it is on the disk; an error leaves nothing of it.

    A kill leaves it under another name: one of its own, or `aside`, which the next try writes over.
    """
    aside = aside or path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        aside.unlink(missing_ok=True)
        with aside.open("xb") as file:  # new: never through a link that somebody left under that name
            yield file
            file.flush()
            _to_disk(file.fileno())
        os.replace(aside, path)
        _name_to_disk(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)  # it may be what fills the disk
        raise


def _name_to_disk(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        _to_disk(opened)
    finally:
        os.close(opened)


def _to_disk(file: int) -> None:
    """Wait until it is there; a file system that cannot tell is believed."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
