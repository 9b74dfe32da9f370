"""Algorithm 2: fitted Q-iteration on aggregated data, conservative and calibrated; and its ablations.

One loop serves every variant. What differs between them is data, not code (`Rules`): how far the fit is
lowered, how high the class reaches, and how low calibration lets it fall. Hy-Q is the loop with all three
idle, so variants can be mapped over like seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from calql.theory.conditions import Instance
from calql.theory.mdp import MDP, greedy_value, one_hot_greedy, policy_value
from calql.theory.regression import Data, Transition, draw

TOLERANCE = 1e-4
"""Single-precision slack of the comparisons f <= Q* and f <= Q^ref."""


class Rules(eqx.Module):
    """What makes one variant of the algorithm."""

    pessimism: Float[Array, ""]
    """Widths ||phi||_{Lambda^-1} taken off the least-squares fit: 0 is plain least squares."""
    ceiling: Float[Array, "h s a"]
    """Upper end of the class: Q* for the class of the theorem, the largest return H - h otherwise."""
    floor: Float[Array, "h s a"]
    """Q^ref where line 9 calibrates, 0 where it is left out."""


@dataclass(frozen=True)
class Variant:
    """Which parts of Algorithm 2 are on."""

    label: str
    calibrate: bool
    conservative: bool
    oracle_class: bool = False
    """Use the class of Assumption H.1 itself, {f <= Q*}, which no real learner knows."""


VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        "cal-ql": Variant("Cal-QL (Algorithm 2)", calibrate=True, conservative=True),
        "no-calibration": Variant("conservative only", calibrate=False, conservative=True),
        "no-conservatism": Variant("calibrated only", calibrate=True, conservative=False),
        "hy-q": Variant("Hy-Q (neither)", calibrate=False, conservative=False),
        "cal-ql-oracle": Variant("Cal-QL, class {f ≤ Q*}", calibrate=True, conservative=False, oracle_class=True),
    }
)


def rules(variant: Variant, instance: Instance, pessimism: float) -> Rules:
    """The rules of a variant on an instance."""
    best = instance.optimal_q
    largest = jnp.broadcast_to(jnp.arange(best.shape[0], 0, -1.0)[:, None, None], best.shape)
    return Rules(
        pessimism=jnp.asarray(pessimism if variant.conservative else 0.0),
        ceiling=best if variant.oracle_class else largest,
        floor=instance.reference_q if variant.calibrate else jnp.zeros_like(best),
    )


def fitted_q(data: tuple[Data, ...], rule: Rules) -> Float[Array, "h s a"]:
    """Lines 6-10: conservative least squares backward over the steps, then f = max(f, Q^ref)."""
    horizon, states, _ = rule.floor.shape
    next_value = jnp.zeros(states)
    table = []
    for h in reversed(range(horizon)):
        estimate, width = data[h].fit(next_value)
        conservative = jnp.clip(estimate - rule.pessimism * width, 0.0, rule.ceiling[h])
        f = jnp.maximum(conservative, rule.floor[h])
        next_value = f.max(axis=-1)
        table.append(f)
    return jnp.stack(table[::-1])


def rollout(mdp: MDP, policy: Float[Array, "h s a"], key: Key[Array, ""]) -> list[Transition]:
    """One episode: at every step one tuple distributed as d_h^policy (m_on = 1)."""
    uniform = jax.random.uniform(key, (mdp.horizon + 1, 2))
    cumulative = jnp.cumsum(mdp.transition, axis=-1)
    state = draw(jnp.cumsum(mdp.start), uniform[-1, 0])
    steps = []
    for h in range(mdp.horizon):
        action = jnp.argmax(policy[h, state])
        reward = (uniform[h, 0] < mdp.reward_mean[h, state, action]).astype(policy.dtype)
        next_state = draw(cumulative[h, state, action], uniform[h, 1])
        steps.append(Transition(state, action, reward, next_state))
        state = next_state
    return steps


class Episode(NamedTuple):
    """What is measured of iterate k, all of it exact."""

    value: Float[Array, ""]
    """E_rho V^{pi^k}"""
    promised: Float[Array, ""]
    """E_rho max_a f_0^k"""
    held_by_reference: Float[Array, ""]
    """Probability under rho that the promise is the reference's own, max_a Q^ref (the paper's K_2)."""
    not_pessimistic: Float[Array, ""]
    """Share of the table where f^k > Q*, against Assumption H.1."""


def fine_tune(
    instance: Instance,
    rule: Rules,
    data: tuple[Data, ...],
    episodes: Int[Array, ""] | int,
    key: Key[Array, ""],
    *,
    buffer: int,
) -> Episode:
    """Algorithm 2 from its offline data on: `episodes` iterations, measured at each.

    `episodes` may be traced, so one compilation serves every K up to `buffer`; what lies past it is zero.
    """

    def iterate(k: Array, carry: tuple[tuple[Data, ...], Array, Episode]) -> tuple[tuple[Data, ...], Array, Episode]:
        gathered, f, record = carry
        policy = one_hot_greedy(f)
        measured = _measure(instance, f, policy)
        record = jax.tree.map(lambda column, entry: column.at[k].set(entry), record, measured)
        seen = rollout(instance.mdp, policy, jax.random.fold_in(key, k))
        gathered = tuple(step.add(transition) for step, transition in zip(gathered, seen, strict=True))
        return gathered, fitted_q(gathered, rule), record

    empty = Episode(*(jnp.zeros(buffer) for _ in Episode._fields))
    first = jnp.zeros_like(rule.floor)  # line 2
    return jax.lax.fori_loop(0, episodes, iterate, (data, first, empty))[2]


def _measure(instance: Instance, f: Float[Array, "h s a"], policy: Float[Array, "h s a"]) -> Episode:
    mdp = instance.mdp
    held = f[0].max(axis=-1) <= instance.reference_q[0].max(axis=-1) + TOLERANCE
    return Episode(
        value=policy_value(mdp, policy),
        promised=greedy_value(mdp, f),
        held_by_reference=mdp.start @ held.astype(f.dtype),
        not_pessimistic=(f > instance.optimal_q + TOLERANCE).astype(f.dtype).mean(),
    )
