"""A film as one animated picture (WebP): what does not move is stored once, and no player is needed."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FRAMES = 40  # of a film at most
DURATION = 125  # milliseconds of a frame
SIDES = (320, 240, 160, 120, 80, 48)  # pixels of a frame, the first with which all films fit
MOST = 900_000  # bytes of all films of a page
SMALL = 80  # pixels of a frame that keeps every one of them
QUALITY = 60

Picture = NDArray[np.uint8]  # [height, width, 3]


@dataclass(frozen=True)
class Clip:
    """An animated picture, as an address that holds it."""

    address: str
    frames: int
    width: int  # in pixels
    height: int
    pixels: bool  # so small that its pixels are to be seen


def clips(films: Sequence[Sequence[Picture]]) -> list[Clip]:
    """Films as large as fits the page."""
    for side in SIDES:
        made = [_clip(pictures, side) for pictures in films]
        if sum(len(each.address) for each in made) <= MOST:
            break
    return made


def _clip(pictures: Sequence[Picture], side: int) -> Clip:
    frames = [Image.fromarray(fitting(picture, side)) for picture in pictures]
    small = max(pictures[0].shape[:2]) <= SMALL
    written = io.BytesIO()
    frames[0].save(
        written, "WEBP", save_all=True, append_images=frames[1:], duration=DURATION, loop=0,
        lossless=small, quality=QUALITY, allow_mixed=True,
    )  # fmt: skip
    address = f"data:image/webp;base64,{base64.b64encode(written.getvalue()).decode()}"
    return Clip(address, len(frames), *frames[0].size, small)


def fitting(picture: Picture, side: int = SIDES[0]) -> Picture:
    """No side longer than that."""
    larger = max(picture.shape[:2]) / side
    if larger <= 1:
        return picture
    height, width = (max(round(each / larger), 1) for each in picture.shape[:2])
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


def beside(pictures: Sequence[Picture]) -> Picture | None:
    """Pictures in a row, on black where one is lower than the others; None where there are none."""
    if not pictures:
        return None
    height = max(len(picture) for picture in pictures)
    return np.concatenate([np.pad(each, ((0, height - len(each)), (0, 0), (0, 0))) for each in pictures], axis=1)
