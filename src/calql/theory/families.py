"""Families of MDPs with a known optimum: random and structured, tabular and linear.

A family draws one instance from a key. `random-tabular` and `chain` are tabular; `random-linear` and `lock`
are linear in few features, so their bilinear rank is far below the number of states times actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from calql.theory.mdp import MDP

HORIZON = 6
ACTIONS = 3
STATES = 8
RANDOM_FEATURES = 6
CHAIN_LENGTH = 5

Family = Callable[[Key[Array, ""]], MDP]


def random_tabular(key: Key[Array, ""]) -> MDP:
    """No structure at all: uneven random transitions, uniform mean rewards, anew at every step."""
    start_key, transition_key, reward_key = jax.random.split(key, 3)
    shape = (HORIZON, STATES, ACTIONS)
    return MDP(
        start=_distribution(start_key, (STATES,)),
        transition=_distribution(transition_key, (*shape, STATES)),
        reward_mean=jax.random.uniform(reward_key, shape),
    )


def random_linear(key: Key[Array, ""]) -> MDP:
    """A linear MDP: each state and action mixes `RANDOM_FEATURES` hidden causes of reward and next state.

    Each cause has one state and action that is that cause alone (an anchor). Hence f = features @ theta lies
    between two linear functions everywhere exactly when theta lies between their weights.
    """
    start_key, mix_key, anchor_key, next_key, reward_key = jax.random.split(key, 5)
    mixed = _distribution(mix_key, (STATES * ACTIONS, RANDOM_FEATURES))
    anchors = jax.random.permutation(anchor_key, STATES * ACTIONS)[:RANDOM_FEATURES]
    features = mixed.at[anchors].set(jnp.eye(RANDOM_FEATURES)).reshape(STATES, ACTIONS, RANDOM_FEATURES)
    next_of_cause = _distribution(next_key, (HORIZON, RANDOM_FEATURES, STATES))
    reward_of_cause = jax.random.uniform(reward_key, (HORIZON, RANDOM_FEATURES))
    return _linear_mdp(_distribution(start_key, (STATES,)), features, next_of_cause, reward_of_cause)


def chain(key: Key[Array, ""]) -> MDP:
    """A narrow good path: one action of each state moves right, every other falls back to the start.

    The last state pays 1 while one stays; falling back pays a small certain-looking reward, which draws a
    learner that has not yet seen the end.
    """
    slip_key, lure_key, label_key = jax.random.split(key, 3)
    forward = jax.random.uniform(slip_key, minval=0.85, maxval=1.0)
    lure = jax.random.uniform(lure_key, minval=0.02, maxval=0.12)
    right = jax.random.randint(label_key, (CHAIN_LENGTH,), 0, ACTIONS)
    positions = jnp.arange(CHAIN_LENGTH)
    is_right = jnp.arange(ACTIONS) == right[:, None]  # [s, a]
    onward = jax.nn.one_hot(jnp.minimum(positions + 1, CHAIN_LENGTH - 1), CHAIN_LENGTH)
    stay = jax.nn.one_hot(positions, CHAIN_LENGTH)
    moved = forward * onward + (1 - forward) * stay
    fallen = jnp.broadcast_to(jax.nn.one_hot(0, CHAIN_LENGTH), moved.shape)
    transition = jnp.where(is_right[..., None], moved[:, None], fallen[:, None])
    at_end = (positions == CHAIN_LENGTH - 1)[:, None]
    reward = jnp.where(is_right, jnp.where(at_end, 1.0, 0.0), lure)
    return MDP(
        start=jax.nn.one_hot(0, CHAIN_LENGTH),
        transition=jnp.broadcast_to(transition, (HORIZON, *transition.shape)),
        reward_mean=jnp.broadcast_to(reward, (HORIZON, *reward.shape)),
    )


def combination_lock(key: Key[Array, ""]) -> MDP:
    """Two good hidden states and a dead one, seen through many states; the right action changes every step.

    The right action of either good state leads to one of the two, any other to the dead state for ever; the
    last right action opens the lock (mean reward 0.9). The first wrong action pays a small lure at once.
    Linear in hidden state x action: 9 features for 24 states x actions.
    """
    code_key, lure_key, split_key = jax.random.split(key, 3)
    lure = jax.random.uniform(lure_key, minval=0.02, maxval=0.12)
    to_first = jax.random.uniform(split_key, (HORIZON,), minval=0.3, maxval=0.7)
    code = jax.random.randint(code_key, (HORIZON, 2), 0, ACTIONS)
    is_right = jnp.arange(ACTIONS) == code[..., None]  # [h, good, a]
    is_right = jnp.concatenate([is_right, jnp.zeros((HORIZON, 1, ACTIONS), bool)], axis=1)  # [h, hidden, a]
    good = jnp.stack([to_first, 1 - to_first, jnp.zeros(HORIZON)], axis=-1)  # [h, hidden]
    next_hidden = jnp.where(is_right[..., None], good[:, None, None], jnp.array([0.0, 0.0, 1.0]))
    opens = jnp.where(jnp.arange(HORIZON) == HORIZON - 1, 0.9, 0.0)[:, None, None]
    is_good = jnp.array([True, True, False])[:, None]
    reward = jnp.where(is_right, opens, jnp.where(is_good, lure, 0.0))
    hidden_of_state = jnp.array([0, 0, 0, 1, 1, 1, 2, 2])
    emission = jax.nn.one_hot(hidden_of_state, 3)
    emission = (emission / emission.sum(axis=0)).T  # [hidden, s]
    features = jnp.einsum("sz,ab->sazb", jax.nn.one_hot(hidden_of_state, 3), jnp.eye(ACTIONS))
    return _linear_mdp(
        jnp.array([0.5, 0.5, 0.0]) @ emission,
        features.reshape(STATES, ACTIONS, 3 * ACTIONS),
        (next_hidden @ emission).reshape(HORIZON, 3 * ACTIONS, STATES),
        reward.reshape(HORIZON, 3 * ACTIONS),
    )


def near_ties(key: Key[Array, ""], budget: Float[Array, ""] | int) -> MDP:
    """Rewards that differ by no more than a multiple of budget ** -0.5: the hard case for that budget.

    On a fixed instance the gaps between actions are fixed and regret may stop growing; the square root is a
    bound over instances, and it is met where gaps shrink as fast as budget episodes can tell them apart.
    """
    base = random_tabular(key)
    spread = 2.0 / jnp.sqrt(budget)
    return MDP(base.start, base.transition, 0.5 + spread * (base.reward_mean - 0.5))


def _distribution(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, " ..."]:
    """Random distributions over the last axis, uneven enough that a few outcomes carry most of each."""
    return jax.nn.softmax(2.0 * jax.random.normal(key, shape), axis=-1)


def _linear_mdp(
    start: Float[Array, " s"],
    features: Float[Array, "s a d"],
    next_of_feature: Float[Array, "h d s"],
    reward_of_feature: Float[Array, "h d"],
) -> MDP:
    return MDP(
        start=start,
        transition=jnp.einsum("sad,hdn->hsan", features, next_of_feature),
        reward_mean=jnp.einsum("sad,hd->hsa", features, reward_of_feature),
        features=features,
    )


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "random-tabular": random_tabular,
        "random-linear": random_linear,
        "chain": chain,
        "lock": combination_lock,
    }
)
