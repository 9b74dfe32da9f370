"""How far Q, dQ/da and the policy are from float64 in each precision, on recorded observations.

    CALQL_SHARED_DATA=FOLDER python docs/figures/input_error.py [STEPS]

Networks of the task's size, fitted for STEPS steps (2,000; 0: as they start) to what the recordings earn and do, each
of their steps costing 5. `rounded inputs` is bfloat16 as it was: inputs and first weights rounded as well; `rounded
weights` is what splitting the inputs alone would give, `float64 of rounded inputs` what their rounding alone does. A
CPU rounds here where a GPU's library does; TF32, which it does not have, is made of rounded operands. The fused kernels
are interpreted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

os.environ["XLA_FLAGS"] = "--xla_allow_excess_precision=false"  # else XLA leaves out some of the roundings on a CPU
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from calql.networks import MLP, Critics, Identity, Style, mlp, q_values
from calql.networks.actors import TanhGaussianActor
from calql.networks.kernels import fused
from calql.networks.products import product, product_of_inputs

try:
    from jax.experimental.pallas.mosaic_gpu import InterpretGPUParams
except ImportError:  # before jax 0.11
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
PAIRS, FUSED_PAIRS, DISCOUNT, COST = 1_024, 128, 0.99, 5.0
KEY = jax.random.key(0)
Doubles = NDArray[np.float64]


class Case(NamedTuple):
    files: tuple[str, ...]
    policy_widths: tuple[int, ...]
    critic_widths: tuple[int, ...]


CASES = {
    "AntMaze": Case(
        ("d4rl_slices/antmaze-large-diverse-v0.npz", "d4rl_slices/antmaze-large-play-v0.npz"), (256,) * 2, (256,) * 4
    ),
    "Adroit door": Case(("adroit_door_human/door_human_v0.npz",), (512,) * 2, (512,) * 3),
    "kitchen": Case(("kitchen/kitchen_complete_d4rl_layout.npz",), (512,) * 3, (512,) * 3),
}


class Rows(NamedTuple):
    """Consecutive steps: what is at an index and what follows it."""

    observations: NDArray[np.float32]
    following: NDArray[np.float32]
    actions: NDArray[np.float32]
    values: NDArray[np.float32]


class Networks(NamedTuple):
    critics: Critics
    policy: TanhGaussianActor


class Found(NamedTuple):
    """Of the rows: Q, its change to the next step, dQ/da, and what the policy says."""

    q: Doubles
    change: Doubles
    slope: Doubles
    mean: Doubles
    log_std: Doubles


def main() -> None:
    for name, case in CASES.items():
        rows = recorded(case)
        networks = fitted(made(case, rows), rows)
        picked = np.random.default_rng(1).choice(len(rows.values), PAIRS, replace=False)
        some = Rows(*(column[picked] for column in rows))
        few = Rows(*(column[:FUSED_PAIRS] for column in some))
        true, true_few = exact(networks, some), exact(networks, few)
        rounding = np.abs(some.observations - some.observations.astype(jnp.bfloat16).astype(np.float32))
        print(f"\n{name}: {len(rows.values)} steps; bfloat16 rounds observations by {rounding.max():.3g} at most")
        print("| | Q | Q(s') - Q(s) | dQ/da | policy's mean | its log std |\n|---|---|---|---|---|---|")
        print(f"| float64 of rounded inputs | {' | '.join(errors(exact(networks, rounded_rows(some)), true))} |")
        for label, ours in variants(networks):
            print(f"| {label} | {' | '.join(errors(ours(some), true))} |")
        if fused.obstacle("bfloat16", case.critic_widths, layer_norm=False) is None:
            for label, rounded in (("fused, rounded inputs", True), ("fused, now", False)):
                print(
                    f"| {label} | {' | '.join(errors(by_kernels(networks, few, rounded=rounded), true_few)[:3])} | | |"
                )


def errors(ours: Found, true: Found) -> list[str]:
    """Root mean square, relative to the spread of what is true; of differences and slopes, to their size."""
    scales = [np.std(true.q), rms(true.change), rms(true.slope), np.std(true.mean), np.std(true.log_std)]
    return [f"{100 * rms(a - b) / scale:.2g}%" for a, b, scale in zip(ours, true, scales, strict=True)]


def rms(values: Doubles) -> float:
    return float(np.sqrt(np.mean(values**2)))


# -- recordings and networks ------------------------------------------------------------------------------


def recorded(case: Case) -> Rows:
    folder = Path(os.environ["CALQL_SHARED_DATA"])
    parts = []
    for file in case.files:
        with np.load(folder / file) as arrays:
            ends = arrays["terminals"] | arrays.get("timeouts", False)
            observations, actions = arrays["observations"], np.clip(arrays["actions"], -1.0, 1.0)
        ends[-1] = True
        remaining = np.array([np.argmax(ends[row:]) for row in range(len(ends))])
        values = -COST * (1.0 - DISCOUNT**remaining) / (1.0 - DISCOUNT)
        at = np.flatnonzero(remaining > 0)
        parts.append(Rows(observations[at], observations[at + 1], actions[at], values[at].astype(np.float32)))
    return Rows(*(np.concatenate(columns).astype(np.float32) for columns in zip(*parts, strict=True)))


def made(case: Case, rows: Rows, precision: Any = "float32") -> Networks:
    features, actions = rows.observations.shape[1], rows.actions.shape[1]
    style = Style(precision=precision, output_gain=1.0)
    shape = Identity(), features, actions
    return Networks(
        Critics(*shape, case.critic_widths, count=2, key=KEY, style=style),
        TanhGaussianActor(*shape, case.policy_widths, key=KEY, style=style),
    )


def fitted(networks: Networks, rows: Rows) -> Networks:
    optimiser = optax.adam(3e-4)

    def loss(networks: Networks, batch: Rows) -> jax.Array:
        q = q_values(networks.critics, batch.observations, batch.actions)
        said = networks.policy(batch.observations)
        off = (batch.actions - jnp.tanh(said.mean)) / jnp.exp(said.log_std)
        return jnp.mean((q - batch.values) ** 2) + jnp.mean(0.5 * off**2 + said.log_std)

    def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
        networks, adam = carry
        chosen = jax.random.randint(key, (256,), 0, len(rows.values))
        gradient = jax.grad(loss)(networks, Rows(*(jnp.asarray(column)[chosen] for column in rows)))
        change, adam = optimiser.update(gradient, adam)
        return (eqx.apply_updates(networks, change), adam), None

    start = networks, optimiser.init(eqx.filter(networks, eqx.is_array))
    trained, _ = jax.jit(lambda start: lax.scan(step, start, jax.random.split(KEY, STEPS)))(start)
    return Networks(*trained[0])


# -- the same numbers in float64 --------------------------------------------------------------------------


def exact(networks: Networks, rows: Rows) -> Found:
    now, then = (np.concatenate([seen, rows.actions], -1) for seen in (rows.observations, rows.following))
    members = [jax.tree.map(lambda leaf, i=i: leaf[i], networks.critics.members) for i in range(2)]
    q, slopes = (np.stack(parts) for parts in zip(*(in_doubles(member, now) for member in members), strict=True))
    later = np.stack([in_doubles(member, then)[0] for member in members])
    policy = networks.policy
    mean, raw = np.split(in_doubles(policy.network, rows.observations)[0], 2, -1)
    log_std = np.clip(float(policy.log_std_multiplier) * raw + float(policy.log_std_offset), *policy.log_std_range)
    return Found(q[..., 0], (later - q)[..., 0], slopes[..., -rows.actions.shape[1] :], mean, log_std)


def in_doubles(network: MLP, x: NDArray[np.float32]) -> tuple[Doubles, Doubles]:
    """The output, and the gradient of its first entry to the inputs."""
    layers = [(np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)) for layer in network.hidden]
    values, masks = x.astype(np.float64), []
    for weight, bias in layers:
        values = values @ weight.T + bias
        masks.append(values > 0)
        values = np.where(masks[-1], values, 0.0)
    weight, bias = (np.asarray(leaf, np.float64) for leaf in (network.output.weight, network.output.bias))
    gradient = np.broadcast_to(weight[0], values.shape)
    for (kernel, _), mask in zip(layers[::-1], masks[::-1], strict=True):
        gradient = np.where(mask, gradient, 0.0) @ kernel
    return values @ weight.T + bias, gradient


# -- in each precision ------------------------------------------------------------------------------------


def variants(networks: Networks) -> Iterator[tuple[str, Callable[[Rows], Found]]]:
    def plain(precision: Any) -> Callable[[Rows], Found]:
        given = with_precision(networks, precision)
        return lambda rows: found(given, q_values, rows)

    yield "bfloat16, rounded inputs", patched(plain("bfloat16"), **as_it_was())
    yield "bfloat16, rounded weights", patched(plain("bfloat16"), **with_coarse_weights())
    yield "**bfloat16**", plain("bfloat16")
    yield "**tf32**", patched(plain("tf32"), product=lambda x, w, p: _tf32(x, w) if p == "tf32" else product(x, w, p))
    yield "**float32**", plain("float32")


def found(networks: Networks, q: Callable[..., jax.Array], rows: Rows) -> Found:
    def all_of(networks: Networks, rows: Rows) -> tuple[jax.Array, ...]:
        values, back = jax.vjp(lambda actions: q(networks.critics, rows.observations, actions), rows.actions)
        one = jnp.zeros_like(values)
        slopes = jnp.stack([back(one.at[member].set(1.0))[0] for member in range(2)])
        said = networks.policy(rows.observations)
        return values, q(networks.critics, rows.following, rows.actions) - values, slopes, said.mean, said.log_std

    return Found(*(np.asarray(part, np.float64) for part in jax.jit(all_of)(networks, Rows(*map(jnp.asarray, rows)))))


def by_kernels(networks: Networks, rows: Rows, *, rounded: bool) -> Found:
    given = with_precision(networks, "bfloat16")
    if rounded:
        where = lambda n: (n.critics.members.hidden[0].weight, n.critics.members.hidden[0].bias)  # noqa: E731
        given = eqx.tree_at(where, given, tuple(coarse(leaf) for leaf in where(given)))
        rows = rounded_rows(rows)
    how = {"programs": 1, "interpret": InterpretGPUParams()}
    return found(given, lambda critics, *pairs: fused.q_of_pairs(critics.members, *pairs, **how), rows)


def with_precision(networks: Networks, precision: Any) -> Networks:
    """The same parameters in another precision."""
    first = networks.critics.members.hidden[0].weight
    actions = networks.policy.network.output.weight.shape[0] // 2
    empty = np.zeros((1, first.shape[-1] - actions), np.float32), np.zeros((1, actions), np.float32)
    widths = [
        tuple(layer.weight.shape[-2] for layer in n.hidden) for n in (networks.policy.network, networks.critics.members)
    ]
    like = made(Case((), *widths), Rows(empty[0], empty[0], empty[1], np.zeros(1, np.float32)), precision)
    return jax.tree.unflatten(jax.tree.structure(like), jax.tree.leaves(networks))


def rounded_rows(rows: Rows) -> Rows:
    return Rows(*(np.asarray(coarse(jnp.asarray(column))) for column in rows))


def coarse(x: jax.Array, mantissa: int = 7) -> jax.Array:
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=mantissa)


def patched(run: Callable[[Rows], Found], **names: Any) -> Callable[[Rows], Found]:
    """With other functions in place of the perceptron's own."""

    def with_patch(rows: Rows) -> Found:
        with mock.patch.multiple(mlp, **names):
            return run(rows)

    return with_patch


