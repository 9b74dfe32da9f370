"""NumPy archives (.npz) from anywhere: what they would take is known before it is taken, and every array is checked.

NumPy itself makes room for whatever shape a header names, and stops reading where that shape ends, which may be before
the archive's checksum is compared. Here an array is as large as the archive says it is, and read to its checksum.
"""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calql.system.errors import UserError
from calql.system.machine import host_memory, in_words

LARGE = 2**30  # bytes, below which any compression is believed
PACKED = 100  # times that a file may unpack to more than its size
BLOCK = 2**24
SUFFIX = ".npy"
AGAIN = "copy or download it again"
DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, TypeError, SyntaxError, RuntimeError,
    NotImplementedError, OverflowError, struct.error, tokenize.TokenError,
)  # fmt: skip

Arrays = dict[str, NDArray[Any]]
Elsewhere = Callable[[int, IO[bytes]], NDArray[Any] | None]  # of a .npy file: its size and its content
Choose = Callable[[list[str]], list[str]]  # which of the names to read; it may refuse them


class _Damaged(Exception):
    """In one array."""


def read_archive(path: Path, choose: Choose = list, *, mend: str = AGAIN, elsewhere: Elsewhere | None = None) -> Arrays:
    """The chosen arrays (all by default), or an error that says what is wrong with the file.

    `elsewhere` is asked of each first, and may put what it holds in another place than memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
            names = choose(list(members))
            found = {} if elsewhere is None else _put_elsewhere(archive, members, names, elsewhere)
            rest = [name for name in names if name not in found]
            require_room(sum(members[name].file_size for name in rest), path)
            return found | {name: _array(archive, members[name], name, path, mend) for name in rest}
    except UserError:
        raise
    except FileNotFoundError:
        raise
    except zipfile.BadZipFile as error:
        raise UserError(f"is not a whole .npz archive ({error})", where=str(path), mend=mend) from error
    except DAMAGE as error:
        raise UserError(f"cannot be read ({error})", where=str(path), mend=mend) from error


def require_room(unpacked: int, path: Path, packed: int | None = None) -> None:
    """Refuse a file that unpacks to more than there is memory, or to far more than any data would.

    `packed` is the size of what is unpacked, where that is not one file.
    """
    packed, there = path.stat().st_size if packed is None else packed, host_memory()
    if unpacked > there:
        raise UserError(
            f"holds {in_words(unpacked)} of arrays, and this machine has {in_words(there)} of memory",
            where=str(path),
            mend="calql data convert FILE NAME.columns needs little memory for most formats; else keep fewer episodes",
        )
    if unpacked > max(LARGE, PACKED * packed):
        raise UserError(
            f"unpacks from {in_words(packed)} to {in_words(unpacked)}, as files do that are meant to fill memory",
            where=str(path),
            mend="if it is yours, write it without compression",
        )


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(SUFFIX)
        if name in found:
            raise zipfile.BadZipFile(f"two arrays are called {name!r}")
        if member.filename.endswith(SUFFIX):
            found[name] = member
    return found


def _put_elsewhere(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], names: list[str], elsewhere: Elsewhere
) -> Arrays:
    found = {}
    for name in names:
        with archive.open(members[name]) as content:
            put = elsewhere(members[name].file_size, content)
        if put is not None:
            found[name] = put
    return found


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, path: Path, mend: str) -> NDArray[Any]:
    try:
        with archive.open(member) as file:
            shape, fortran, kind = _header(file)
            if kind.hasobject:
                raise UserError(
                    f"'{name}' holds pickled Python objects, which are never loaded",
                    where=str(path),
                    mend="save it as a plain numeric array",
                )
            if math.prod(shape) * kind.itemsize != member.file_size - file.tell():
                raise _Damaged("its shape is not that of its content")
            found = _content(file, math.prod(shape), kind)
    except EOFError as error:
        raise UserError(f"'{name}' is cut short", where=str(path), mend=mend) from error
    except (_Damaged, *DAMAGE) as error:
        raise UserError(f"'{name}' is damaged ({error})", where=str(path), mend=mend) from error
    return found.reshape(shape[::-1]).transpose() if fortran else found.reshape(shape)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise _Damaged(f"version {version} of NumPy's format is not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, kind = read(file)
    if any(length < 0 for length in shape):
        raise _Damaged(f"shape {shape}")
    return shape, fortran, kind


def _content(file: IO[bytes], count: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """So many numbers, and then the end of the member, where its checksum is compared."""
    found = np.empty(count, kind)
    room = found.view(np.uint8).reshape(-1) if found.nbytes else np.empty(0, np.uint8)
    done = 0
    while done < len(room):
        block = file.read(min(BLOCK, len(room) - done))
        if not block:
            raise EOFError
        room[done : done + len(block)] = np.frombuffer(block, np.uint8)
        done += len(block)
    if file.read(1):
        raise _Damaged("more follows than its shape says")
    return found
