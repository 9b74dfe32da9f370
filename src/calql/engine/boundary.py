"""Where actions go out to an environment and readings come back: each is checked, timed, and has its place named.

What is on the other side may be a robot. An action that is not a number is never sent; a reading that is not a number
ends the run before anything is made of it; a step that does not come back is given up after a time.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.data.choices import MASK, mask_apart, mask_in
from calql.data.dictionaries import in_form
from calql.engine.episodes import Episode, Request
from calql.system.errors import Diverged, UserError
from calql.system.layout import Layout

Env = gymnasium.Env[Any, Any]
MAKE, RESET, STEP, CLOSE = "start", "reset()", "step()", "close()"
CALLS = (MAKE, RESET, STEP, CLOSE)
SLOW = 10.0  # times as long as a step: a reset, a start or letting go may take
LOOK_S = 0.25  # between two looks at the clock, at most
KEPT = "the run is kept: mend the environment, then go on with --resume"


@dataclass
class Trajectory:
    """An episode that is still being played."""

    request: Request
    observations: list[NDArray[Any]] = field(default_factory=list)  # one more than actions
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminal: bool = False
    success: bool = False
    masks: list[NDArray[np.bool_]] = field(default_factory=list)  # of discrete actions, one for each observation

    @property
    def allowed(self) -> NDArray[np.bool_] | None:
        """What may be done now; None for continuous actions."""
        return self.masks[-1] if self.masks else None

    def episode(self) -> Episode:
        """As it stands, in whole arrays: quick to send to another process."""
        rewards, masks = np.array(self.rewards, np.float64), np.stack(self.masks) if self.masks else None
        observations, actions = np.stack(self.observations), np.stack(self.actions)
        return Episode(observations, actions, rewards, self.terminal, self.success, masks)


class Waiting(NamedTuple):
    """A call of an environment that has not come back yet."""

    call: str
    seconds: float
    request: Request | None
    step: int

    @property
    def where(self) -> str:
        return place(self.request, self.step)

    def too_long(self, step_timeout: float, grace: float = 0.0) -> bool:
        allowed = allowed_s(self.call, step_timeout)
        return bool(allowed) and self.seconds > allowed + grace

    def late(self, step_timeout: float) -> UserError:
        return late(self.call, allowed_s(self.call, step_timeout), self.where)


class Beacon:
    """What a worker waits for and since when, in numbers that another process may read at any time."""

    SIZE = 8

    def __init__(self, cells: MutableSequence[float] | None = None) -> None:
        self._cells = [0.0] * self.SIZE if cells is None else cells

    def set(self, call: str, request: Request | None, step: int) -> None:
        entropy = () if request is None else request.entropy
        self._cells[1 : 4 + len(entropy)] = [CALLS.index(call), step, len(entropy), *entropy]
        self._cells[0] = time.monotonic()

    def clear(self) -> None:
        self._cells[0] = 0.0

    @property
    def waiting(self) -> Waiting | None:
        """What it waits for, read by another thread or process while it goes on; None while it waits for nothing."""
        since = self._cells[0]
        noted = self._cells[:]
        if not since or self._cells[0] != since:  # the call came back in between: what was read belongs to no call
            return None
        request = Request(tuple(int(number) for number in noted[4 : 4 + int(noted[3])])) if noted[3] else None
        return Waiting(CALLS[int(noted[1])], time.monotonic() - since, request, int(noted[2]))


class Boundary:
    """Makes, resets and steps environments for one worker.

    A thread looks at the clock, and rings in the main thread only when a call has taken too long: no step pays for it.
    """

    def __init__(
        self,
        make_env: Callable[[], Env],
        step_timeout: float,
        beacon: Beacon | None = None,
        *,
        masked: bool = False,
        form: Layout | None = None,
    ) -> None:
        self._make_env, self._step_timeout = make_env, step_timeout
        self._form = form  # what observations are to be made of
        self._masked = masked  # whether the environment has to say which actions are allowed
        self._beacon = beacon or Beacon()
        self._over: threading.Event | None = None  # set when nobody needs to look any more

    def make(self) -> Env:
        with self._call(MAKE, None, 0):
            return in_form(mask_apart(self._make_env()), self._form)

    def reset(self, env: Env, request: Request) -> Trajectory:
        with self._call(RESET, request, 0):
            seen, info = env.reset(seed=request.env_seed)
            observation = as_observation(seen)
        self._require_observation(observation, env.observation_space.shape or observation.shape, request, 0)
        trajectory = Trajectory(request, [observation])
        self._note_mask(env, trajectory, info, 0, over=False)
        return trajectory

    def step(self, env: Env, trajectory: Trajectory, action: np.ndarray) -> bool:
        """Step one environment and note what it said; whether the episode goes on."""
        number = len(trajectory.rewards) + 1
        if not np.isfinite(action).all():
            raise Diverged(
                "the policy's action is NaN or inf, and was not sent",
                where=place(trajectory.request, number),
                mend="the last good checkpoint is kept: lower --critic-rate or --policy-rate",
            )
        _require_allowed(trajectory, action, number)
        with self._call(STEP, trajectory.request, number):
            answer = env.step(to_env_action(env.action_space, action))
            observation, reward, terminated, truncated, info = answer
            observation, reward = as_observation(observation), float(reward)
        self._require_observation(observation, trajectory.observations[0].shape, trajectory.request, number)
        if not math.isfinite(reward):
            raise _wrong(f"the environment gave {reward} as reward", trajectory.request, number)
        trajectory.observations.append(observation)
        trajectory.actions.append(np.array(action, np.float32))
        trajectory.rewards.append(reward)
        trajectory.terminal = bool(terminated)
        trajectory.success |= bool(info.get("success", info.get("is_success", False)))
        self._note_mask(env, trajectory, info, number, over=trajectory.terminal)
        return not (terminated or truncated)

    def _require_observation(
        self, observation: np.ndarray, shape: tuple[int, ...], request: Request, step: int
    ) -> None:
        call = STEP if step else RESET
        layout = self._form if self._form is not None and self._form.packed else None
        if observation.shape != shape:
            raise _wrong(f"{call} gave an observation of shape {observation.shape}, not {shape}", request, step)
        numbers = observation if layout is None else layout.vectors_of(observation)
        if numbers.dtype != np.uint8 and not np.isfinite(numbers).all():
            raise _wrong(f"{call} gave {not_finite(numbers, layout)} in its observation", request, step)

    def _note_mask(self, env: Env, trajectory: Trajectory, info: Any, step: int, *, over: bool) -> None:
        """What is allowed from here on; everything where the environment says nothing, or nothing is to come."""
        if not isinstance(env.action_space, gymnasium.spaces.Discrete):
            return
        count, call = int(env.action_space.n), STEP if step else RESET
        try:
            mask = mask_in(info, count)
        except ValueError as problem:
            raise _wrong(f"{call}: {problem}", trajectory.request, step) from None
        if mask is None and self._masked and not over:
            raise _wrong(f"{call} gave no '{MASK}', and the data have masks", trajectory.request, step)
        if mask is not None and not mask.any() and not over:
            raise _wrong(f"{call} gave an '{MASK}' that forbids every action", trajectory.request, step)
        trajectory.masks.append(np.ones(count, bool) if mask is None or over else mask)

    def close(self, envs: Iterable[Env]) -> None:
        """Let go of environments; one that cannot even be closed is left."""
        for env in envs:
            with suppress(UserError), self._call(CLOSE, None, 0):
                env.close()
        if self._over is not None:
            self._over.set()
            if signal.getsignal(signal.SIGALRM) == self._ring:
                signal.signal(signal.SIGALRM, self._before)
            self._over = None

    @contextmanager
    def _call(self, call: str, request: Request | None, step: int) -> Iterator[None]:
        if self._over is None and self._step_timeout:
            self._look_at_the_clock()
        self._beacon.set(call, request, step)
        try:
            yield
        except _Late:
            raise late(call, allowed_s(call, self._step_timeout), place(request, step)) from None
        except Exception as error:
            what = "cannot be made" if call == MAKE else f"raised in {call}"
            raise _wrong(f"the environment {what}: {type(error).__name__}: {error}", request, step) from error
        finally:
            self._beacon.clear()

    def _look_at_the_clock(self) -> None:
        """Only the main thread can be rung; and not while it is inside C code."""
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_kill"):
            return
        self._over = threading.Event()
        self._before = signal.signal(signal.SIGALRM, self._ring)
        looking = (self._over, threading.get_ident())
        threading.Thread(target=self._watch, args=looking, daemon=True, name="calql-clock").start()

    def _watch(self, over: threading.Event, thread: int) -> None:
        while not over.wait(min(LOOK_S, 0.25 * self._step_timeout)):
            if self._overdue():
                signal.pthread_kill(thread, signal.SIGALRM)

    def _overdue(self) -> bool:
        waiting = self._beacon.waiting
        return waiting is not None and waiting.too_long(self._step_timeout)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        """It may have come back meanwhile, or another worker's may be meant."""
        if self._overdue():
            raise _Late
        if callable(self._before):
            self._before(number, frame)


