"""Columns that stay on disk: a row is read when somebody asks for it.

A `Stored` column stands in a `Dataset` where an array would: it has a shape, a type and a length, and any index gives
an array. Nothing else is done with it as a whole; who needs every row walks it by chunks (`calql.system.walk`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from calql.system.errors import UserError
from calql.system.machine import host_memory, in_words

Column = TypeVar("Column")


class Source(Protocol):
    """Rows in a file."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """The rows at these places [place, ...], in their order; a new array."""
        ...


class Stored:
    """Some rows of a source, in any order."""

    def __init__(
        self, source: Source, places: NDArray[np.int64] | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        self.source, self.facts = source, facts or {}  # what whoever wrote it knows of all rows together
        self.places = np.arange(source.shape[0]) if places is None else places
        self.shape, self.dtype = (len(self.places), *source.shape[1:]), source.dtype
        self.ndim, self.size = len(self.shape), int(np.prod(self.shape, dtype=np.int64))
        self.nbytes = self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """An array, by any index that an array takes."""
        first, rest = (rows[0], rows[1:]) if isinstance(rows, tuple) else (rows, ())
        places = np.asarray(self.places[first])
        found = self.source.read(places.reshape(-1)).reshape(*places.shape, *self.shape[1:])
        return np.asarray(found[(*(slice(None) for _ in places.shape), *rest)]) if rest else found

    def select(self, rows: Any) -> Stored:
        """Some of the rows, unread."""
        return Stored(self.source, self.places[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of it in memory, where that is possible at all."""
        if self.nbytes > host_memory():
            raise UserError(
                f"a column of {in_words(self.nbytes)} does not fit into the memory of this machine",
                mend="train with --stream on, which leaves it on disk",
            )
        return np.asarray(self[:], dtype)

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a stored column is compared by chunks")

    def __ne__(self, other: object) -> NoReturn:
        raise TypeError("a stored column is compared by chunks")

    __hash__ = object.__hash__


def picked(column: Column, rows: Any) -> Column:
    """Some rows of a column: of a stored one unread."""
    return column.select(rows) if isinstance(column, Stored) else column[rows]  # type: ignore[return-value,index]
