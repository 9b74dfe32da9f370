"""Whole episodes with a frozen policy: a few lanes in lockstep, each with an environment of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.engine.stop import Halted, Never
from calql.errors import UserError
from calql.methods.base import Carry, Method, Moment, Policy
from calql.networks.acting import as_trained, for_acting
from calql.tasks.base import EpisodeSummary


@dataclass(frozen=True)
class Request:
    """One episode: the numbers that decide its start and its noise."""

    entropy: tuple[int, ...]  # seed of the run, purpose, episode number
    random: bool = False  # uniform actions in place of the policy's

    @property
    def env_seed(self) -> int:
        return int(np.random.SeedSequence(self.entropy).generate_state(1)[0])

    @property
    def key_words(self) -> NDArray[np.uint32]:
        """The key from which the noise of its actions follows."""
        return np.random.SeedSequence(self.entropy).generate_state(2).astype(np.uint32)

    def uniform_action(self, timestep: int, dim: int) -> NDArray[np.float32]:
        """What is done at a step in place of the policy's action."""
        return np.random.default_rng([*self.entropy, timestep]).uniform(-1.0, 1.0, dim).astype(np.float32)


@dataclass(frozen=True)
class Episode:
    """What was seen, in the environment's rewards and the policy's actions ([-1, 1])."""

    observations: NDArray[Any]  # [step + 1, ...]
    actions: NDArray[np.float32]  # [step, action]
    rewards: NDArray[np.float64]  # [step]
    terminal: bool
    success: bool

    def summary(self) -> EpisodeSummary:
        return EpisodeSummary(
            total=float(np.sum(self.rewards)),
            last_reward=float(self.rewards[-1]),
            length=len(self.rewards),
            success=self.success,
        )


@dataclass
class Track:
    """An episode that is still being played."""

    observations: list[NDArray[Any]] = field(default_factory=list)  # one more than actions
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminal: bool = False
    success: bool = False

    def episode(self) -> Episode:
        """As it stands, in whole arrays: quick to send to another process."""
        rewards = np.array(self.rewards, np.float64)
        return Episode(np.stack(self.observations), np.stack(self.actions), rewards, self.terminal, self.success)


@dataclass(frozen=True)
class Stage:
    """What a rollout needs besides the policy; travels to worker processes as it is."""

    make_env: Callable[[], gymnasium.Env[Any, Any]]
    method: Method
    episode_limit: int


class Player:
    """Plays requested episodes; environments are made on first use and kept."""

    def __init__(self, stage: Stage, asked: Callable[[], bool] = Never().asked) -> None:
        self.stage, self._asked = stage, asked
        self._envs: list[gymnasium.Env[Any, Any]] = []

    def play(self, policy: Policy, requests: Sequence[Request], *, explore: bool) -> list[Episode]:
        """One episode per request, side by side.

        The numbers of a batch depend on its size in their last bits, so it keeps that size when lanes have
        ended: an episode follows from its request, the policy and how many are played with it.
        """
        prepared = jax.device_put(for_acting(policy), jax.local_devices(backend="cpu")[0])
        leaves, structure = jax.tree.flatten(prepared)
        act = _acting(self.stage.method, structure, explore)  # type: ignore[arg-type]  # methods hash
        if self._asked():
            raise Halted
        envs = self._environments(len(requests))
        tracks = [Track([reset_env(env, request.env_seed)]) for env, request in zip(envs, requests, strict=True)]
        keys = np.stack([request.key_words for request in requests])
        observations = np.stack([track.observations[0] for track in tracks])
        rewards = np.zeros(len(keys), np.float32)
        carries = _carries(self.stage.method, policy, len(keys))
        going = list(range(len(requests)))
        for timestep in range(self.stage.episode_limit):
            if self._asked():
                raise Halted
            actions, carries = act(leaves, carries, observations, rewards, np.int32(timestep), keys)
            chosen = np.array(actions)
            for lane in going:
                if requests[lane].random:
                    chosen[lane] = requests[lane].uniform_action(timestep, chosen.shape[-1])
            going = [lane for lane in going if step_env(envs[lane], tracks[lane], chosen[lane])]
            if not going:
                break
            for lane in going:
                observations[lane], rewards[lane] = tracks[lane].observations[-1], tracks[lane].rewards[-1]
        return [track.episode() for track in tracks]

    def _environments(self, count: int) -> list[gymnasium.Env[Any, Any]]:
        while len(self._envs) < count:
            self._envs.append(make_env(self.stage))
        return self._envs[:count]

    def close(self) -> None:
        for env in self._envs:
            env.close()
        self._envs.clear()


