"""A toy environment, its data and every method at a size that compiles in seconds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from calql.data import Dataset, one_hot
from calql.data.dataset import MASKS
from calql.data.rewards import RewardRule
from calql.domains.base import Protocol, Task, success_rate
from calql.engine.inputs import prepare
from calql.engine.options import RunOptions
from calql.engine.program import Program
from calql.methods import METHODS, Method, make_method
from calql.methods.base import Transitions
from calql.methods.reference import Fit

LIMIT = 5
OBSERVATION, ACTION, CHOICES = 3, 2, 3
BATCH = 4
SEEDS = 2

TINY: dict[str, Any] = {
    "policy_widths": (8,),
    "critic_widths": (8,),
    "batch_size": BATCH,
    "sampled_actions": 2,
    "backup_actions": 2,
    "critics": 3,
    "critic_steps": 2,
    "critic_steps_online": 2,
    "candidates": 3,
    "initialiser": "lecun",
    "width": 8,
    "layers": 2,
    "heads": 2,
    "training_context": 3,
    "acting_context": 2,
    "warmup_updates": 2,
    "epsilon": 0.9,
}
KEPT = {"critics", "critic_steps", "critic_steps_online"}  # lowered only where the method has more


class Line(gymnasium.Env[np.ndarray, np.ndarray]):
    """Go right along a line; beyond 1 the episode ends with reward 1. `reset(seed=...)` decides all."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=OBSERVATION).astype(np.float32) * 0.1
        return self.state, {"success": False}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state = self.state + np.array([*action, 0.0], np.float32)
        success = bool(self.state[0] > 1.0)
        return self.state, float(success), success, False, {"success": success}


class Picture(Line):
    """The same seen as an 8x8 image."""

    observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        state, info = super().reset(**kwargs)
        return draw(state), info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        state, *rest = super().step(action)
        return draw(state), *rest


def draw(state: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.clip(128 + 40 * state, 0, 255).astype(np.uint8), (8, 8, 3)).copy()


class Choosing(Line):
    """The same with three moves, of which the one back is forbidden left of the start."""

    action_space = gymnasium.spaces.Discrete(CHOICES)  # type: ignore[assignment]

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        state, info = super().reset(**kwargs)
        return state, info | self._mask()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self._mask()["action_mask"][action]
        state, *rest, info = super().step(np.array([(0.5, 0.0, -0.5)[action], 0.0]))
        return state, *rest, info | self._mask()  # type: ignore[return-value]

    def _mask(self) -> dict[str, np.ndarray]:
        return {"action_mask": np.array([1, 1, self.state[0] >= 0.0], np.int8)}


def behaviour(rng: np.random.Generator, env: gymnasium.Env, info: dict[str, Any]) -> Any:
    if "action_mask" in info:
        return int(rng.choice(np.flatnonzero(info["action_mask"])))
    return np.clip(rng.normal(size=ACTION) * 0.5 + np.array([0.2, 0.0]), -0.99, 0.99).astype(np.float32)


def record(env: gymnasium.Env, episodes: int = 8) -> Dataset:
    """Random episodes, of which some end in success and some are cut."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {name: [] for name in ("s", "a", "r", "n", "terminal", "cut", "mask", "after")}
    for episode in range(episodes):
        state, info = env.reset(seed=episode)
        for step in range(LIMIT):
            action, before = behaviour(rng, env, info), info.get("action_mask")
            following, reward, success, _, info = env.step(action)
            cut = not success and step == LIMIT - 1
            row = (state, action, reward, following, success, cut, before, info.get("action_mask"))
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            state = following
            if success:
                break
    masks = {name: np.stack(columns[of]).astype(bool) for name, of in zip(MASKS, ("mask", "after"), strict=True)}
    observations = np.stack(columns["s"])
    return Dataset(
        observations=observations,
        actions=np.stack(columns["a"]),
        rewards=np.array(columns["r"], np.float32),
        next_observations=np.stack(columns["n"]).astype(observations.dtype),
        terminals=np.array(columns["terminal"]),
        truncated=np.array(columns["cut"]),
        source="toy",
        **(masks if isinstance(env, Choosing) else {}),
    )


@cache
def data(image: bool = False, discrete: bool = False) -> Dataset:
    """As training has it."""
    if discrete:
        return one_hot(record(Choosing()), Choosing.action_space)
    return record(Picture() if image else Line())


def task(image: bool = False, discrete: bool = False) -> Task:
    return Task(
        name="toy",
        domain="toy",
        summary="",
        make_env=Choosing if discrete else Picture if image else Line,
        discrete=discrete,
        data=lambda: data(image, discrete),
        episode_limit=LIMIT,
        score=success_rate,
        rewards=RewardRule(scale=10.0, shift=-5.0, failure=0.0),
        protocol=Protocol(4, 10, 4, 100, evaluation_episodes=1),
    )


def tiny_options(name: str, **changes: Any) -> Any:
    options = METHODS[name].options()
    known = vars(options)
    small = {k: v for k, v in TINY.items() if k in known and (k not in KEPT or known[k] > v)}
    return replace(options, **{**small, **changes})


def tiny(name: str, discrete: bool = False, **changes: Any) -> Method:
    return make_method(name, tiny_options(name, **changes), discrete=discrete)


def run_options(name: str, **changes: Any) -> RunOptions:
    """Tiny numbers of the run, with what the method itself sets where it is a kind and not a size."""
    sizes = {
        "seeds": SEEDS,
        "offline_updates": 4,
        "online_steps": 10,
        "evaluate_offline_every": 4,
        "evaluate_online_every": 100,
        "evaluation_episodes": 1,
        "capacity": LIMIT,
        "workers": 0,
        "update_ratio": 2,
        "updates_per_episode": 0,
        "warmup_steps": 0,
        "keep_episodes": 0,
    }
    kinds = {k: v for k, v in METHODS[name].sets.items() if k in ("mixing", "warmup_actions")}
    return RunOptions(**{**sizes, **kinds, **changes})


@cache
def logged(method: Method, image: bool = False, discrete: bool = False) -> Transitions:
    fit = Fit(data(image, discrete), task(image).rewards, 0.99)
    return prepare(method, "monte-carlo", fit).logged


def spec(image: bool = False, discrete: bool = False) -> Any:
    from calql.engine.inputs import spec_of

    return spec_of(data(image, discrete))


def same(left: Any, right: Any) -> None:
    """Every leaf equal to the last bit."""
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def close(left: Any, right: Any, tolerance: float = 2e-4) -> None:
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def noted_loops(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The lengths of the loops of updates given from now on; None for one as long as it takes."""
    given: list[int | None] = []
    original = Program.train

    def noted(program: Program, *inputs: Any, rounds: int | None) -> Any:
        given.append(rounds)
        return original(program, *inputs, rounds=rounds)

    monkeypatch.setattr(Program, "train", noted)
    return given
