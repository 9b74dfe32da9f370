"""Pictures in PNG or JPEG: their size is known from their header before they are unpacked."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from calql.system.archives import require_room
from calql.system.errors import UserError

KINDS = ("PNG", "JPEG")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def picture_shape(content: bytes, source: str) -> tuple[int, int, int]:
    """[row, column, channel] by the header alone."""
    with _opened(content, source) as picture:
        channels = {"L": 1, "RGBA": 4}.get(picture.mode, 3)
        return picture.height, picture.width, channels


def decoded(pictures: Sequence[bytes], shape: tuple[int, ...], path: Path, packed: int | None = None) -> NDArray[Any]:
    """[row, row, column, channel] of 8-bit colours; a picture of another size is refused."""
    require_room(len(pictures) * int(np.prod(shape)), path, packed)
    found = np.empty((len(pictures), *shape), np.uint8)
    for row, content in enumerate(pictures):
        with _opened(content, str(path)) as picture:
            if (picture.height, picture.width) != shape[:2]:
                raise UserError(
                    f"picture {row} has {picture.height} x {picture.width} pixels and others {shape[0]} x {shape[1]}",
                    where=str(path),
                    mend="all pictures of a camera must be of one size",
                )
            try:
                found[row] = np.asarray(picture.convert(MODES[shape[2]])).reshape(shape)
            except Exception as error:  # whatever the decoder makes of damage
                raise _damaged(row, error, path) from None
    return found


@dataclass(frozen=True)
class Packed:
    """Pictures that are unpacked when they are read: a source of rows."""

    pictures: Sequence[bytes]
    shape_of_one: tuple[int, ...]
    path: Path

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.pictures), *self.shape_of_one)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8)

    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        return decoded([self.pictures[place] for place in places.tolist()], self.shape_of_one, self.path, 2**62)


def _opened(content: bytes, source: str) -> Image.Image:
    try:
        return Image.open(io.BytesIO(content), formats=KINDS)
    except Exception as error:
        raise UserError(
            f"holds a picture that is neither PNG nor JPEG ({type(error).__name__})", where=source, mend="convert it"
        ) from None


def _damaged(row: int, error: Exception, path: Path) -> UserError:
    return UserError(f"picture {row} is damaged ({error})", where=str(path), mend="leave it out, or copy it again")
