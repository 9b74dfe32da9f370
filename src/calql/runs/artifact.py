"""The policy of a run as a function: observations in, actions of the environment out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from calql.data.choices import MASK
from calql.data.dictionaries import rows_of, stacked
from calql.engine.boundary import as_observation, not_finite, to_env_action
from calql.methods.base import Method, Policy, TimeStep
from calql.networks.acting import in_float32
from calql.results.arms import Member, in_words, named, place_of_arm
from calql.runs.folder import require_begun
from calql.runs.policy_folder import DESCRIPTION, Choose, Policies, read_policies
from calql.runs.trust import trust_run
from calql.system.errors import UserError
from calql.system.layout import Layout
from calql.system.run_files import POLICY


class LoadedPolicy:
    """A trained policy that acts: call it with each observation of an episode, and `reset()` it between episodes.

    Many observations at once, with a leading axis, are those of as many episodes side by side. Observations of several
    named parts are a dictionary (or a list of them), as the environment gives them. Discrete actions are
    whole numbers; where some are forbidden, say which are not with `mask`, or give the environment's dictionary of
    `observation` and `action_mask` as it is.
    """

    def __init__(self, policies: Policies, member: Member, *, explore: bool = False) -> None:
        method: Method = policies.method
        self.member, self.description = member, policies.description
        self._method, self._space, self._shape = method, policies.action_space, policies.spec.observation_shape
        self._form = policies.spec.layout
        on_host = in_float32(policies.of_member[member])  # as it was evaluated
        self._parameters: Policy = jax.device_put(on_host, jax.local_devices(backend="cpu")[0])

        def act(parameters: Policy, carry: Any, time_step: TimeStep, key: jax.Array) -> tuple[jax.Array, Any]:
            return method.act(parameters, carry, time_step, key, explore=explore)

        self._act = {False: _drawing(act), True: _drawing(jax.vmap(act, in_axes=(None, 0, 0, 0)))}
        self._key = np.array([0, named(member)["seed"]], np.uint32)  # the words of jax.random.key(seed)
        self.reset()

    def __repr__(self) -> str:
        of = self.description
        return f"<LoadedPolicy {of['method']} on {of['task']}, {in_words(self.member)}>"

    def reset(self, which: ArrayLike | None = None) -> None:
        """A new episode begins; of many side by side, for those alone that `which` [episode] says are over."""
        if which is None or self._count is None:
            self._count: int | None = None
            self._timestep: Any = np.int32(0)  # or [episode], as the memory
            self._carry = self._method.start(self._parameters)
            return
        over = np.asarray(which, bool)
        if over.shape != (self._count,):
            raise UserError(
                f"`which` has shape {over.shape} and there are {self._count} episodes",
                where="policy.reset",
                mend="give one True or False for each",
            )
        fresh = self._side_by_side(self._count)
        self._carry = jax.tree.map(
            lambda new, old: jnp.where(over.reshape(-1, *(1,) * (old.ndim - 1)), new, old), fresh, self._carry
        )
        self._timestep = np.where(over, 0, self._timestep).astype(np.int32)

    def __call__(self, observation: Any, reward: ArrayLike = 0.0, mask: ArrayLike | None = None) -> Any:
        """The action for an observation, or the actions [episode, ...] for observations [episode, ...].

        UserError where either is not a number: it must not reach an actuator. The reward of the step before matters
        only to policies that remember (the decision transformer).
        """
        observation, mask = _parts(observation, mask)
        seen = self._array(self._in_form(observation))
        count = self._episodes(seen)
        allowed = self._allowed(mask, count)
        earned = np.asarray(reward, np.float32)
        self._require_finite("the observation", *self._numbers(seen))
        self._require_finite("the reward", earned.reshape(-1))
        timestep, carry = self._taken_up(count)
        earned = earned if count is None else np.broadcast_to(earned, (count,))
        time_step = TimeStep(seen, earned, timestep, allowed)  # type: ignore[arg-type]  # the device takes them so
        action, carry, following = self._act[count is not None](self._parameters, carry, time_step, self._key)
        self._require_finite("the action of this policy", np.asarray(action))
        self._key, self._count = np.asarray(following), count
        self._carry, self._timestep = carry, timestep + np.int32(1)
        return to_env_action(self._space, np.asarray(action))

    def _array(self, observation: Any) -> NDArray[Any]:
        try:
            return as_observation(observation)
        except (TypeError, ValueError) as error:
            raise self._unfit(str(error), "give an array of numbers") from None

    def _in_form(self, observation: Any) -> Any:
        """A dictionary, or several, as rows of what the policy was trained on; an array as it is."""
        if isinstance(observation, list | tuple) and observation and isinstance(observation[0], Mapping):
            observation = stacked(observation)
        named = None if self._form is None else ", ".join(self._form.names)
        if not isinstance(observation, Mapping):
            if self._form is not None and self._form.packed and np.asarray(observation).dtype != np.uint8:
                raise self._unfit("it is one array", f"give a dictionary of {named}")
            return observation
        if self._form is None:
            raise self._unfit("it is a dictionary, and the policy was trained on one array", "give that array")
        try:
            return rows_of(observation, self._form)
        except (KeyError, ValueError) as error:
            raise self._unfit(str(error), f"give a dictionary of {named}: {self._form}") from None

    def _unfit(self, what: str, mend: str) -> UserError:
        return UserError(f"the observation does not fit: {what}", where=self._where, mend=mend)

    def _numbers(self, seen: NDArray[Any]) -> tuple[NDArray[Any], Layout | None]:
        """What of observations might not be finite, and what it is packed with."""
        if self._form is None or not self._form.packed:
            return seen, None
        return self._form.vectors_of(seen), self._form

    def _allowed(self, mask: ArrayLike | None, count: int | None) -> NDArray[np.bool_] | None:
        """What may be chosen, [choice] or [episode, choice]; None for continuous actions."""
        if not isinstance(self._space, spaces.Discrete):
            return None
        shape = (int(self._space.n),) if count is None else (count, int(self._space.n))
        if mask is None and self.description["action"].get("masked"):
            raise UserError(
                "this policy has to be told which actions are allowed",
                where=self._where,
                mend="give the environment's action_mask: policy(observation, mask=info['action_mask'])",
            )
        allowed = np.ones(shape, bool) if mask is None else np.asarray(mask, bool)
        if allowed.shape != shape or not allowed.any(axis=-1).all():
            raise UserError(
                f"the mask has shape {allowed.shape} and allows {int(allowed.sum())} actions",
                where=self._where,
                mend=f"give one flag for each of {shape[-1]} actions, of which at least one is allowed",
            )
        return allowed

    def _episodes(self, seen: NDArray[Any]) -> int | None:
        """How many observations these are; None for one without a leading axis."""
        if seen.shape == self._shape:
            return None
        if seen.ndim and seen.shape[1:] == self._shape and len(seen):
            return len(seen)
        raise UserError(
            f"the observation has shape {seen.shape}, not {self._shape}",
            where=self._where,
            mend=f"give one observation, or several as [episode, {', '.join(map(str, self._shape))}]",
        )

    def _taken_up(self, count: int | None) -> tuple[Any, Any]:
        """Time step and memory to go on from, for so many episodes."""
        begun = bool(np.any(self._timestep))
        if count == self._count and (begun or count is not None):
            return self._timestep, self._carry
        if begun and jax.tree.leaves(self._carry):
            before = "one episode" if self._count is None else f"{self._count} episodes"
            raise UserError(
                f"the policy remembers {before}, and these observations are of {1 if count is None else count}",
                where=self._where,
                mend="call reset() before the number of episodes changes",
            )
        if count is None:
            return np.int32(0), self._method.start(self._parameters)
        return np.zeros(count, np.int32), self._side_by_side(count)

    def _side_by_side(self, count: int) -> Any:
        start = self._method.start(self._parameters)
        return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], count, axis=0), start)

    @property
    def _where(self) -> str:
        return f"policy, step {int(np.max(self._timestep)) + 1}"

    def _require_finite(self, what: str, numbers: NDArray[Any], layout: Layout | None = None) -> None:
        if not np.isfinite(numbers).all():
            raise UserError(
                f"{what} holds {not_finite(numbers, layout)}",
                where=self._where,
                mend="stop the system and look at its sensors, or load another run's policy",
            )


def _parts(observation: Any, mask: ArrayLike | None) -> tuple[Any, ArrayLike | None]:
    """An environment's dictionary as its observation and its mask."""
    if not isinstance(observation, Mapping) or MASK not in observation:
        return observation, mask
    rest = {name: part for name, part in observation.items() if name != MASK}
    return (next(iter(rest.values())) if len(rest) == 1 else rest), observation[MASK]


