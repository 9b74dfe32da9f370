"""Where large columns of files are while they are converted: in their file, or unpacked on disk, never in memory."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calql.data.npy_rows import NpyRows
from calql.data.reading import Reading
from calql.data.stored import Source, Stored
from calql.system.archives import AGAIN
from calql.system.errors import UserError

LARGE = 2**27  # bytes, from which on a column is not read as a whole where a reader may leave it


def stays(size: int, reading: Reading, *, numbers: bool = False) -> bool:
    """Whether a column of so many bytes is left on disk; one of single numbers never is."""
    return reading.scratch is not None and size > LARGE and not numbers


@dataclass(frozen=True)
class Sliced:
    """Rows of several arrays one after the other, each of which gives slices of itself, as in HDF5 and Zarr."""

    nodes: Sequence[Any]
    lengths: Sequence[int]  # rows of each that count
    where: str  # for messages

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return (int(sum(self.lengths)), *self.nodes[0].shape[1:])

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.nodes[0].dtype)

    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        found = np.empty((len(places), *self.shape[1:]), self.dtype)
        ends = np.cumsum(self.lengths)
        of_node = np.searchsorted(ends, places, side="right")
        try:
            for number in np.unique(of_node).tolist():
                mine = of_node == number
                found[mine] = _rows(self.nodes[number], places[mine] - ends[number] + self.lengths[number])
        except Exception as error:  # whatever a library and its codecs make of damage
            told = f"cannot be read ({type(error).__name__}: {str(error).partition(chr(10))[0][:200]})"
            raise UserError(told, where=self.where, mend=AGAIN) from None
        return found


def _rows(node: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Read as one slice where they lie near each other."""
    first, last = int(rows.min()), int(rows.max())
    if last - first < 2 * len(rows):
        return np.asarray(np.asarray(node[first : last + 1])[rows - first])
    return np.stack([np.asarray(node[row]) for row in rows.tolist()])


@dataclass(frozen=True)
class Converted:
    """Numbers of another type, made 32-bit as they are read."""

    source: Source

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        with np.errstate(over="ignore"):  # what is too large becomes inf, and is reported as such
            return self.source.read(places).astype(np.float32)


def as_float32(column: Stored) -> Stored:
    return column if column.dtype == np.float32 else Stored(Converted(column.source), column.places)


def unpacked(content: IO[bytes], reading: Reading) -> Stored:
    """A .npy file within another, copied to the scratch folder."""
    with _scratch(reading) as path:
        with path.open("xb") as file:
            shutil.copyfileobj(content, file, 2**24)
        return Stored(NpyRows(path))


class Canvas:
    """Pictures on disk that are painted in any order, and then a column; what was painted does not stay in memory."""

    def __init__(self, shape: tuple[int, ...], reading: Reading) -> None:
        with _scratch(reading) as path:
            self.rows = npy.open_memmap(path, "w+", np.uint8, shape)
            self._read = NpyRows(path)

    def let_go(self) -> None:
        """Of the memory of what was painted up to here."""
        self.rows.flush()
        kept = self.rows._mmap  # type: ignore[attr-defined]
        if hasattr(mmap, "MADV_DONTNEED"):
            kept.madvise(mmap.MADV_DONTNEED)

    def column(self) -> Stored:
        self.let_go()
        return Stored(self._read)


@contextmanager
def _scratch(reading: Reading) -> Iterator[Path]:
    """The name of a new file, which is gone as soon as nobody has it open any more."""
    folder = Path(reading.scratch or ".")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".unpacked.{uuid4().hex}"
    try:
        yield path
    except OSError as error:
        mend = "free some space, or choose another folder"
        raise UserError(f"cannot be written ({error.strerror})", where=str(folder), mend=mend) from None
    finally:
        if path.exists():
            os.unlink(path)
