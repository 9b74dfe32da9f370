"""Whole episodes with a frozen policy: many lanes in lockstep, each with an environment of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from calql.errors import UserError
from calql.methods.base import Carry, Method, Moment, Policy
from calql.tasks.base import EpisodeSummary


@dataclass(frozen=True)
class Request:
    """One episode: whose policy plays, and the number that decides its start and its noise."""

    lane: int  # index of the policy among the stacked ones
    entropy: tuple[int, ...]  # seed of the run, purpose, episode number
    random: bool = False  # uniform actions in place of the policy's

    @property
    def env_seed(self) -> int:
        return int(np.random.SeedSequence(self.entropy).generate_state(1)[0])


@dataclass
class Episode:
    """What was seen, in the environment's rewards and the policy's actions ([-1, 1])."""

    observations: list[np.ndarray] = field(default_factory=list)  # one more than actions
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminal: bool = False
    success: bool = False

    def summary(self) -> EpisodeSummary:
        return EpisodeSummary(
            total=float(np.sum(self.rewards)),
            last_reward=float(self.rewards[-1]),
            length=len(self.rewards),
            success=self.success,
        )


@dataclass(frozen=True)
class Stage:
    """What a rollout needs besides the policies; travels to worker processes as it is."""

    make_env: Callable[[], gymnasium.Env[Any, Any]]
    method: Method
    episode_limit: int


class Player:
    """Plays requested episodes; environments are made on first use and kept."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._envs: list[gymnasium.Env[Any, Any]] = []

    def play(self, policies: Policy, requests: Sequence[Request], *, explore: bool) -> list[Episode]:
        """One episode per request. `policies` are stacked [policy, ...]; lanes are [policy, slot]."""
        count = jax.tree.leaves(policies)[0].shape[0]
        slots, width = _assign(requests, count)
        envs = self._environments(len(requests))
        episodes = [Episode() for _ in requests]
        for env, episode, request in zip(envs, episodes, requests, strict=True):
            episode.observations.append(_reset(env, request.env_seed))
        keys = np.zeros((count, width, 2), np.uint32)
        for request, slot in zip(requests, slots, strict=True):
            keys[slot] = np.random.SeedSequence(request.entropy).generate_state(2)
        sample = episodes[0].observations[0]
        observations = np.zeros((count, width, *sample.shape), sample.dtype)
        rewards = np.zeros((count, width), np.float32)
        carries = _start(self.stage.method, policies, width)
        open_lanes = list(range(len(requests)))
        for timestep in range(self.stage.episode_limit):
            for lane in open_lanes:
                observations[slots[lane]] = episodes[lane].observations[-1]
                rewards[slots[lane]] = episodes[lane].rewards[-1] if timestep else 0.0
            actions, carries = _act(
                self.stage.method, explore, policies, carries, observations, rewards, np.int32(timestep), keys
            )
            chosen = np.array(actions)
            for lane in open_lanes:
                if requests[lane].random:
                    chosen[slots[lane]] = _uniform(requests[lane], timestep, chosen.shape[-1])
            open_lanes = [lane for lane in open_lanes if _step(envs[lane], episodes[lane], chosen[slots[lane]])]
            if not open_lanes:
                break
        return episodes

    def _environments(self, count: int) -> list[gymnasium.Env[Any, Any]]:
        while len(self._envs) < count:
            try:
                self._envs.append(self.stage.make_env())
            except Exception as error:
                raise _env_error("cannot be made", error) from error
        return self._envs[:count]

    def close(self) -> None:
        for env in self._envs:
            env.close()
        self._envs.clear()


def _assign(requests: Sequence[Request], count: int) -> tuple[list[tuple[int, int]], int]:
    """A slot (policy, position) for each request, and how many positions that takes."""
    used = [0] * count
    slots = []
    for request in requests:
        slots.append((request.lane, used[request.lane]))
        used[request.lane] += 1
    return slots, max(used)


def _uniform(request: Request, timestep: int, dim: int) -> np.ndarray:
    """A uniform action that follows from the request and the step."""
    return np.random.default_rng([*request.entropy, timestep]).uniform(-1.0, 1.0, dim).astype(np.float32)


@partial(jax.jit, static_argnums=(0, 2))
def _start(method: Method, policies: Policy, width: int) -> Carry:
    """Carries [policy, slot, ...] at the start of an episode."""
    carry = jax.vmap(method.start)(policies)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], width, axis=1), carry)


@partial(jax.jit, static_argnums=(0, 1))
def _act(
    method: Method,
    explore: bool,
    policies: Policy,
    carries: Carry,
    observations: jax.Array,
    rewards: jax.Array,
    timestep: jax.Array,
    keys: jax.Array,
) -> tuple[jax.Array, Carry]:
    """Actions [policy, slot, action] for observations [policy, slot, ...]."""

    def lane(policy: Policy, carry: Carry, observation: jax.Array, reward: jax.Array, words: jax.Array):  # type: ignore[no-untyped-def]
        key = jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), timestep)
        return method.act(policy, carry, Moment(observation, reward, timestep), key, explore=explore)

    over_slots = jax.vmap(lane, in_axes=(None, 0, 0, 0, 0))
    return jax.vmap(over_slots)(policies, carries, observations, rewards, keys)


def _reset(env: gymnasium.Env[Any, Any], seed: int) -> np.ndarray:
    try:
        observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise _env_error("raised in reset()", error) from error
    return as_observation(observation)


def _step(env: gymnasium.Env[Any, Any], episode: Episode, action: np.ndarray) -> bool:
    """Step one environment and note what it said; whether the episode goes on."""
    try:
        observation, reward, terminated, truncated, info = env.step(to_env_action(env.action_space, action))
    except Exception as error:
        raise _env_error(f"raised in step() after {len(episode.rewards)} steps", error) from error
    episode.observations.append(as_observation(observation))
    episode.actions.append(np.array(action, np.float32))
    episode.rewards.append(float(reward))
    episode.terminal = bool(terminated)
    episode.success |= bool(info.get("success", info.get("is_success", False)))
    return not (terminated or truncated)


def to_env_action(space: gymnasium.Space[Any], action: np.ndarray) -> np.ndarray:
    """From [-1, 1] to the bounds of the environment's actions."""
    assert isinstance(space, gymnasium.spaces.Box)
    scaled = space.low + (action + 1.0) * 0.5 * (space.high - space.low)
    return np.clip(scaled, space.low, space.high).astype(space.dtype)


def as_observation(observation: Any) -> np.ndarray:
    """float32, or uint8 for images."""
    array = np.asarray(observation)
    return array if array.dtype == np.uint8 else array.astype(np.float32)


def _env_error(what: str, error: Exception) -> UserError:
    return UserError(
        f"the environment {what}: {type(error).__name__}: {error}",
        mend="the last checkpoint is kept: mend the environment, then go on with --resume",
    )
