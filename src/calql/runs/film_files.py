"""Films as files: a GIF anywhere, an MP4 with the extra [films]; whole or not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from PIL import Image

from calql.runs.frames import Picture
from calql.system.errors import UserError
from calql.system.extras import extra
from calql.system.files import written_whole

FASTEST = {".gif": 12.5, ".mp4": 25.0}  # pictures a second; of faster tasks every second is shown, or every fourth
COLOURS, SAMPLED = 96, 4  # of a GIF: one palette for all pictures, made of so many of them
STAYS_S = 1.5  # the last picture, before the film begins again


def require_kind(out: Path) -> None:
    if out.suffix not in FASTEST:
        raise UserError(f"cannot write a film as '{out.suffix}'", where=str(out), mend="name it .gif or .mp4")


def write_film(out: Path, pictures: Sequence[Picture], rate: float) -> Path:
    """Write it by the file's ending, at most so many pictures a second as an eye needs."""
    require_kind(out)
    every = max(1, math.ceil(rate / FASTEST[out.suffix]))
    shown = [*pictures[:-1:every], pictures[-1]]
    out.parent.mkdir(parents=True, exist_ok=True)
    (_gif if out.suffix == ".gif" else _mp4)(out, shown, rate / every)
    return out


def _gif(out: Path, pictures: Sequence[Picture], rate: float) -> None:
    palette = _palette(pictures)
    first, *rest = (
        Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures
    )
    durations = [round(1000.0 / rate)] * len(rest) + [round(1000.0 * STAYS_S)]
    with written_whole(out) as file:
        first.save(file, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _palette(pictures: Sequence[Picture]) -> Image.Image:
    """With palettes of their own, no two pictures would share a pixel, and the file would be several times as large."""
    chosen = np.linspace(0, len(pictures) - 1, SAMPLED).round().astype(int)
    return Image.fromarray(np.concatenate([pictures[place] for place in chosen])).quantize(COLOURS)


def _mp4(out: Path, pictures: Sequence[Picture], rate: float) -> None:
    imageio = extra("imageio.v2", "a film as .mp4")
    aside = out.with_name(f".{out.stem}.{uuid4().hex}.mp4")  # ffmpeg writes by name, so it is put into place after
    still: list[Any] = [pictures[-1]] * round(rate * STAYS_S)
    try:
        imageio.mimsave(aside, [*pictures, *still], fps=rate, macro_block_size=2)
        aside.replace(out)
    except (ImportError, ValueError) as problem:
        mend = "write a .gif, or pip install 'calql[films]'"
        raise UserError(f"cannot be written as .mp4 ({problem})", where=str(out), mend=mend) from None
    finally:
        aside.unlink(missing_ok=True)
