"""Whole episodes with a frozen policy: several at once in lockstep, each in an environment of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from calql.data.rewards import EpisodeSummary
from calql.engine.boundary import Beacon, Boundary, Env, Trajectory
from calql.engine.episodes import Episode, Request
from calql.engine.stop import Halted, Never
from calql.methods.base import Carry, Method, Policy, TimeStep
from calql.networks.acting import as_trained, for_acting
from calql.system.layout import Layout


@dataclass(frozen=True)
class RolloutSetup:
    """What a rollout needs besides the policy; travels to worker processes as it is."""

    make_env: Callable[[], Env]
    method: Method
    episode_limit: int
    step_timeout: float = 0.0  # seconds; 0: any number
    real: bool = False  # there is one environment, whoever plays
    masked: bool = False  # it has to say which actions are allowed
    form: Layout | None = None  # the named parts that its observations are to be made of


class RolloutWorker:
    """Plays requested episodes; environments are made on first use and kept."""

    def __init__(
        self, setup: RolloutSetup, asked: Callable[[], bool] = Never().asked, beacon: Beacon | None = None
    ) -> None:
        self.setup, self._asked = setup, asked
        self._boundary = Boundary(setup.make_env, setup.step_timeout, beacon, masked=setup.masked, form=setup.form)
        self._envs: list[Env] = []

    def play(self, policy: Policy, requests: Sequence[Request], *, explore: bool) -> list[Episode]:
        """One episode per request: side by side, or one after the other where there is one environment."""
        if not self.setup.real:
            return self._side_by_side(policy, requests, explore)
        return [episode for request in requests for episode in self._side_by_side(policy, [request], explore)]

    def _side_by_side(self, policy: Policy, requests: Sequence[Request], explore: bool) -> list[Episode]:
        """The numbers of a batch depend on its size in their last bits, so it keeps that size when episodes have
        ended: an episode follows from its request, the policy and how many are played with it.
        """
        prepared = jax.device_put(for_acting(policy), jax.local_devices(backend="cpu")[0])
        leaves, structure = jax.tree.flatten(prepared)
        act = _acting(self.setup.method, structure, explore)  # type: ignore[arg-type]  # methods hash
        self._look_up()
        envs = self._environments(len(requests))
        trajectories = [self._boundary.reset(env, request) for env, request in zip(envs, requests, strict=True)]
        keys = np.stack([request.key_words for request in requests])
        observations = np.stack([trajectory.observations[0] for trajectory in trajectories])
        rewards = np.zeros(len(keys), np.float32)
        carries = _carries(self.setup.method, policy, len(keys))
        going = list(range(len(requests)))
        for timestep in range(self.setup.episode_limit):
            masks = masks_of(trajectories)
            actions, carries = act(leaves, carries, observations, rewards, np.int32(timestep), keys, masks)
            chosen = np.array(actions)
            for index in going:
                if requests[index].random:
                    allowed = trajectories[index].allowed
                    chosen[index] = requests[index].uniform_action(timestep, chosen.shape[-1], allowed)
            self._look_up()
            going = [index for index in going if self._boundary.step(envs[index], trajectories[index], chosen[index])]
            if not going:
                break
            for index in going:
                observations[index], rewards[index] = (
                    trajectories[index].observations[-1],
                    trajectories[index].rewards[-1],
                )
        return [trajectory.episode() for trajectory in trajectories]

    def _look_up(self) -> None:
        """Before anything is driven: whether the run is asked to stop."""
        if self._asked():
            raise Halted

    def _environments(self, count: int) -> list[Env]:
        while len(self._envs) < count:
            self._envs.append(self._boundary.make())
        return self._envs[:count]

    def close(self) -> None:
        self._boundary.close(self._envs)
        self._envs.clear()


@dataclass(frozen=True)
class Collect:
    """A job for a worker: explore, and keep every step."""

    policy: Policy  # on the host
    requests: tuple[Request, ...]

    def __call__(self, worker: RolloutWorker) -> list[Episode]:
        return worker.play(self.policy, self.requests, explore=True)


@dataclass(frozen=True)
class Evaluate:
    """A job for a worker: act deterministically, and keep what the score needs."""

    policy: Policy
    requests: tuple[Request, ...]

    def __call__(self, worker: RolloutWorker) -> list[EpisodeSummary]:
        return [episode.summary() for episode in worker.play(self.policy, self.requests, explore=False)]


def masks_of(trajectories: Sequence[Trajectory]) -> np.ndarray | None:
    """What may be done in each environment [environment, choice]; None for continuous actions."""
    allowed = [trajectory.allowed for trajectory in trajectories]
    return None if allowed[0] is None else np.stack([mask for mask in allowed if mask is not None])


def policy_of(policies: Policy, index: int) -> Policy:
    """One policy of stacked ones [seed, ...]; a copy, which does not keep the others."""
    return jax.tree.map(lambda leaf: leaf[index].copy(), policies)


@partial(jax.jit, static_argnums=(0, 2))
def _carries(method: Method, policy: Policy, width: int) -> Carry:
    """[environment, ...] at the start of an episode."""
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], width, axis=0), method.start(policy))


def action_key(words: jax.Array, timestep: jax.Array) -> jax.Array:
    """The key of one action of an episode."""
    return jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), timestep)


@lru_cache(maxsize=64)
def _acting(method: Method, structure: Any, explore: bool) -> Callable[..., tuple[jax.Array, Carry]]:
    """The compiled function from observations [environment, ...] to actions [environment, action].

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
        masks: jax.Array | None,
    ) -> tuple[jax.Array, Carry]:
        policy = as_trained(jax.tree.unflatten(structure, leaves))

        def one(
            carry: Carry, observation: jax.Array, reward: jax.Array, words: jax.Array, mask: jax.Array | None
        ) -> tuple[jax.Array, Carry]:
            time_step = TimeStep(observation, reward, timestep, mask)
            return method.act(policy, carry, time_step, action_key(words, timestep), explore=explore)

        return jax.vmap(one)(carries, observations, rewards, keys, masks)

    return jax.jit(act)
