"""Cal-QL and CQL once more, written from the paper's formulas with arrays alone: no code of the package.

Parameters are dictionaries of lists of (kernel [input, output], bias) pairs; Adam and tanh-Gaussian are by hand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Params = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    calibrate: bool
    dual: bool
    importance: bool
    widths: tuple[int, ...] = (16, 16)
    batch: int = 64
    samples: int = 4
    discount: float = 0.9
    policy_rate: float = 1e-3
    critic_rate: float = 3e-3
    target_rate: float = 0.05
    weight: float = 1.0
    gap: float = 0.8


@dataclass(frozen=True)
class Data:
    observations: jax.Array
    actions: jax.Array
    rewards: jax.Array
    next_observations: jax.Array
    terminals: jax.Array
    returns: jax.Array  # discounted, to the end of the episode


def walks(discount: float, episodes: int = 30, steps: int = 12) -> Data:
    """Along a line in steps that the first action decides, at -1 a step; the end pays 1."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-0.9, 0.9, (episodes, steps, 2))
    places = np.cumsum(np.concatenate([rng.uniform(-1, 1, (episodes, 1)), 0.3 * actions[..., 0]], 1), 1)
    seen = np.stack([places, np.broadcast_to(np.arange(steps + 1) / steps, places.shape)], -1)
    rewards = np.full((episodes, steps), -1.0)
    rewards[:, -1] = 1.0
    terminals = np.zeros((episodes, steps))
    terminals[:, -1] = 1.0
    returns = np.zeros((episodes, steps))
    total = np.zeros(episodes)
    for step in reversed(range(steps)):
        total = rewards[:, step] + discount * total
        returns[:, step] = total
    flat = (seen[:, :-1].reshape(-1, 2), actions.reshape(-1, 2), rewards.ravel(), seen[:, 1:].reshape(-1, 2))
    return Data(*(jnp.asarray(column, jnp.float32) for column in (*flat, terminals.ravel(), returns.ravel())))


def train(settings: Settings, data: Data, seeds: int, updates: int) -> tuple[Params, dict[str, jax.Array]]:
    """Of each seed: parameters after so many updates, and what was measured in each of them [seed, update]."""

    def one(key: jax.Array) -> tuple[Params, dict[str, jax.Array]]:
        key_start, key_train = jax.random.split(key)
        params = _start(settings, data, key_start)
        zeros = jax.tree.map(jnp.zeros_like, params)
        begin = (params, {name: params[name] for name in ("q1", "q2")}, zeros, zeros, jnp.array(0))
        (params, *_), measured = jax.lax.scan(
            partial(_step, settings, data), begin, jax.random.split(key_train, updates)
        )
        return params, measured

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), seeds))


def q_of(network: Any, observations: jax.Array, actions: jax.Array) -> jax.Array:
    return _forward(network, jnp.concatenate([observations, actions], -1))[..., 0]


def _start(settings: Settings, data: Data, key: jax.Array) -> Params:
    state, action = data.observations.shape[1], data.actions.shape[1]
    keys = jax.random.split(key, 3)
    critic = (state + action, *settings.widths, 1)
    return {
        "policy": {
            "network": _network(keys[0], (state, *settings.widths, 2 * action)),
            "scale": jnp.array(1.0),
            "offset": jnp.array(-1.0),
        },
        "q1": _network(keys[1], critic),
        "q2": _network(keys[2], critic),
        "log_alpha": jnp.array(0.0),
        "log_alpha_prime": jnp.array(1.0),
    }


def _network(key: jax.Array, sizes: tuple[int, ...]) -> list[tuple[jax.Array, jax.Array]]:
    """Orthogonal kernels of gain sqrt(2), of 0.01 at the output; no biases to begin with."""
    gains = [np.sqrt(2.0)] * (len(sizes) - 2) + [0.01]
    keys = jax.random.split(key, len(gains))
    make = [jax.nn.initializers.orthogonal(gain) for gain in gains]
    shapes = list(itertools.pairwise(sizes))
    return [(each(k, shape), jnp.zeros(shape[1])) for each, k, shape in zip(make, keys, shapes, strict=True)]


def _forward(network: Any, x: jax.Array) -> jax.Array:
    for kernel, bias in network[:-1]:
        x = jnp.maximum(x @ kernel + bias, 0.0)
    kernel, bias = network[-1]
    return x @ kernel + bias


