"""What is exported: a policy as one function of arrays, in the units of the environment, for any number of episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from gymnasium import spaces
from jax.interpreters import partial_eval

from calql.data.choices import MASK
from calql.methods.base import TimeStep
from calql.networks import Spec
from calql.networks.acting import in_float32
from calql.results.arms import Member
from calql.runs.export.graph import BATCH
from calql.runs.policy_folder import Policies
from calql.runs.spaces import ActionSpace

STATE, NEXT_STATE = "state.", "next_state."  # before the names of what a policy remembers
OBSERVATION = "observation"  # and with a dot, before the names of its parts


@dataclass(frozen=True)
class Acting:
    """`function(*arrays)` gives the action and what the policy then remembers, with a leading axis of episodes."""

    function: Callable[..., tuple[jax.Array, ...]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    like: tuple[jax.ShapeDtypeStruct, ...]  # of the inputs; the number of episodes is a symbol
    observed: int  # how many of the inputs, which come first, are observations


def acting(policies: Policies, member: Member) -> Acting:
    """Of one policy: the mode of its actor, or whatever its method plays when it does not explore.

    Inputs that the policy does not look at (time step and reward, of most) are left out.
    """
    whole = _whole(policies, member)
    closed = jax.make_jaxpr(whole.function)(*whole.like)
    _, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(whole.outputs))
    kept = [place for place, needed in enumerate(used) if needed or place < whole.observed]

    def function(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        count = arrays[0].shape[0]
        given = dict(zip(kept, arrays, strict=True))
        missing = (jnp.zeros((count, *each.shape[1:]), each.dtype) for each in whole.like)
        return whole.function(*(given.get(place, zero) for place, zero in enumerate(missing)))

    names, like = tuple(whole.inputs[place] for place in kept), tuple(whole.like[place] for place in kept)
    return Acting(function, names, whole.outputs, like, whole.observed)


def _whole(policies: Policies, member: Member) -> Acting:
    """With every input that a method may ask for."""
    method, space = policies.method, policies.action_space
    choices = int(space.n) if isinstance(space, spaces.Discrete) else 0
    masked = bool(policies.description["action"].get("masked"))
    parameters = jax.tree.map(jnp.asarray, in_float32(policies.of_member[member]))
    start = method.start(parameters)
    leaves, structure = jax.tree.flatten(start)

    seen = observation_inputs(policies.spec)

    def act(*given: jax.Array) -> Any:
        """A new episode starts afresh, whatever state is given with its first step."""
        parts, (reward, timestep, *rest) = given[: len(seen)], given[len(seen) :]
        named = {name.removeprefix(f"{OBSERVATION}."): part for name, part in zip(seen, parts, strict=True)}
        observation: Any = parts[0] if OBSERVATION in seen else named
        allowed, state = (rest[0], rest[1:]) if masked else (jnp.ones(choices, bool) if choices else None, rest)
        fresh = [jnp.where(timestep == 0, new, old) for new, old in zip(leaves, state, strict=True)]
        step = TimeStep(observation, reward, timestep, allowed)
        action, then = method.act(
            parameters, jax.tree.unflatten(structure, fresh), step, jax.random.key(0), explore=False
        )
        return in_units(space, action), *jax.tree.leaves(then)

    (batch,) = jax.export.symbolic_shape(BATCH)
    rows = [*seen.values(), ((), jnp.float32), ((), jnp.int32)]
    rows += [((choices,), jnp.bool_)] if masked else []
    rows += [(leaf.shape, leaf.dtype) for leaf in leaves]
    named = _names(start)
    return Acting(
        jax.vmap(act),
        (*seen, "previous_reward", "timestep", *((MASK,) if masked else ()), *(STATE + name for name in named)),
        ("action", *(NEXT_STATE + name for name in named)),
        tuple(jax.ShapeDtypeStruct((batch, *shape), dtype) for shape, dtype in rows),
        len(seen),
    )


def observation_inputs(spec: Spec) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and type of each input that is an observation: one, or one for each part of packed ones."""
    if spec.layout is None or not spec.layout.packed:
        return {OBSERVATION: (spec.observation_shape, jnp.uint8 if spec.image else jnp.float32)}
    kinds = {True: jnp.uint8, False: jnp.float32}
    return {f"{OBSERVATION}.{piece.name}": (piece.shape, kinds[piece.image]) for piece in spec.layout.pieces}


def in_units(space: ActionSpace, action: jax.Array) -> jax.Array:
    """From [-1, 1] to the bounds of the environment's actions, or from one-hot to their numbers, as in collection."""
    if isinstance(space, spaces.Discrete):
        return jnp.argmax(action).astype(jnp.int32) + jnp.int32(space.start)
    scaled = space.low + (action + 1.0) * 0.5 * (space.high - space.low)
    return jnp.clip(scaled, space.low, space.high).astype(jnp.float32)


def _names(start: Any) -> Sequence[str]:
    paths = jax.tree_util.tree_leaves_with_path(start)
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
