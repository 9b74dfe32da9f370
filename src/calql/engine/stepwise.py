"""Collection step by step: the policy of every step has had the updates earned by the step before it.

The rows of an episode are inserted when it has ended, for only then is its return known; its updates draw
from what was there before. Until a seed's first episode has ended there is nothing to draw, and its updates
wait. A checkpoint in the middle of an episode holds its actions, which are played again from the same reset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.engine.boundary import Boundary, Env, Trajectory
from calql.engine.checkpoint import Arrays, pack, unpack
from calql.engine.collect import acts_at_random
from calql.engine.counters import Counters, Counts, Seeds
from calql.engine.episodes import COLLECT, Episode, Request
from calql.engine.plan import Plan
from calql.engine.rollout import RolloutSetup, action_key
from calql.engine.speed import Stopwatch
from calql.methods.base import Carry, Method, Policy, TimeStep
from calql.results.arms import in_words


@dataclass
class Open:
    """An episode under way."""

    env: Env
    trajectory: Trajectory


class Stepper:
    """One environment per seed, in this process; actions of all seeds are computed together on the device."""

    def __init__(self, plan: Plan, setup: RolloutSetup, counters: Counters) -> None:
        self._plan, self._options, self._setup, self._counters = plan, plan.options, setup, counters
        self._boundary = Boundary(setup.make_env, setup.step_timeout, masked=setup.masked, form=setup.form)
        self._envs: dict[int, Env] = {}
        self._open: dict[int, Open] = {}
        self._carries: Carry | None = None
        self._restored: Arrays = {}

    @property
    def open_steps(self) -> Counts:
        """Steps of each seed's episode under way."""
        lengths = np.zeros(len(self._plan.seeds), np.int64)
        for index, episode in self._open.items():
            lengths[index] = len(episode.trajectory.rewards)
        return lengths

    def step(self, who: Seeds, policies: Policy, watch: Stopwatch) -> list[Episode | None]:
        """One step of each chosen seed, counted with the updates that it earns; the episodes that ended by it."""
        begun, chosen = time.monotonic(), [int(index) for index in np.flatnonzero(who)]
        for index in chosen:
            if index not in self._open:
                self._open[index] = self._opened(index)
        actions = self._actions(who, policies)
        ended: list[Episode | None] = [None] * len(self._plan.seeds)
        for index in chosen:
            ended[index] = self._step(index, actions[index])
        watch.env_steps += len(chosen)
        watch.collecting.add(begun, time.monotonic())
        return ended

    def _opened(self, index: int) -> Open:
        if index not in self._envs:
            self._envs[index] = self._boundary.make()
        request = Request((self._plan.seeds[index], COLLECT, int(self._counters.episodes[index])))
        return Open(self._envs[index], self._boundary.reset(self._envs[index], request))

    def _step(self, index: int, action: NDArray[np.float32]) -> Episode | None:
        """The episode, where this step was its last."""
        c, episode = self._counters, self._open[index]
        timestep = len(episode.trajectory.rewards)
        if acts_at_random(self._options, c, index):
            allowed = episode.trajectory.allowed
            action = episode.trajectory.request.uniform_action(timestep, action.shape[-1], allowed)
        goes_on = self._boundary.step(episode.env, episode.trajectory, action)
        c.env_steps[index] += 1
        if c.env_steps[index] > self._options.warmup_steps:
            c.debt[index] += self._options.update_ratio
        if goes_on and timestep + 1 < self._setup.episode_limit:
            return None
        whole = self._open.pop(index).trajectory.episode()
        c.collected(index, whole.summary())
        return whole

    def _actions(self, who: Seeds, policies: Policy) -> NDArray[np.float32]:
        """[seed, action]; where a seed does not step, nothing that counts."""
        leaves, structure = jax.tree.flatten(policies)
        if self._carries is None:
            self._carries = jax.vmap(self._setup.method.start)(policies)
        like = next(iter(self._open.values())).trajectory.observations[0]
        observations = np.zeros((len(self._plan.seeds), *like.shape), like.dtype)
        rewards = np.zeros(len(self._plan.seeds), np.float32)
        keys = np.zeros((len(self._plan.seeds), 2), np.uint32)
        for index, episode in self._open.items():
            observations[index], keys[index] = episode.trajectory.observations[-1], episode.trajectory.request.key_words
            rewards[index] = episode.trajectory.rewards[-1] if episode.trajectory.rewards else 0.0
        timesteps, masks = self.open_steps.astype(np.int32), self._masks()
        act = _acting(self._setup.method, structure)  # type: ignore[arg-type]  # methods hash
        actions, self._carries = act(leaves, self._carries, observations, rewards, timesteps, keys, who, masks)
        return np.array(actions)

    def _masks(self) -> NDArray[np.bool_] | None:
        """What each seed may do [seed, choice], anything of one that does not step; None for continuous actions."""
        allowed: dict[int, Any] = {index: episode.trajectory.allowed for index, episode in self._open.items()}
        like, seeds = next(iter(allowed.values())), range(len(self._plan.seeds))
        return None if like is None else np.stack([allowed.get(index, like) for index in seeds])

    def pack(self) -> Arrays:
        """What is under way: the actions so far, where they led, and what the policies remember."""
        arrays: Arrays = {}
        for index, episode in self._open.items():
            arrays[f"{_name(index)}/actions"] = np.stack(episode.trajectory.actions)
            arrays[f"{_name(index)}/observation"] = episode.trajectory.observations[-1]
        return arrays | (pack("carries", self._carries) if self._open else {})

    def restore(self, arrays: Mapping[str, NDArray[Any]], policies: Policy) -> None:
        """Note what was under way when the checkpoint was written."""
        self._restored = {name: array for name, array in arrays.items() if name.startswith("open-")}
        if self._restored:
            self._carries = unpack("carries", arrays, jax.vmap(self._setup.method.start)(policies))

    def replay(self) -> list[str]:
        """Play it again from its reset; says where an environment came to another state."""
        notes = []
        for index in range(len(self._plan.seeds)):
            if f"{_name(index)}/actions" not in self._restored:
                continue
            self._open[index] = episode = self._opened(index)
            for action in self._restored[f"{_name(index)}/actions"]:
                self._boundary.step(episode.env, episode.trajectory, action)
            if not np.array_equal(episode.trajectory.observations[-1], self._restored[f"{_name(index)}/observation"]):
                notes.append(
                    f"{in_words(self._plan.members[index])}: the environment did not come to the same state when its "
                    f"episode was played again, so the run goes on but not as if it had never stopped"
                )
        self._restored = {}
        return notes

    def close(self) -> None:
        self._boundary.close(self._envs.values())


@lru_cache(maxsize=64)
def _acting(method: Method, structure: Any) -> Callable[..., tuple[jax.Array, Carry]]:
    """The compiled function to actions [seed, action], each by its own policy; only those who step remember."""

    def one(
        policy: Policy,
        carry: Carry,
        observation: jax.Array,
        reward: jax.Array,
        timestep: jax.Array,
        words: jax.Array,
        steps: jax.Array,
        mask: jax.Array | None,
    ) -> tuple[jax.Array, Carry]:
        before = jax.tree.map(lambda new, old: jnp.where(timestep == 0, new, old), method.start(policy), carry)
        time_step = TimeStep(observation, reward, timestep, mask)
        action, after = method.act(policy, before, time_step, action_key(words, timestep), explore=True)
        return action, jax.tree.map(lambda new, old: jnp.where(steps, new, old), after, carry)

    @jax.jit
    def act(leaves: list[jax.Array], *rest: Any) -> tuple[jax.Array, Carry]:
        return jax.vmap(one)(jax.tree.unflatten(structure, leaves), *rest)

    return act


def _name(index: int) -> str:
    return f"open-{index}"
