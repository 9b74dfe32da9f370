"""Columns of a recording put together into observations: vectors one after the other, cameras and vectors packed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import observation_column, to_float32
from calql.data.dataset import Dataset, Floats, Part
from calql.data.recording import Column
from calql.data.stored import Stored
from calql.system.errors import UserError
from calql.system.layout import WIDTH, Layout, Piece

SMALLEST = 8  # pixels along a side of a camera that is shifted by up to 4
LARGEST = 256  # pixels, beyond which encoders are slow and no better
CHANNELS = 16  # colours of a pixel: frames one behind the other have more than 4


class Observed(NamedTuple):
    """Observations [row, ...] and what they are made of."""

    values: NDArray[Any]
    parts: tuple[Part, ...] = ()
    layout: Layout | None = None
    camera: str = ""


def pack_observations(parts: Mapping[str, NDArray[Any]]) -> Observed:
    """Arrays [row, ...] by name as the observations of a `Dataset` that is made in memory.

    Its `values`, `parts`, `layout` and `camera` are the fields of the dataset; next observations are packed alike.
    """
    return put_together({name: Column.of(np.asarray(part)) for name, part in parts.items()}, "memory")


def put_together(columns: Mapping[str, Column], source: str) -> Observed:
    """One camera as it is; vectors one after the other, with where each lies; of both, rows of bytes."""
    names, first = list(columns), next(iter(columns.values()))
    if len(columns) == 1 and (first.image or len(first.shape) > 1):  # numbers of another form stay what they are
        return Observed(observation_column(first.load(), names[0], source), camera=names[0] if first.image else "")
    if any(column.image for column in columns.values()):
        return _packed(columns, source)
    values = [vector(column, name, source) for name, column in columns.items()]
    return Observed(
        np.concatenate(values, axis=1) if len(values) > 1 else values[0],
        _parts({name: value.shape[1] for name, value in zip(names, values, strict=True)}),
    )


def _packed(columns: Mapping[str, Column], source: str) -> Observed:
    """Rows of bytes, filled camera by camera: no two cameras are held beside them. Cameras on disk stay there."""
    vectors = {name: vector(column, name, source) for name, column in columns.items() if not column.image}
    cameras = [_camera(name, column.shape, source) for name, column in columns.items() if column.image]
    layout = Layout.of([*cameras, *(Piece(name, (v.shape[1],), image=False) for name, v in vectors.items())])
    large_first = sorted(layout.cameras, key=lambda piece: -piece.size)  # if any stays on disk, the first one does
    first, others = large_first[0], large_first[1:]
    taken = _pictures(columns, first, None, source)
    for name, values in vectors.items():
        if len(values) != len(taken):
            raise _lengths(name, len(values), len(taken), source)
    if isinstance(taken, Stored):
        pictures = {first.name: taken} | {p.name: _pictures(columns, p, len(taken), source) for p in others}
        rows: Any = Stored(PackedRows(layout, pictures | vectors))
    else:
        rows = np.empty((len(taken), *layout.row_shape), np.uint8)
        _paint(rows, layout, first, taken)
        del taken
        for piece in others:
            _paint(rows, layout, piece, _pictures(columns, piece, len(rows), source))
        for name, values in vectors.items():
            _paint(rows, layout, next(piece for piece in layout.vectors if piece.name == name), values)
    return Observed(rows, _parts({piece.name: piece.size for piece in layout.vectors}), layout)


def _paint(rows: NDArray[np.uint8], layout: Layout, piece: Piece, values: NDArray[Any]) -> None:
    """Put one part into the rows at its place."""
    before = layout.pieces[: layout.pieces.index(piece)]
    start, width = sum(_bytes(other) for other in before), _bytes(piece)
    rows[:, start : start + width] = np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8)


def _bytes(piece: Piece) -> int:
    return piece.size if piece.image else WIDTH * piece.size


@dataclass(frozen=True)
class PackedRows:
    """Parts that lie apart, packed as they are read."""

    layout: Layout
    columns: Mapping[str, Any]  # [row, ...] by the name of the part, in memory or on disk

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(next(iter(self.columns.values()))), *self.layout.row_shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8)

    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        return self.layout.packed_rows({name: column[places] for name, column in self.columns.items()})


def _pictures(columns: Mapping[str, Column], piece: Piece, rows: int | None, source: str) -> NDArray[Any]:
    """Of one camera; a column on disk is left there."""
    taken = columns[piece.name].load()
    if taken.dtype != np.uint8 or math.prod(taken.shape[1:]) != piece.size:
        raise UserError(
            f"'{piece.name}' holds {taken.dtype} {list(taken.shape[1:])}, not {piece.dtype} {list(piece.shape)}",
            where=source,
            mend="store pictures as uint8, all of one size",
        )
    if rows is not None and len(taken) != rows:
        raise _lengths(piece.name, len(taken), rows, source)
    return taken


def _camera(name: str, shape: Sequence[int], source: str) -> Piece:
    """A camera of one colour may lack the axis of colours."""
    shape = (*shape, 1) if len(shape) == 2 else tuple(shape)
    if len(shape) != 3 or min(shape[:2]) < SMALLEST or shape[2] > CHANNELS:
        raise UserError(
            f"'{name}' has pictures of shape {list(shape)}",
            where=source,
            mend=f"a camera gives [row, column, colour] with {SMALLEST} pixels a side or more: leave it out or resize",
        )
    return Piece(name, tuple(int(side) for side in shape), image=True)


def _lengths(name: str, found: int, rows: int, source: str) -> UserError:
    return UserError(
        f"lengths disagree: '{name}' has {found} rows and other observations {rows}",
        where=source,
        mend="write one row per step in every column",
    )


def _parts(widths: Mapping[str, int]) -> tuple[Part, ...]:
    edges = np.cumsum([0, *widths.values()])
    return tuple(Part(name, int(a), int(b)) for name, a, b in zip(widths, edges[:-1], edges[1:], strict=True))


def vector(column: Column, name: str, source: str) -> Floats:
    """[row, feature]."""
    values = column.load()
    if values.dtype.kind not in "fiub":
        kind = "text" if values.dtype.kind in "OUS" else str(values.dtype)
        raise UserError(f"'{name}' holds {kind}, not numbers", where=source, mend="choose other columns")
    if isinstance(values, Stored) and values.ndim == 2:
        return cast(Floats, to_float32(values))
    return to_float32(np.asarray(values).reshape(len(values), -1))


def large_cameras(data: Dataset) -> list[str]:
    """A line on each camera whose pictures would slow everything down."""
    return [
        f"camera '{camera.name}' has {camera.shape[0]} x {camera.shape[1]} pixels: updates will be slow and take much "
        f"memory; write pictures of at most {LARGEST} a side (64 to 128 are usual) for training"
        for camera in (() if data.form is None else data.form.cameras)
        if max(camera.shape[:2]) > LARGEST
    ]