@dataclass(frozen=True)
class Collect:
    """A job for a player: explore, and keep every step."""

    policy: Policy  # on the host
    requests: tuple[Request, ...]

    def __call__(self, player: Player) -> list[Episode]:
        return player.play(self.policy, self.requests, explore=True)


@dataclass(frozen=True)
class Evaluate:
    """A job for a player: act deterministically, and keep what the score needs."""

    policy: Policy
    requests: tuple[Request, ...]

    def __call__(self, player: Player) -> list[EpisodeSummary]:
        return [episode.summary() for episode in player.play(self.policy, self.requests, explore=False)]


def lane(policies: Policy, index: int) -> Policy:
    """One policy of stacked ones [seed, ...]; a copy, which does not keep the others."""
    return jax.tree.map(lambda leaf: leaf[index].copy(), policies)


@partial(jax.jit, static_argnums=(0, 2))
def _carries(method: Method, policy: Policy, width: int) -> Carry:
    """[lane, ...] at the start of an episode."""
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], width, axis=0), method.start(policy))


def action_key(words: jax.Array, timestep: jax.Array) -> jax.Array:
    """The key of one action of an episode."""
    return jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), timestep)


@lru_cache(maxsize=64)
def _acting(method: Method, structure: Any, explore: bool) -> Callable[..., tuple[jax.Array, Carry]]:
    """The compiled function from observations [lane, ...] to actions [lane, action].

    It takes the policy as leaves: taking the modules of a policy apart anew would cost more than a small
    policy itself.
    """

    def act(
        leaves: list[jax.Array],
        carries: Carry,
        observations: jax.Array,
        rewards: jax.Array,
        timestep: jax.Array,
        keys: jax.Array,
    ) -> tuple[jax.Array, Carry]:
        policy = as_trained(jax.tree.unflatten(structure, leaves))

        def one(carry: Carry, observation: jax.Array, reward: jax.Array, words: jax.Array) -> tuple[jax.Array, Carry]:
            moment = Moment(observation, reward, timestep)
            return method.act(policy, carry, moment, action_key(words, timestep), explore=explore)

        return jax.vmap(one)(carries, observations, rewards, keys)

    return jax.jit(act)


def make_env(stage: Stage) -> gymnasium.Env[Any, Any]:
    try:
        return stage.make_env()
    except Exception as error:
        raise _env_error("cannot be made", error) from error


def reset_env(env: gymnasium.Env[Any, Any], seed: int) -> np.ndarray:
    try:
        observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise _env_error("raised in reset()", error) from error
    return as_observation(observation)


def step_env(env: gymnasium.Env[Any, Any], track: Track, action: np.ndarray) -> bool:
    """Step one environment and note what it said; whether the episode goes on."""
    try:
        observation, reward, terminated, truncated, info = env.step(to_env_action(env.action_space, action))
    except Exception as error:
        raise _env_error(f"raised in step() after {len(track.rewards)} steps", error) from error
    track.observations.append(as_observation(observation))
    track.actions.append(np.array(action, np.float32))
    track.rewards.append(float(reward))
    track.terminal = bool(terminated)
    track.success |= bool(info.get("success", info.get("is_success", False)))
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
