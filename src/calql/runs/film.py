"""An episode as pictures: a policy plays, the environment draws, and each picture says where the episode stands.

MuJoCo draws with OpenGL, which a machine may not have; the point maze and pick-and-place draw themselves and always
work.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from calql.data.choices import MASK, mask_apart
from calql.domains.own.tasks import MakeEnv
from calql.runs.frames import Picture, captioned
from calql.system.errors import UserError

Act = Callable[..., Any]  # of an observation, and of `mask` where the environment gives one

RATE = 25.0  # steps a second of an environment that does not say
NO_GL = (
    "on Debian and Ubuntu: apt install libegl1 libgl1-mesa-dri and set MUJOCO_GL=egl, "
    "or apt install libosmesa6 and set MUJOCO_GL=osmesa"
)


@dataclass(frozen=True)
class Shot:
    """A picture, and where the episode stands in it."""

    picture: Picture
    step: int
    limit: int
    seconds: float  # of the environment's own time
    reward: float  # of the step before
    total: float
    success: bool
    over: bool

    @property
    def line(self) -> str:
        earned = f"reward {self.reward:.3g}   return {self.total:.4g}"
        return f"{self.seconds:.1f} s   step {self.step} of {self.limit}   {earned}"

    @property
    def verdict(self) -> str:
        if self.success:
            return "success"
        return "no success" if self.over else ""


@dataclass(frozen=True)
class Film:
    """Captioned pictures and how many of them are a second."""

    pictures: list[Picture]
    rate: float


def prepare_gl() -> None:
    """MuJoCo reads it when it is imported, so before an environment is; without a screen EGL draws."""
    if "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")


def filmed(make_env: MakeEnv, policy: Act | None, title: str, *, seed: int, limit: int, size: int) -> Film:
    """One captioned episode; without a policy the actions are random."""
    env = mask_apart(with_camera(make_env))
    try:
        shots = list(play(env, policy or _random(env, seed), seed, limit))
    finally:
        with contextlib.suppress(Exception):  # a drawing context that was never made cannot be closed
            env.close()
    pictures = [captioned(shot.picture, title, shot.line, shot.verdict, size=size) for shot in shots]
    return Film(pictures, _rate(env))


def play(env: gymnasium.Env[Any, Any], policy: Act, seed: int, limit: int) -> Iterator[Shot]:
    """The picture before each step of an episode, and the one after the last."""
    observation, info = env.reset(seed=seed)
    rate, total, success = _rate(env), 0.0, False
    yield Shot(picture_of(env), 0, limit, 0.0, 0.0, 0.0, success=False, over=False)
    for step in range(1, limit + 1):
        mask = {"mask": info[MASK]} if MASK in info else {}
        observation, reward, terminated, truncated, info = env.step(policy(observation, **mask))
        total += float(reward)
        success = success or bool(info.get("success", info.get("is_success", False)))
        over = bool(terminated or truncated or step == limit)
        yield Shot(picture_of(env), step, limit, step / rate, float(reward), total, success, over)
        if over:
            return


def with_camera(make_env: Callable[..., gymnasium.Env[Any, Any]]) -> gymnasium.Env[Any, Any]:
    """An environment that draws itself, if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, of one that does not say that it draws; it is asked below
            env = make_env(render_mode="rgb_array")
    except TypeError:  # an environment without that option
        return make_env()
    except UserError:
        raise
    except Exception as problem:  # MuJoCo looks for OpenGL while it is imported
        if _is_about_gl(problem):
            raise _no_gl(problem) from None
        what = f"the environment cannot be made: {type(problem).__name__}: {problem}"
        raise UserError(what, mend="make it with render_mode='rgb_array' by hand first") from problem
    simulation = getattr(env, "simulation", None)
    if simulation is not None:
        simulation.draw_plainly()
    return env


def _is_about_gl(problem: Exception) -> bool:
    """Whether it says so, or comes up out of the modules that load OpenGL."""
    if "opengl" in str(problem).lower():
        return True
    trace, modules = problem.__traceback__, []
    while trace is not None:
        modules.append(str(trace.tb_frame.f_globals.get("__name__", "")))
        trace = trace.tb_next
    return any(name.partition(".")[0] in ("OpenGL", "glfw") or "mujoco." in f"{name}." for name in modules)


def _no_gl(problem: Exception) -> UserError:
    kind = type(problem).__name__
    return UserError(f"this machine has no OpenGL that MuJoCo can draw with ({kind})", mend=NO_GL)


def picture_of(env: gymnasium.Env[Any, Any]) -> Picture:
    """What the environment draws of itself; whatever a missing OpenGL raises becomes one line."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            drawn: Any = env.render()
    except NotImplementedError:
        drawn = None
    except Exception as problem:
        if _is_about_gl(problem):
            raise _no_gl(problem) from None
        what = f"render() raises {type(problem).__name__}: {problem}"
        raise UserError(what, where=_name(env), mend="make env.render() work with render_mode='rgb_array'") from problem
    if drawn is None:
        mend = "let it take render_mode='rgb_array', name that in metadata['render_modes'] and return a picture"
        raise UserError("the environment draws no pictures", where=_name(env), mend=f"{mend} from render()")
    return np.asarray(drawn, np.uint8)


def _name(env: gymnasium.Env[Any, Any]) -> str:
    return str(env.spec.id if env.spec else type(env.unwrapped).__name__)


def _rate(env: gymnasium.Env[Any, Any]) -> float:
    return float(env.metadata.get("render_fps") or RATE)


def _random(env: gymnasium.Env[Any, Any], seed: int) -> Act:
    env.action_space.seed(seed)
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        return lambda observation, mask=None: env.action_space.sample(None if mask is None else np.int8(mask))
    return lambda observation: np.asarray(env.action_space.sample())