def _drawing(act: Callable[..., tuple[jax.Array, Any]]) -> Callable[..., tuple[jax.Array, Any, jax.Array]]:
    """Compiled with the drawing of its keys, which would be programs of their own: a policy is soon ready."""

    def acted(
        parameters: Policy, carry: Any, time_step: TimeStep, words: jax.Array
    ) -> tuple[jax.Array, Any, jax.Array]:
        following, key = jax.random.split(jax.random.wrap_key_data(words, impl="threefry2x32"))
        keys = jax.random.split(key, len(time_step.timestep)) if time_step.timestep.ndim else key
        return *act(parameters, carry, time_step, keys), jax.random.key_data(following)

    return jax.jit(acted)


def load_policy(
    folder: str | Path, *, seed: int | None = None, arm: str | None = None, explore: bool = False, trust: bool = False
) -> LoadedPolicy:
    """The policy of a run's last checkpoint, of its first seed unless another is named; of a sweep, of the named arm.

    `folder` is a run folder, or the folder `policy` of one, wherever it was copied to: neither data nor environment are
    needed. With `explore` actions are drawn as in collection. A run of before, without `policy`, is built again from
    its checkpoint; there `trust` says that the environment which it names may be imported.
    """
    if trust and not (Path(folder) / DESCRIPTION).is_file():
        trust_run(folder)
    policies = policies_of(Path(folder), lambda members: [chosen_member(members, seed, arm, str(folder))])
    return LoadedPolicy(policies, next(iter(policies.of_member)), explore=explore)


def chosen_member(members: Sequence[Member], seed: int | None, arm: str | None, where: str) -> Member:
    """The one of a run that is meant."""
    arms = list(dict.fromkeys(member[0] for member in members if not isinstance(member, int)))
    first = place_of_arm(arms, arm, where) * (len(members) // max(len(arms), 1))
    if seed is None:
        return members[first]
    seeds = list(dict.fromkeys(named(member)["seed"] for member in members))
    if seed not in seeds:
        raise UserError(f"the run has no seed {seed}", where=where, mend=f"its seeds: {seeds}")
    return members[first + seeds.index(seed)]


def policies_of(folder: Path, choose: Choose = tuple) -> Policies:
    """Those of a run folder or a policy folder."""
    for place in (folder, folder / POLICY):
        if (place / DESCRIPTION).is_file():
            return read_policies(place, choose)
    require_begun(folder)
    from calql.runs.older import policies_of_checkpoint  # with all that training needs

    return policies_of_checkpoint(folder, choose)