def as_it_was() -> dict[str, Any]:
    """First layers that round inputs, weights and products to bfloat16. What comes to others is bfloat16 already."""
    affine = mlp._affine

    def first(layer: Any, x: jax.Array, precision: Any, *rest: Any, **more: Any) -> jax.Array:
        if x.dtype == jnp.float32:
            return affine(layer, x, "bfloat16", *rest, **more).astype(jnp.float32)
        return affine(layer, x, precision, *rest, **more)

    return {"_affine": first, "product_of_inputs": product}


def with_coarse_weights() -> dict[str, Any]:
    affine = mlp._affine

    def first(layer: Any, x: jax.Array, *rest: Any, **more: Any) -> jax.Array:
        return affine(jax.tree.map(coarse, layer) if x.dtype == jnp.float32 else layer, x, *rest, **more)

    return {"_affine": first, "product_of_inputs": lambda x, w, p: product_of_inputs(x, coarse(w), p)}


@jax.custom_vjp
def _tf32(x: jax.Array, weight: jax.Array) -> jax.Array:
    return product(coarse(x, 10), coarse(weight, 10), "float32")


def _tf32_forward(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _tf32(x, weight), weight


def _tf32_backward(weight: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of the weights nothing is asked here."""
    return product(coarse(gradient, 10), coarse(weight, 10).T, "float32"), jnp.zeros_like(weight)


_tf32.defvjp(_tf32_forward, _tf32_backward)


if __name__ == "__main__":
    main()
