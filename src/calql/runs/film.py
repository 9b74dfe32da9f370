"""An episode as a film: `render` plays a task and writes a GIF or an MP4.

MuJoCo draws with OpenGL, which a machine may not have; pick-and-place draws itself and always works.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.data.choices import MASK
from calql.system.errors import UserError
from calql.system.extras import extra

Act = Callable[..., Any]  # of an observation, and of `mask` where the environment gives one
Picture = NDArray[np.uint8]

FASTEST = 25  # frames per second of the film; faster tasks show every second frame, or every fourth
LARGEST = 320  # pixels along a side
NO_GL = (
    "on Debian and Ubuntu: apt install libegl1 libgl1-mesa-dri and set MUJOCO_GL=egl, "
    "or apt install libosmesa6 and set MUJOCO_GL=osmesa"
)


def render(task_name: str, out: str | Path, policy: Act | None = None, seed: int = 0) -> Path:
    """Play one episode of a task and film it; without a policy the actions are random.

    The file's ending decides: .gif, or .mp4 where imageio's ffmpeg is installed.
    """
    out = Path(out)
    if out.suffix not in (".gif", ".mp4"):
        raise UserError(f"cannot write a film as '{out.suffix}'", where=str(out), mend="name it .gif or .mp4")
    if "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")  # read when MuJoCo is imported, so before the task is
    from calql.domains.registry import get_task

    task = get_task(task_name)
    env = _with_camera(task.make_env)
    try:
        pictures = list(film(env, policy or _random(env, seed), seed, task.episode_limit))
    finally:
        with contextlib.suppress(Exception):  # a drawing context that was never made cannot be closed
            env.close()
    return write(out, pictures, float(env.metadata.get("render_fps", FASTEST)))


def film(env: gymnasium.Env[Any, Any], policy: Act, seed: int, limit: int) -> Iterator[Picture]:
    """The picture before each step of an episode, and the one after the last."""
    observation, info = env.reset(seed=seed)
    yield _picture(env)
    for _ in range(limit):
        mask = {"mask": info[MASK]} if MASK in info else {}
        observation, _, terminated, truncated, info = env.step(policy(observation, **mask))
        yield _picture(env)
        if terminated or truncated:
            return


def write(out: Path, pictures: list[Picture], rate: float) -> Path:
    """Write the film, at most so many pictures a second as an eye needs."""
    imageio = extra("imageio.v2", "a film")
    every = max(1, math.ceil(rate / FASTEST))
    shown: list[Any] = [*pictures[:-1:every], pictures[-1]]
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        if out.suffix == ".gif":
            imageio.mimsave(out, shown, format="GIF", duration=1000.0 * every / rate, loop=0)
        else:
            imageio.mimsave(out, shown, fps=rate / every)
    except (ImportError, ValueError) as problem:
        mend = "write a .gif, or pip install 'calql[films]'"
        raise UserError(f"cannot be written ({problem})", where=str(out), mend=mend) from None
    return out


def _with_camera(make_env: Callable[..., gymnasium.Env[Any, Any]]) -> gymnasium.Env[Any, Any]:
    try:
        env = make_env(render_mode="rgb_array")
    except TypeError:  # an environment without that option
        return make_env()
    simulation = getattr(env, "simulation", None)
    if simulation is not None:
        simulation.draw_plainly()
    return env


def _picture(env: gymnasium.Env[Any, Any]) -> Picture:
    """What the environment draws of itself; whatever a missing OpenGL raises becomes one line."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            drawn: Any = env.render()
    except NotImplementedError:
        drawn = None
    except Exception as problem:
        kind = type(problem).__name__
        raise UserError(f"this machine has no OpenGL that MuJoCo can draw with ({kind})", mend=NO_GL) from None
    if drawn is None:
        raise UserError("the environment draws no pictures", mend="give it render_mode='rgb_array'")
    picture = np.asarray(drawn, np.uint8)
    coarser = math.ceil(max(picture.shape) / LARGEST)
    return picture[::coarser, ::coarser]


def _random(env: gymnasium.Env[Any, Any], seed: int) -> Act:
    env.action_space.seed(seed)
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        return lambda observation, mask=None: env.action_space.sample(None if mask is None else np.int8(mask))
    return lambda observation: np.asarray(env.action_space.sample())
