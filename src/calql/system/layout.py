"""How the named parts of an observation lie in one row: cameras and vectors, one after the other.

Data, networks and the boundary to an environment all have to agree on it, so it lives below all of them. Vectors alone
make a row of float32. As soon as a camera is among several parts a row is bytes: first those of the cameras, then those
of the float32 numbers of the vectors. Whatever carries rows then carries one array, and never asks what is in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SEPARATORS = "/."  # between the name of a part and that of the group which it is in
WIDTH = 4  # bytes of a number


class Piece(NamedTuple):
    """One named part of an observation."""

    name: str
    shape: tuple[int, ...]  # a camera's is [row, column, channel]
    image: bool

    @property
    def size(self) -> int:
        """Colours of a camera, numbers of a vector."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> str:
        return "uint8" if self.image else "float32"

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Layout:
    """The parts in the order in which networks see them: cameras before vectors, each as they were named."""

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Layout:
        return cls((*(p for p in pieces if p.image), *(p for p in pieces if not p.image)))

    @property
    def cameras(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if piece.image)

    @property
    def vectors(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if not piece.image)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(piece.name for piece in self.pieces)

    @property
    def packed(self) -> bool:
        """Whether a row is bytes: a camera and something else."""
        return bool(self.cameras) and len(self.pieces) > 1

    @cached_property
    def pictures(self) -> int:
        """Bytes of all cameras, which come first."""
        return sum(piece.size for piece in self.cameras)

    @cached_property
    def numbers(self) -> int:
        """Numbers of all vectors."""
        return sum(piece.size for piece in self.vectors)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of one row."""
        if self.packed:
            return (self.pictures + WIDTH * self.numbers,)
        return self.pieces[0].shape if self.cameras else (self.numbers,)

    @property
    def row_dtype(self) -> str:
        return "uint8" if self.cameras else "float32"

    def __str__(self) -> str:
        return ", ".join(map(str, self.pieces))

    # -- rows --------------------------------------------------------------------------------------------------

    def packed_rows(self, parts: Mapping[str, Any]) -> NDArray[Any]:
        """Rows [..., byte] (or [..., number] of vectors alone) from parts [..., *shape] with the same leading axes.

        KeyError where a part is missing, ValueError where one has another shape or kind.
        """
        columns = [self._column(piece, np.asarray(parts[piece.name])) for piece in self.pieces]
        if not self.packed:
            return columns[0].reshape(*columns[0].shape[:-1], *self.row_shape) if self.cameras else _joined(columns)
        return _joined([column if column.dtype == np.uint8 else _as_bytes(column) for column in columns])

    def apart(self, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The parts [..., *shape] of rows, by name."""
        if self.cameras and not self.packed:
            return {self.pieces[0].name: rows}
        found, start, numbers = {}, 0, self.vectors_of(rows)
        for piece in self.cameras:
            found[piece.name] = rows[..., start : start + piece.size].reshape(*rows.shape[:-1], *piece.shape)
            start += piece.size
        start = 0
        for piece in self.vectors:
            found[piece.name] = numbers[..., start : start + piece.size].reshape(*rows.shape[:-1], *piece.shape)
            start += piece.size
        return found

    def vectors_of(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """The numbers [..., number] of all vectors, in their order."""
        if not self.packed:
            return rows if not self.cameras else np.zeros((*rows.shape[: -len(self.row_shape)], 0), np.float32)
        found: NDArray[np.float32] = np.ascontiguousarray(rows[..., self.pictures :]).view(np.float32)
        return found

    def place_of(self, number: int) -> str:
        """Which number of which vector that is, in words."""
        for piece in self.vectors:
            if number < piece.size:
                return f"number {number} of '{piece.name}'"
            number -= piece.size
        raise IndexError(number)

    def _column(self, piece: Piece, values: NDArray[Any]) -> NDArray[Any]:
        """[..., count] of one part, of the type that its row has."""
        shape = piece.shape if values.shape[values.ndim - len(piece.shape) :] == piece.shape else _other(piece, values)
        leading = values.shape[: values.ndim - len(shape)]
        if piece.image and values.dtype != np.uint8:
            raise ValueError(f"'{piece.name}' is {values.dtype}, and a camera gives uint8")
        flat = values.reshape(*leading, piece.size)
        return flat if piece.image else flat.astype(np.float32)

    # -- words -------------------------------------------------------------------------------------------------

    def in_words(self) -> list[dict[str, Any]]:
        return [{"name": p.name, "shape": list(p.shape), "dtype": p.dtype} for p in self.pieces]

    @classmethod
    def from_words(cls, found: Sequence[Mapping[str, Any]]) -> Layout:
        """The same again; what makes no sense is a KeyError, TypeError or ValueError."""
        pieces = [Piece(str(p["name"]), tuple(int(n) for n in p["shape"]), p["dtype"] == "uint8") for p in found]
        strange = [p for p in pieces if min(p.shape, default=0) < 1 or (p.image and len(p.shape) != 3)]
        if not pieces or strange or len({p.name for p in pieces}) < len(pieces):
            raise ValueError(f"parts {found}")
        return cls.of(pieces)


def _other(piece: Piece, values: NDArray[Any]) -> tuple[int, ...]:
    """Another form of the same part: a camera of one colour without its last axis, a single number without any."""
    flat = piece.shape[:-1]
    if piece.shape[-1] == 1 and values.shape[values.ndim - len(flat) :] == flat:
        return flat
    raise ValueError(f"'{piece.name}' has shape {values.shape}, not {piece.shape}")


def _joined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.ascontiguousarray(columns[0]) if len(columns) == 1 else np.concatenate(columns, axis=-1)


def _as_bytes(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers, np.float32).view(np.uint8)


def matching(name: str, among: Sequence[str]) -> str | None:
    """The one of those names that means the same part: itself, or the only one that ends in the same word."""
    if name in among:
        return name
    last = _last_word(name)
    alike = [other for other in among if _last_word(other) == last]
    return alike[0] if len(alike) == 1 else None


def _last_word(name: str) -> str:
    for separator in SEPARATORS:
        name = name.rpartition(separator)[2]
    return name