def allowed_s(call: str, step_timeout: float) -> float:
    """Seconds that a call may take; 0: any number."""
    return step_timeout if call == STEP else SLOW * step_timeout


def late(call: str, allowed: float, where: str) -> UserError:
    return UserError(
        f"the environment did not come back from its {call} within {allowed:g} s",
        where=where,
        mend=f"{KEPT}, or allow more with --step-timeout",
    )


def place(request: Request | None, step: int) -> str:
    if request is None:
        return ""
    return f"{request.name}, step {step}" if step else request.name


def _wrong(what: str, request: Request | None, step: int) -> UserError:
    return UserError(what, where=place(request, step), mend=KEPT)


def _require_allowed(trajectory: Trajectory, action: np.ndarray, step: int) -> None:
    if trajectory.allowed is not None and not trajectory.allowed[int(np.argmax(action))]:
        raise _wrong(f"action {int(np.argmax(action))} is forbidden, and was not sent", trajectory.request, step)


def not_finite(array: np.ndarray, layout: Layout | None = None) -> str:
    """What is not a number, and which number that is; of packed vectors, of which of them."""
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    place = f"number {index[0] if len(index) == 1 else index}" if layout is None else layout.place_of(index[-1])
    return f"{array[index]} as {place}"


def to_env_action(space: gymnasium.Space[Any], action: np.ndarray) -> Any:
    """From [-1, 1] to the bounds of the environment's actions; from one-hot rows [..., choice] to whole numbers."""
    if isinstance(space, gymnasium.spaces.Discrete):
        chosen = space.start + np.argmax(action, axis=-1)
        return int(chosen) if action.ndim == 1 else chosen
    assert isinstance(space, gymnasium.spaces.Box)
    scaled = space.low + (action + 1.0) * 0.5 * (space.high - space.low)
    return np.clip(scaled, space.low, space.high).astype(space.dtype)


def as_observation(observation: Any) -> np.ndarray:
    """float32, or uint8 for images."""
    array = np.asarray(observation)
    return array if array.dtype == np.uint8 else array.astype(np.float32)


class _Late(BaseException):  # an environment may catch whatever is an Exception
    """A call has taken too long."""