def _draw(policy: Any, observations: jax.Array, key: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Actions [batch, count, action] and their log-densities."""
    mean, raw = jnp.split(_forward(policy["network"], observations), 2, -1)
    log_std = jnp.clip(policy["scale"] * raw + policy["offset"], -20.0, 2.0)
    noise = jax.random.normal(key, (count, *mean.shape))
    actions = jnp.tanh(mean + jnp.exp(log_std) * noise)
    gaussian = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
    density = jnp.sum(gaussian - jnp.log(1.0 - actions**2 + 1e-9), -1)
    return jnp.swapaxes(actions, 0, 1), jnp.swapaxes(density, 0, 1)


def _step(settings: Settings, data: Data, carry: Any, key: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
    params, targets, first, second, count = carry
    keys = jax.random.split(key, 6)
    rows = jax.random.randint(keys[0], (settings.batch,), 0, len(data.rewards))
    s, a, r, s2, done, g = (column[rows] for column in vars(data).values())
    n = settings.samples
    ways = jnp.repeat(s[:, None], n, 1)

    ahead, _ = _draw(params["policy"], s2, keys[1], n)
    there = jnp.repeat(s2[:, None], n, 1)
    least = jnp.minimum(q_of(targets["q1"], there, ahead), q_of(targets["q2"], there, ahead))
    y = r + settings.discount * (1.0 - done) * least.max(1)

    dim = a.shape[1]
    uniform = jax.random.uniform(keys[2], (settings.batch, n, dim), minval=-1.0, maxval=1.0)
    here, here_density = _draw(params["policy"], s, keys[3], n)
    after, after_density = _draw(params["policy"], s2, keys[4], n)
    strength = settings.weight * (jnp.exp(params["log_alpha_prime"]) if settings.dual else 1.0)
    margin = settings.gap if settings.dual else 0.0

    def critic_loss(network: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        q = q_of(network, s, a)
        q_uniform, q_here, q_after = (q_of(network, ways, actions) for actions in (uniform, here, after))
        bound = jnp.mean(q_here < g[:, None])
        if settings.calibrate:
            q_here, q_after = jnp.maximum(q_here, g[:, None]), jnp.maximum(q_after, g[:, None])
        if settings.importance:
            terms = [q_uniform + dim * jnp.log(2.0), q_after - after_density, q_here - here_density]
        else:
            terms = [q_uniform, q[:, None], q_after, q_here]
        difference = jnp.mean(jnp.log(jnp.sum(jnp.exp(jnp.concatenate(terms, 1)), 1)) - q)
        return jnp.mean((q - y) ** 2) + strength * (difference - margin), (bound, difference)

    def policy_loss(policy: Any) -> tuple[jax.Array, jax.Array]:
        actions, density = _draw(policy, s, keys[5], 1)
        value = jnp.minimum(q_of(params["q1"], s, actions[:, 0]), q_of(params["q2"], s, actions[:, 0]))
        return jnp.mean(jnp.exp(params["log_alpha"]) * density[:, 0] - value), jnp.mean(density)

    (_, (bound, one)), of_q1 = jax.value_and_grad(critic_loss, has_aux=True)(params["q1"])
    (_, (_, other)), of_q2 = jax.value_and_grad(critic_loss, has_aux=True)(params["q2"])
    (_, density), of_policy = jax.value_and_grad(policy_loss, has_aux=True)(params["policy"])
    excess = 0.5 * settings.weight * (one + other - 2.0 * settings.gap)
    gradients = {
        "policy": of_policy,
        "q1": of_q1,
        "q2": of_q2,
        "log_alpha": -(density - dim),
        "log_alpha_prime": -jnp.exp(params["log_alpha_prime"]) * excess if settings.dual else jnp.array(0.0),
    }
    slow, fast = settings.policy_rate, settings.critic_rate
    rates = {"policy": slow, "q1": fast, "q2": fast, "log_alpha": slow, "log_alpha_prime": fast}
    count = count + 1
    first = jax.tree.map(lambda m, d: 0.9 * m + 0.1 * d, first, gradients)
    second = jax.tree.map(lambda v, d: 0.999 * v + 0.001 * d**2, second, gradients)
    moved = {
        name: jax.tree.map(
            lambda p, m, v, rate=rates[name]: (
                p - rate * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
            ),
            params[name],
            first[name],
            second[name],
        )
        for name in params
    }
    rate = settings.target_rate
    targets = {
        name: jax.tree.map(lambda new, old: rate * new + (1 - rate) * old, moved[name], old)
        for name, old in targets.items()
    }
    measured = {
        "bound_rate": bound,
        "conservative_gap": 0.5 * (one + other),
        "entropy": -density,
        "alpha": jnp.exp(params["log_alpha"]),
        "alpha_prime": jnp.exp(params["log_alpha_prime"]),
    }
    return (moved, targets, first, second, count), measured
