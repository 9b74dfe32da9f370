"""Pictures of films: captions above and below, several films side by side. Pillow writes, with its own font."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Picture = NDArray[np.uint8]

BAR, TEXT, MARGIN = 34, 19, 10  # pixels: height of a caption, of its letters, beside it
PAPER, INK, DIM = (24, 28, 35), (245, 246, 248), (178, 186, 198)
VERDICTS = {"success": (94, 211, 136), "no success": (255, 138, 128)}
LARGEST = 1080  # pixels along the longer side of a picture
GAP = 6  # pixels between films side by side


def captioned(picture: Picture, title: str, line: str, verdict: str, *, size: int) -> Picture:
    """A picture of at least `size` pixels along its shorter side, between a title and where the episode stands."""
    shown = sized(picture, size)
    width, height = shown.size
    image = Image.new("RGB", (width, height + 2 * BAR), PAPER)
    image.paste(shown, (0, BAR))
    draw = ImageDraw.Draw(image)
    _write(draw, MARGIN, 0, title, INK, width - 2 * MARGIN)
    side = _font(TEXT).getlength(verdict) if verdict else 0.0
    _write(draw, MARGIN, BAR + height, line, DIM, width - 3 * MARGIN - side)
    if verdict:
        _write(draw, width - MARGIN - side, BAR + height, verdict, VERDICTS[verdict], side)
    return np.asarray(image)


def sized(picture: Picture, size: int) -> Image.Image:
    """Enlarged where it is small, made smaller where it is larger than any screen needs; both sides even."""
    image = Image.fromarray(picture).convert("RGB")
    factor = max(size / min(image.size), 1.0)
    if factor == 1.0 and max(image.size) > max(LARGEST, size):
        factor = max(max(LARGEST, size) / max(image.size), size / min(image.size))
    width, height = (2 * round(side * factor / 2) for side in image.size)
    if (width, height) == image.size:
        return image
    return image.resize((width, height), Image.Resampling.NEAREST if factor >= 2 else Image.Resampling.LANCZOS)


def side_by_side(films: Sequence[Sequence[Picture]], columns: int) -> list[Picture]:
    """Films as one, in rows of so many; one that has ended stays at its last picture."""
    together = zip_longest(*films)
    last: list[Any] = [None] * len(films)
    pictures = []
    for shots in together:
        last = [before if shot is None else shot for shot, before in zip(shots, last, strict=True)]
        pictures.append(_tiled(last, columns))
    return pictures


def _tiled(pictures: Sequence[Picture], columns: int) -> Picture:
    if len(pictures) == 1:
        return pictures[0]
    height, width = (max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    rows = -(-len(pictures) // columns)
    shape = (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP)
    sheet = np.empty((*shape, 3), np.uint8)
    sheet[:] = PAPER
    for place, picture in enumerate(pictures):
        top, left = place // columns * (height + GAP), place % columns * (width + GAP)
        sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return sheet


def _write(draw: ImageDraw.ImageDraw, x: float, top: float, text: str, colour: Any, room: float) -> None:
    """A line in a bar, in smaller letters where it would be too long."""
    size = TEXT
    while size > 9 and _font(size).getlength(text) > room:
        size -= 1
    draw.text((x, top + BAR / 2), text, fill=colour, font=_font(size), anchor="lm")


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)
