"""Recorded episodes as films: from images that were recorded, or from an environment put into recorded states.

Nothing is stepped: an environment only draws the states that the data hold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from calql.data import Dataset
from calql.data.overview import Episodes
from calql.runs.film import picture_of, prepare_gl, with_camera
from calql.system.errors import UserError
from calql.views.clips import Clip, Picture, as_picture, beside, clips, fitting, thinned

RECORDED = 6  # films of image observations on a page
Env = gymnasium.Env[Any, Any]
Put = Callable[[Env, Any], None]
SHOW = "show_observation"  # the method of an environment of one's own that is put into a recorded state


@dataclass(frozen=True)
class Film:
    """A recorded episode to look at."""

    episode: int
    clip: Clip
    caption: str


def telling(found: Episodes, suspicious: Sequence[int], count: int) -> list[int]:
    """Episodes worth a film: the best, the worst and the middle one by return, then suspicious ones, then others."""
    order = np.argsort(found.totals, kind="stable")
    ranked = [order[-1], order[0], order[len(order) // 2]]
    spaced = np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)
    return list(dict.fromkeys(int(each) for each in (*ranked, *suspicious, *spaced)))[:count]


def of_images(dataset: Dataset, found: Episodes, chosen: Sequence[int]) -> list[Film]:
    """Films of what the robot saw; none where observations are no images."""
    if _seen(dataset, 0) is None:
        return []
    return _films(dataset, found, {episode: lambda row: _shown(dataset, row) for episode in chosen})


def of_environment(
    dataset: Dataset, found: Episodes, chosen: Sequence[int], make_env: Callable[..., Env], put: Put | None
) -> list[Film]:
    """Films of an environment that is put into each recorded state and drawn."""
    prepare_gl()
    env = with_camera(make_env)
    try:
        place = put or _own_put(env)

        def drawn(row: int) -> Picture:
            if row in dataset.episode_starts:
                env.reset(seed=0)  # whatever it draws of the steps before is of another film
            place(env, _recorded(dataset, row))
            return picture_of(env)

        return _films(dataset, found, dict.fromkeys(chosen, drawn))
    finally:
        with contextlib.suppress(Exception):  # a drawing context that was never made cannot be closed
            env.close()


def _films(dataset: Dataset, found: Episodes, drawn: Mapping[int, Callable[[int], Picture]]) -> list[Film]:
    """Of each episode, from what draws its rows."""
    steps = {episode: thinned(int(found.lengths[episode])) for episode in drawn}
    pictures = [
        [fitting(picture(int(dataset.episode_starts[episode]) + int(step))) for step in steps[episode]]
        for episode, picture in drawn.items()
    ]
    return [
        Film(episode, clip, _caption(found, episode, len(steps[episode])))
        for episode, clip in zip(drawn, clips(pictures), strict=True)
    ]


def _caption(found: Episodes, episode: int, frames: int) -> str:
    end = "" if found.success is None else ", success" if found.success[episode] else ", no success"
    shown = "" if frames == found.lengths[episode] else f", {frames} of them shown"
    return f"return {found.totals[episode]:.4g}{end}; {found.lengths[episode]} steps{shown}"


def _shown(dataset: Dataset, row: int) -> Picture:
    picture = _seen(dataset, row)
    assert picture is not None
    return picture


def _seen(dataset: Dataset, row: int) -> Picture | None:
    """What was seen there; several cameras side by side."""
    if dataset.layout is None:
        return as_picture(np.asarray(dataset.observations[row]))
    parts = dataset.layout.apart(np.asarray(dataset.observations[row]))
    pictures = [as_picture(parts[camera.name]) for camera in dataset.layout.cameras]
    return beside([picture for picture in pictures if picture is not None])


def _recorded(dataset: Dataset, row: int) -> Any:
    """An observation as its environment gives it."""
    observation = dataset.observations[row]
    return observation if dataset.layout is None else dataset.layout.apart(observation)


def _own_put(env: Env) -> Put:
    show = getattr(env.unwrapped, SHOW, None)
    if show is None:
        raise UserError(
            "the environment cannot be put into recorded states",
            where="--films",
            mend=f"give it a method {SHOW}(observation), or leave --films out",
        )
    return lambda _, observation: show(observation)
