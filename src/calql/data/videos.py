"""Frames of MP4 files at given times. The file is opened as MP4 and nothing else: no playlist, no other protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Bools, Ints
from calql.data.sources import Canvas
from calql.system.archives import AGAIN
from calql.system.errors import UserError
from calql.system.extras import extra


class Clip(NamedTuple):
    """A video file, and at what time it shows the picture of which row."""

    path: Path
    rows: Ints
    times: NDArray[np.float64]  # seconds from its beginning


def frames(
    clips: Sequence[Clip], shape: tuple[int, ...], rate: float, canvas: Canvas | None = None
) -> tuple[NDArray[Any], Bools]:
    """Pictures [row, row, column, channel] and whether each was found within half a frame of its time.

    On a `canvas` they are on disk.
    """
    total = sum(len(clip.rows) for clip in clips)
    seen = np.zeros(total, np.bool_)
    pictures = np.zeros((total, *shape), np.uint8) if canvas is None else canvas.rows
    for clip in clips:
        _fill(clip, pictures, seen, 0.5 / rate + 1e-4)
        if canvas is not None:
            canvas.let_go()
    return pictures, seen


def _fill(clip: Clip, pictures: NDArray[Any], seen: Bools, slack: float) -> None:
    av = extra("av", "a video")
    order = np.argsort(clip.times)
    rows, times = clip.rows[order], clip.times[order]
    try:
        with clip.path.open("rb") as content, av.open(content, format="mp4") as film:
            for frame in film.decode(film.streams.video[0]):
                if frame.time > times[-1] + slack:
                    break
                first, last = np.searchsorted(times, (frame.time - slack, frame.time + slack))
                wanted = [row for row in rows[first:last] if not seen[row]]
                if wanted:
                    _require_size(frame, pictures.shape[1:], clip.path)
                    pictures[wanted], seen[wanted] = _colours(frame, pictures.shape[-1]), True
    except (av.FFmpegError, OSError, ValueError, IndexError, TypeError, RuntimeError) as error:
        text = str(error).partition("\n")[0][:200]
        raise UserError(f"is not a whole MP4 video ({text})", where=str(clip.path), mend=AGAIN) from None


def _colours(frame: Any, channels: int) -> NDArray[Any]:
    picture = frame.to_ndarray(format="rgb24" if channels == 3 else "gray")
    return np.asarray(picture if channels == 3 else picture[..., None])


def _require_size(frame: Any, shape: tuple[int, ...], path: Path) -> None:
    if (frame.height, frame.width) != shape[:2] or shape[2] not in (1, 3):
        raise UserError(
            f"has pictures of {frame.height} x {frame.width} pixels and info.json says {shape[0]} x {shape[1]}",
            where=str(path),
            mend="correct info.json",
        )
