"""An exported policy is written only if it acts as ours does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.data.choices import MASK
from calql.networks import Spec
from calql.results.arms import Member
from calql.runs.artifact import LoadedPolicy
from calql.runs.export.acting import OBSERVATION
from calql.runs.export.graph import Port
from calql.runs.policy_folder import Policies
from calql.system.errors import UserError

EPISODES, STEPS = 16, 3
TOLERANCE = 1e-4  # of the width of the actions' bounds: rounding is ten times less, a mistake ten times more


def verify(
    policies: Policies,
    member: Member,
    inputs: Sequence[Port],
    play: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> float:
    """The largest difference between its actions and ours, over a few steps of a few made-up episodes."""
    ours, rng = LoadedPolicy(policies, member), np.random.default_rng(0)
    state = {port.name: np.zeros((EPISODES, *map(int, port.shape[1:])), port.dtype) for port in inputs}
    largest = 0.0
    for step in range(STEPS):
        seen, reward = _observations(policies.spec, rng), rng.normal(size=EPISODES).astype(np.float32) * (step > 0)
        mask = _mask(policies, rng)
        given = {**_inputs(policies.spec, seen), "previous_reward": reward}
        given["timestep"] = np.full(EPISODES, step, np.int32)
        given |= {} if mask is None else {MASK: mask}
        state.update({name: array for name, array in given.items() if name in state})
        found = {name: np.asarray(array) for name, array in play(state).items()}
        largest = max(largest, float(np.abs(found.pop("action") - ours(seen, reward, mask)).max()))
        state.update({name.removeprefix("next_"): array for name, array in found.items()})
    space = policies.action_space
    width = float(np.max(space.high - space.low)) if isinstance(space, spaces.Box) else 1.0
    if not largest <= TOLERANCE * width:
        raise UserError(
            f"the exported policy would act differently, by {largest:.2g}",
            where="export",
            mend="choose --to stablehlo, and report this with the run's policy folder",
        )
    return largest


def _mask(policies: Policies, rng: np.random.Generator) -> NDArray[np.bool_] | None:
    """Some actions allowed, and the first always; None for policies that are not told."""
    if not policies.description["action"].get("masked"):
        return None
    space = policies.action_space
    assert isinstance(space, spaces.Discrete)
    allowed = rng.random((EPISODES, int(space.n))) < 0.5
    allowed[:, 0] = True
    return allowed


def _observations(spec: Spec, rng: np.random.Generator) -> NDArray[Any]:
    """Such as the data might have."""
    layout, shape = spec.layout, (EPISODES, *spec.observation_shape)
    if spec.image:
        return rng.integers(0, 256, shape, np.uint8)
    if layout is not None and layout.packed:
        pictures = rng.integers(0, 256, (EPISODES, layout.pictures), np.uint8)
        numbers = rng.normal(size=(EPISODES, layout.numbers)) * spec.std + spec.mean
        return np.concatenate([pictures, numbers.astype(np.float32).view(np.uint8)], axis=1)
    normal = rng.normal(size=shape)
    return (normal * spec.std + spec.mean if spec.mean else normal).astype(np.float32)


def _inputs(spec: Spec, seen: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Observations as the exported file takes them: those of several parts by name."""
    if spec.layout is None or not spec.layout.packed:
        return {OBSERVATION: seen}
    return {f"{OBSERVATION}.{name}": part for name, part in spec.layout.apart(seen).items()}
