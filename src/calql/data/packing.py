"""Columns of a recording put together into observations: vectors one after the other, cameras and vectors packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import observation_column, to_float32
from calql.data.dataset import Dataset, Floats, Part
from calql.data.recording import Column
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
    """Rows of bytes, filled camera by camera: no two cameras are held beside them."""
    vectors = {name: vector(column, name, source) for name, column in columns.items() if not column.image}
    cameras = [_camera(name, column.shape, source) for name, column in columns.items() if column.image]
    layout = Layout.of([*cameras, *(Piece(name, (v.shape[1],), image=False) for name, v in vectors.items())])
    rows, start = None, 0
    for piece in layout.cameras:
        taken = columns[piece.name].load()
        rows = np.empty((len(taken), *layout.row_shape), np.uint8) if rows is None else rows
        _require_camera(taken, piece, len(rows), source)
        rows[:, start : start + piece.size] = taken.reshape(len(taken), -1)
        start += piece.size
    assert rows is not None
    for piece in layout.vectors:
        taken = vectors[piece.name]
        if len(taken) != len(rows):
            raise _lengths(piece.name, len(taken), len(rows), source)
        stop = start + WIDTH * piece.size
        rows[:, start:stop] = np.ascontiguousarray(taken).view(np.uint8)
        start = stop
    return Observed(rows, _parts({piece.name: piece.size for piece in layout.vectors}), layout)


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


def _require_camera(taken: NDArray[Any], piece: Piece, rows: int, source: str) -> None:
    if taken.dtype != np.uint8 or taken[0:1].size != piece.size:
        raise UserError(
            f"'{piece.name}' holds {taken.dtype} {list(taken.shape[1:])}, not {piece.dtype} {list(piece.shape)}",
            where=source,
            mend="store pictures as uint8, all of one size",
        )
    if len(taken) != rows:
        raise _lengths(piece.name, len(taken), rows, source)


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
    return to_float32(values.reshape(len(values), -1))


def large_cameras(data: Dataset) -> list[str]:
    """A line on each camera whose pictures would slow everything down."""
    return [
        f"camera '{camera.name}' has {camera.shape[0]} x {camera.shape[1]} pixels: updates will be slow and take much "
        f"memory; write pictures of at most {LARGEST} a side (64 to 128 are usual) for training"
        for camera in (() if data.form is None else data.form.cameras)
        if max(camera.shape[:2]) > LARGEST
    ]
