"""Data against an environment: what cannot train is refused, what looks wrong is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from calql.data import Dataset, check
from calql.system.errors import UserError

Env = gymnasium.Env[Any, Any]


class Line(Env):
    """A point on a line; every part of it can be made wrong."""

    def __init__(
        self,
        *,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        start: float = 0.0,
        reward: float = 0.0,
        terminates_after: int | None = None,
        truncates_after: int | None = None,
        fault: Callable[[], Any] | None = None,
    ) -> None:
        self.observation_space = observation_space or spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = action_space or spaces.Box(-1, 1, (1,), np.float32)
        self.start, self.reward, self.fault = start, reward, fault
        self.ends = (terminates_after, truncates_after)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.fault:
            self.fault()
        self.steps += 1
        terminated, truncated = (self.steps == end for end in self.ends)
        return self._observe(), self.reward, terminated, truncated, {}

    def _observe(self) -> np.ndarray:
        shape, dtype = self.observation_space.shape, self.observation_space.dtype
        return np.full(shape, self.start, dtype)  # type: ignore[arg-type]


class OtherSteps(Line):
    """Resets are as they should be, and steps give another observation."""

    def __init__(self, observation: Any) -> None:
        super().__init__()
        self.observation = observation

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation, *super().step(action)[1:]


class NoPair(Line):
    """Gymnasium's interface of long ago; of two numbers, so that they could be taken for a pair."""

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0]


def logged(
    *, observation: tuple[int, ...] = (2,), dtype: Any = np.float32, action: int = 1, terminal: bool = False
) -> Dataset:
    """Ten episodes of ten steps around zero."""
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 255, (101, *observation), np.uint8).astype(dtype)
    if dtype != np.uint8:
        observations = rng.normal(size=(101, *observation)).astype(dtype)
    ends = np.arange(100) % 10 == 9
    return Dataset(
        observations=observations[:-1],
        actions=rng.uniform(-1, 1, (100, action)).astype(np.float32),
        rewards=rng.uniform(-1, 0, 100).astype(np.float32),
        next_observations=observations[1:],
        terminals=ends & terminal,
        truncated=ends & (not terminal),
        source="my.npz",
    )


def test_a_pair_that_fits() -> None:
    assert check(logged(), Line(truncates_after=10), name="Line-v0") == []


def test_images_fit() -> None:
    space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    dataset = logged(observation=(8, 8, 3), dtype=np.uint8)
    assert check(dataset, Line(observation_space=space), name="Image-v0") == []


def fail() -> None:
    raise RuntimeError("no display")


@pytest.mark.parametrize(
    ("dataset", "env", "message"),
    [
        (logged(observation=(3,)), Line(), r"Line-v0: observations have shape \(2,\) and those of my.npz \(3,\); wrap"),
        (
            logged(observation=(8, 8, 3)),
            Line(observation_space=spaces.Box(0, 255, (8, 8, 3), np.uint8)),
            "observations are uint8 and those of my.npz float32; images must be uint8 in both",
        ),
        (logged(action=2), Line(), r"actions have shape \(1,\) and those of my.npz \(2,\); data and environment"),
        (logged(), Line(action_space=spaces.Discrete(3)), r"those of the environment Discrete\(3\); store one whole"),
        (logged(), Line(action_space=spaces.MultiDiscrete([3, 4])), r"several choices at once; .* as Discrete\(12\)"),
        (logged(), Line(action_space=spaces.MultiBinary(3)), r"several choices at once; .* as Discrete\(8\)"),
        (logged(), Line(action_space=spaces.Text(3)), "only a Box or a Discrete can be learnt"),
        (
            logged(),
            Line(action_space=spaces.Box(-np.inf, np.inf, (1,), np.float32)),
            "action bounds .* are not finite ranges; wrap it in gymnasium.wrappers.RescaleAction",
        ),
        (logged(), Line(action_space=spaces.Box(-0.01, 0.01, (1,), np.float32)), "actions lie far outside the bounds"),
        (
            logged(),
            Line(observation_space=spaces.Dict({"goal": spaces.Box(0, 1, (2,))})),
            "observations are a dictionary of goal; where the data are .* register it flat, in the order",
        ),
        (logged(), Line(observation_space=spaces.Discrete(4)), r"observation space is Discrete\(4\); it must be a Box"),
        (logged(), Line(fault=fail), r"raises RuntimeError when tried out \(no display\); reset"),
        (logged(), Line(start=np.nan), r"reset\(\) gives NaN or inf in an observation"),
        (logged(), Line(reward=np.inf), r"step\(\) gives NaN or inf as a reward"),
        (logged(), OtherSteps(np.full(2, np.nan)), r"step\(\) gives NaN or inf in an observation"),
        (logged(), OtherSteps(np.zeros(5)), r"step\(\) gives an observation of shape \(5,\) and .* says \(2,\)"),
        (logged(), NoPair(), r"raises TypeError when tried out \(reset\(\) returned no pair"),
    ],
)
def test_what_cannot_train_is_refused(dataset: Dataset, env: Env, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        check(dataset, env, name="Line-v0")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("dataset", "env", "words"),
    [
        (logged(), Line(reward=100.0), "random steps earn rewards from 100 to 100, recorded ones go from"),
        (logged(), Line(terminates_after=5), "ended 40 episodes as terminated within 200 random steps"),
        (logged(terminal=True), Line(truncates_after=10), "time limits may have been recorded as 'terminals'"),
        (logged(terminal=True), Line(), "the environment did not end one within 200 random steps"),
        (logged(), Line(start=9.0), "2 of 2 observation features start far from any recorded start"),
        (
            logged(),
            Line(action_space=spaces.Box(-0.9, 0.9, (1,), np.float32)),
            "actions lie outside the bounds, by a factor of up to 1.1",
        ),
    ],
)
def test_what_looks_wrong_is_said(dataset: Dataset, env: Env, words: str) -> None:
    warnings = check(dataset, env, name="Line-v0")
    assert len(warnings) == 1
    assert words in warnings[0]


