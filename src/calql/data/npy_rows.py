"""Rows of one .npy file: far apart through a memory map, one after the other by plain reads.

Pages of a map count as memory of this process for as long as they are mapped, though the system may take them at any
time. So they are let go of again after every `MAPPED` bytes, and what stays is the system's own cache of the file.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calql.system.archives import AGAIN, DAMAGE
from calql.system.errors import UserError

MAPPED = 2**29  # bytes of one file that may be mapped at a time
AROUND = 2**16  # bytes that the system maps around a page that is asked for
PAGE = mmap.PAGESIZE
READERS = 4  # threads of one read: a disk answers several questions at a time
SHARE = 2**20  # bytes, below which one thread reads
RANDOM, WANTED, DONE = (getattr(mmap, f"MADV_{name}", None) for name in ("RANDOM", "WILLNEED", "DONTNEED"))


class NpyRows:
    """An array [row, ...] in C order, in a file that is not changed meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.shape, self.dtype, self._offset = _header(file)
                self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except DAMAGE as error:
            raise UserError(f"is no whole .npy file ({error})", where=str(path), mend=AGAIN) from None
        self._rows: NDArray[Any] = np.ndarray(self.shape, self.dtype, self._map, self._offset)
        self._row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        self._touched = 0
        if RANDOM is not None:
            self._map.madvise(RANDOM)

    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """By plain reads where the places follow each other, else through the map, by several threads."""
        if len(places) and places[-1] - places[0] == len(places) - 1 and (np.diff(places) == 1).all():
            return self._in_a_row(int(places[0]), len(places))
        found = np.empty((len(places), *self.shape[1:]), self.dtype)
        parts = min(READERS, 1 + found.nbytes // SHARE)
        edges = np.linspace(0, len(places), parts + 1).astype(int)
        slices = [slice(first, last) for first, last in pairwise(edges.tolist())]
        if len(slices) == 1:
            self._take(places, found)
        else:
            list(_readers().map(lambda part: self._take(places[part], found[part]), slices))
        self._let_go(len(places))
        return found

    def _in_a_row(self, first: int, count: int) -> NDArray[Any]:
        if not 0 <= first <= first + count <= self.shape[0]:
            raise IndexError(f"rows {first} to {first + count} of {self.shape[0]}")
        found = np.empty((count, *self.shape[1:]), self.dtype)
        room, done = found.reshape(-1).view(np.uint8).data, 0
        while done < len(room):
            got = os.preadv(self._file, [room[done:]], self._offset + first * self._row_bytes + done)
            if not got:
                raise UserError("became shorter while it was read", where=str(self.path), mend=AGAIN)
            done += got
        return found

    def _take(self, places: NDArray[np.int64], found: NDArray[Any]) -> None:
        if WANTED is not None and self._row_bytes >= PAGE:
            for place in places.tolist():
                first = self._offset + place * self._row_bytes
                begin = first // PAGE * PAGE
                self._map.madvise(WANTED, begin, first + self._row_bytes - begin)
        np.take(self._rows, places, axis=0, out=found, mode="clip")

    def _let_go(self, rows: int) -> None:
        self._touched += rows * (self._row_bytes + AROUND)
        if DONE is not None and self._touched > MAPPED and len(self._map) > MAPPED:
            self._map.madvise(DONE)
            self._touched = 0


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READERS, thread_name_prefix="calql-reader")


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type, and where the numbers begin; what is no plain array of the file's own size is refused."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of NumPy's format is not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(file)
    offset = file.tell()
    if fortran or dtype.kind not in "fiub" or not shape or any(side < 1 for side in shape):
        raise ValueError(f"{dtype} {shape}")
    if offset + dtype.itemsize * math.prod(shape) != os.fstat(file.fileno()).st_size:
        raise ValueError("its shape is not that of its content")
    return shape, dtype, offset
