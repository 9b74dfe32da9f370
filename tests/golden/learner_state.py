"""The actor-critic learner's state from recorded arrays, under the names that its relatives' authors use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from replay import Recording, adam, perceptron

from calql.methods.learner import LearnerState
from calql.networks import Critics
from calql.networks.actors import TanhGaussianActor

SCALARS = ("log_std", "log_std_multiplier", "log_std_offset")  # of the policy, each where it is recorded


@dataclass(frozen=True)
class Names:
    """Where a recording keeps what: scalars, and Adam's state of each part with the prefix of its leaves."""

    temperature: str
    multiplier: str
    policy_adam: str = "policy"
    critic_adam: str = "critic"
    temperature_adam: str = ""
    multiplier_adam: str = ""
    leaves_named: bool = False  # Adam's leaves stand under the name of their network
    scalar: str = ""  # the leaf of a scalar's Adam; its own name where this is empty


def policy_of(leaves: Mapping[str, jax.Array], like: TanhGaussianActor) -> TanhGaussianActor:
    policy = eqx.tree_at(lambda p: p.network, like, perceptron(leaves, like.network))
    for name in SCALARS:
        if name in leaves:
            policy = eqx.tree_at(lambda p, name=name: getattr(p, name), policy, leaves[name])
    return policy


def critics_of(leaves: Mapping[str, jax.Array], like: Critics) -> Critics:
    return eqx.tree_at(lambda c: c.members, like, perceptron(leaves, like.members))


def state_at(recording: Recording, prefix: str, like: LearnerState, names: Names) -> LearnerState:
    """The whole state; what a recording has no arrays for stays as it is in `like`."""

    def policy(leaves: Mapping[str, jax.Array]) -> Any:
        return policy_of(_within(leaves, "policy") if names.leaves_named else leaves, like.policy)

    def critics(leaves: Mapping[str, jax.Array]) -> Any:
        return critics_of(_within(leaves, "critic") if names.leaves_named else leaves, like.critics)

    def moments(name: str, template: Any, build: Any) -> Any:
        return adam(recording.under(f"{prefix}/adam/{name}"), template, build)

    state = like._replace(
        policy=policy_of(recording.under(f"{prefix}/policy"), like.policy),
        critics=critics_of(recording.under(f"{prefix}/critic"), like.critics),
        targets=critics_of(recording.under(f"{prefix}/target_critic"), like.targets),
        policy_adam=moments(names.policy_adam, like.policy_adam, policy),
        critic_adam=moments(names.critic_adam, like.critic_adam, critics),
    )
    for field, scalar, kept in (
        ("temperature", names.temperature, names.temperature_adam),
        ("multiplier", names.multiplier, names.multiplier_adam),
    ):
        if f"{prefix}/{scalar}" in recording:
            template = getattr(like, f"{field}_adam")
            leaf = names.scalar or scalar
            found = moments(kept or scalar, template, lambda leaves, leaf=leaf: leaves[leaf])
            state = state._replace(**{f"raw_{field}": recording(f"{prefix}/{scalar}"), f"{field}_adam": found})
    return state


def _within(leaves: Mapping[str, jax.Array], name: str) -> dict[str, jax.Array]:
    return {key.removeprefix(f"{name}/"): value for key, value in leaves.items()}