def demonstrations(*, lengths: Callable[[int], int] = lambda i: 6 + i % 4, success: float = 1.0) -> Dataset:
    """Twenty episodes that all end in a terminal step, of those lengths, with that reward there and 0 before."""
    ends = np.cumsum([lengths(i) for i in range(20)]) - 1
    base = logged()
    rows = np.arange(ends[-1] + 1) % 100
    terminals = np.isin(np.arange(ends[-1] + 1), ends)
    return replace(
        base.select(rows),
        rewards=np.where(terminals, success, 0.0).astype(np.float32),
        terminals=terminals,
        truncated=np.zeros_like(terminals),
    )


def test_demonstrations_that_all_succeed_are_no_time_limits() -> None:
    assert check(demonstrations(), Line(truncates_after=10), name="Line-v0") == []


@pytest.mark.parametrize(
    "dataset", [demonstrations(lengths=lambda i: 10), demonstrations(success=0.0)], ids=["one length", "no success"]
)
def test_what_may_be_time_limits_is_still_said(dataset: Dataset) -> None:
    (warning,) = check(dataset, Line(truncates_after=10), name="Line-v0")
    assert "time limits may have been recorded as 'terminals'" in warning


@pytest.mark.parametrize(
    ("recorded", "observed", "alike"),
    [
        ((0.0, 1.0), 0.0, True),  # sparse, and random steps earn nothing
        ((-5.0, 5.0), -5.0, True),
        ((2.5, 315.0), -5.0, False),
        ((0.0, 1.0), -1.0, False),
        ((-1.0, 0.0), -0.5, False),
    ],
)
def test_rewards_are_compared_both_ways(recorded: tuple[float, float], observed: float, alike: bool) -> None:
    dataset = logged()
    rewards = np.where(np.arange(100) % 10 == 9, recorded[1], recorded[0]).astype(np.float32)
    warnings = check(replace(dataset, rewards=rewards), Line(reward=observed), name="Line-v0")
    assert [w for w in warnings if "different rewards" in w] == warnings
    assert (not warnings) == alike


def test_rewards_that_vary_need_not_overlap() -> None:
    class Shaped(Line):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            seen, _, *rest = super().step(action)
            return seen, float(np.sum(action)), *rest

    expert = replace(logged(), rewards=np.random.default_rng(0).uniform(1.5, 8, 100).astype(np.float32))
    assert check(expert, Shaped(), name="Line-v0") == []


def test_a_real_environment() -> None:
    env = gymnasium.make("Pendulum-v1")
    rng = np.random.default_rng(0)
    rows = []
    observation, _ = env.reset(seed=1)
    for _ in range(200):
        action = rng.uniform(-2, 2, 1).astype(np.float32)
        after, reward, _, _, _ = env.step(action)
        rows.append((observation, action, reward, after))
        observation = after
    before, actions, rewards, after_all = (np.asarray(column, np.float32) for column in zip(*rows, strict=True))
    ends = np.arange(200) % 20 == 19
    dataset = Dataset(before, actions, rewards, after_all, np.zeros(200, np.bool_), ends)
    assert check(dataset, env, name="Pendulum-v1") == []
