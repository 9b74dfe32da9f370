"""A film as one picture: its frames side by side, which the page moves through a window. It needs no player."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FRAMES = 32  # of a film at most: more would not fit a page with several
SIDE = 160  # pixels of a frame at most
QUALITY = 80

Picture = NDArray[np.uint8]  # [height, width, 3]


@dataclass(frozen=True)
class Strip:
    """Frames in a row, as the address of a picture that the page itself holds."""

    address: str
    frames: int
    width: int  # of a frame, in pixels
    height: int


def strip(pictures: Sequence[Picture]) -> Strip:
    """JPEG, coarser where frames are large. Small pictures keep their pixels: PNG."""
    small = max(pictures[0].shape[:2]) <= SIDE // 2
    frames = [_fitting(picture) for picture in pictures]
    written = io.BytesIO()
    image = Image.fromarray(np.concatenate(frames, axis=1))
    if small:
        image.quantize(64).save(written, "PNG", optimize=True)
    else:
        image.save(written, "JPEG", quality=QUALITY)
    kind = "png" if small else "jpeg"
    address = f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode()}"
    height, width = frames[0].shape[:2]
    return Strip(address, len(frames), width, height)


def _fitting(picture: Picture) -> Picture:
    """No side longer than `SIDE`."""
    larger = max(picture.shape[:2]) / SIDE
    if larger <= 1:
        return picture
    height, width = (round(side / larger) for side in picture.shape[:2])
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.LANCZOS))


def thinned(length: int) -> NDArray[np.int64]:
    """The steps of an episode that a film shows, the first and the last among them."""
    return np.unique(np.linspace(0, length - 1, min(length, FRAMES)).round().astype(np.int64))


def as_picture(observation: NDArray[Any]) -> Picture | None:
    """An image observation as red, green and blue; None where it cannot be told what it shows.

    Channels stand last or first; of frames that were stacked, the last is shown.
    """
    image = observation
    if image.ndim == 3 and image.shape[0] in (1, 3, 4) and image.shape[-1] not in (1, 3, 4):
        image = np.moveaxis(image, 0, -1)
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim != 3 or image.dtype != np.uint8:
        return None
    channels = image.shape[-1]
    if channels % 3 == 0:
        return np.ascontiguousarray(image[..., -3:])
    return np.ascontiguousarray(image[..., :3]) if channels == 4 else np.repeat(image[..., -1:], 3, axis=-1)
