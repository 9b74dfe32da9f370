"""The fused critics, interpreted on the CPU: the numbers of the plain path, forwards and backwards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.pallas.mosaic.interpret import thread_map
from jax.sharding import Mesh
from toy_task import spec, tiny

from calql.engine.devices import SEED, Shards
from calql.networks import Critics, Identity, Style, q_values
from calql.networks.kernels import fused, warpgroups, wide
from calql.networks.products import halves

pytestmark = pytest.mark.slow

try:
    from jax.experimental.pallas.mosaic_gpu import InterpretGPUParams
except ImportError:  # before jax 0.11
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

INTERPRETED = InterpretGPUParams()
FEATURES, ACTION = 5, 3
KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _a_kernel_is_compiled_once() -> Iterator[None]:
    """The interpreter compiles it in every warpgroup of every program, which takes most of its time."""
    one_at_a_time, compiled = Lock(), WeakKeyDictionary[Any, Any]()

    def interpreted(jaxpr: Any, consts: Any, *inputs: Any) -> None:
        with one_at_a_time:
            if jaxpr not in compiled:
                run = jax.jit(partial(jax.core.eval_jaxpr, jaxpr))
                compiled[jaxpr] = run.lower(consts, *inputs).compile()
        compiled[jaxpr](consts, *inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thread_map, "_run_jaxpr", interpreted)
        yield


def critics(
    precision: Any, widths: tuple[int, ...] = (128, 128), action: int = ACTION, count: int = 2, **options: Any
) -> Critics:
    style = Style(precision=precision, output_gain=1.0)
    return Critics(Identity(), FEATURES, action, widths, count=count, key=KEY, style=style, **options)


def pairs(batch: int, samples: int, action: int = ACTION) -> tuple[jax.Array, jax.Array]:
    features = jax.random.normal(jax.random.key(1), (batch, FEATURES))
    return features, jax.random.uniform(jax.random.key(2), (batch, samples, action), minval=-1.0)


def fused_q(critics: Critics, features: jax.Array, actions: jax.Array, programs: int = 1) -> jax.Array:
    """Interpreted, which takes time in proportion to the programs that run side by side."""
    return fused.q_of_pairs(critics.members, features, actions, programs=programs, interpret=INTERPRETED)


def distance(x: Any, y: Any) -> float:
    """Relative, over all leaves."""
    both = [jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)]) for tree in (x, y)]
    return float(jnp.linalg.norm(both[0] - both[1]) / jnp.linalg.norm(both[1]))


@pytest.mark.parametrize(
    ("batch", "samples", "widths", "action"),
    [
        (4, 31, (128, 128), ACTION),
        (7, 3, (256, 256, 256), ACTION),
        (5, 26, (128, 128), 70),
        (7, 3, (512, 512, 512), ACTION),
        (5, 26, (512, 512), 70),
    ],
)
def test_as_close_to_float32_as_the_plain_path(batch: int, samples: int, widths: tuple[int, ...], action: int) -> None:
    """Q to within 1%, gradients to within 10%, and none twice as far off as plain bfloat16's.

    How far is a matter of the few units that their rounding switches, which are not the same.
    """
    features, actions = pairs(batch, samples, action)
    count = 1 if widths[0] == 512 else 2  # interpreting wide layers takes long
    weights = jax.random.uniform(jax.random.key(3), (count, batch, samples))

    def both(q: Any, precision: str) -> tuple[Any, Any]:
        ours = critics(precision, widths, action, count)

        def loss(*inputs: Any) -> tuple[jax.Array, jax.Array]:
            found = q(*inputs)
            return jnp.sum(weights * found**2), found

        gradients, found = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(ours, features, actions)
        return found, gradients

    exact, plain, kernel = both(q_values, "float32"), both(q_values, "bfloat16"), both(fused_q, "bfloat16")
    assert distance(kernel[0], exact[0]) < 0.01
    for ours, coarse, true in zip(kernel[1], plain[1], exact[1], strict=True):
        assert distance(ours, true) < 2.0 * distance(coarse, true)
        assert distance(ours, true) < 0.1


@pytest.mark.parametrize("width", [128, 512])
def test_seeds_side_by_side_are_each_alone(width: int) -> None:
    features, actions = pairs(4, 5)
    count = 2 if width == 128 else 1  # interpreting wide layers takes long
    one = critics("bfloat16", (width, width), count=count)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 2.0 * leaf]), one)

    def gradient(one: Critics) -> Any:
        return jax.grad(lambda ours: jnp.sum(fused_q(ours, features, actions, programs=2)))(one)

    together = jax.vmap(gradient)(stacked)
    for index in range(2) if width == 128 else [1]:
        alone = gradient(jax.tree.map(lambda leaf: leaf[index], stacked))  # noqa: B023
        assert distance(jax.tree.map(lambda leaf: leaf[index], together), alone) < 1e-5  # noqa: B023


def test_seeds_in_the_program_of_a_mesh() -> None:
    """Lowered and not run: the interpreter's programs wait for each other across devices."""
    features, actions = pairs(4, 5)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 2.0 * leaf]), critics("bfloat16"))
    mesh = Shards(Mesh(np.array(jax.local_devices()[:1]), (SEED,)))

    def gradients(of_seeds: Critics) -> Any:
        return jax.vmap(jax.grad(lambda ours: jnp.sum(fused_q(ours, features, actions))))(of_seeds)

    lowered = jax.jit(lambda of_seeds: mesh.each(gradients, of_seeds)).lower(stacked)
    assert jax.tree.map(jnp.shape, lowered.out_info) == jax.tree.map(jnp.shape, stacked)


def test_an_ensemble_of_ten_wide_critics() -> None:
    """As RLPD and WSRL have, but for the layer norm: each of them."""
    features, actions = pairs(6, 2)
    ours, exact = (critics(precision, (512, 512), count=10) for precision in ("bfloat16", "float32"))
    for q, true in zip(fused_q(ours, features, actions), q_values(exact, features, actions), strict=True):
        assert distance(q, true) < 0.01


@pytest.mark.parametrize("width", [128, 512])
def test_one_action_for_each_state(width: int) -> None:
    """As the policy's loss asks: Q and what it gives back to the actions."""
    features, actions = pairs(6, 1)

    def both(picked: jax.Array) -> tuple[jax.Array, jax.Array]:
        def total(inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
            q = fused_q(critics("bfloat16", (width, width)), features, inputs)
            return jnp.sum(q**2), q

        gradient, q = jax.grad(total, has_aux=True)(picked)
        return q, gradient

    (q, of_action), (q_samples, of_samples) = both(actions[:, 0]), both(actions)
    np.testing.assert_array_equal(q, q_samples[..., 0])
    np.testing.assert_array_equal(of_action, of_samples[:, 0])
    assert distance(q, q_values(critics("float32", (width, width)), features, actions[:, 0])) < 0.01


def test_states_close_together_far_from_the_origin_are_told_apart() -> None:
    """64 of them 16 mm apart at 30 m, where bfloat16 has nine numbers."""
    features = jnp.zeros((64, FEATURES)).at[:, 0].set(30.0 + jnp.arange(64) / 64.0)
    q = fused_q(critics("bfloat16"), features, jnp.full((64, ACTION), 0.5))
    assert len(np.unique(np.asarray(q[0]))) > 30


@pytest.mark.parametrize(("width", "action"), [(128, ACTION), (128, 70), (512, ACTION)])
def test_digits_of_inputs_and_weights_reach_the_first_layer_and_come_back(width: int, action: int) -> None:
    """With inputs and weights that bfloat16 does not have: what is lost is what hidden units lose."""
    features, actions = 30.0 + jax.random.uniform(jax.random.key(1), (8, FEATURES)), pairs(8, 1, action)[1][:, 0]
    weight = 1.0 + 2.0**-9 * jax.random.uniform(KEY, (2, width, FEATURES + action))
    weight = weight.at[..., 1].set(-weight[..., 0])  # the difference of two inputs, a hundredth of them
    weight = weight.at[..., 2:].multiply(0.01)
    ours = critics("bfloat16", (width, width), action)
    eye, ones = jnp.tile(jnp.eye(width), (2, 1, 1)), jnp.ones((2, 1, width)) / width
    where = lambda c: (c.members.hidden[0].weight, c.members.hidden[0].bias, c.members.hidden[1].weight)  # noqa: E731
    ours = eqx.tree_at(where, ours, (weight, jnp.full((2, width), 2.003), eye))
    ours = eqx.tree_at(lambda c: c.members.output.weight, ours, ones)

    def both(q: Any, critics: Critics) -> list[jax.Array]:
        values, back = jax.vjp(lambda c, a: q(c, features, a), critics, actions)
        of_critics, of_actions = back(jnp.ones_like(values))
        return [values, of_actions, of_critics.members.hidden[0].weight, of_critics.members.hidden[0].bias]

    exact = jax.tree.unflatten(jax.tree.structure(critics("float32", (width, width), action)), jax.tree.leaves(ours))
    for mine, true, off in zip(both(fused_q, ours), both(q_values, exact), (1e-3, 1e-4, 2e-3, 1e-4), strict=True):
        assert distance(mine, true) < off


@pytest.mark.parametrize(
    "unfit",
    [
        {"precision": "float32"},
        {"layer_norm": True},
        {"widths": (128, 256)},
        {"widths": (256, 512)},
        {"widths": (1024, 1024)},
        {"widths": (96, 96)},
        {"widths": (128,)},
        {"action": 80},
    ],
)
def test_what_the_kernels_cannot_do_is_left_to_the_plain_path(unfit: dict[str, Any]) -> None:
    assert not fused.supports(critics(**{"precision": "bfloat16", **unfit}).members)
    assert fused.supports(critics("bfloat16").members)
    assert fused.supports(critics("bfloat16", action=79).members)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"precision": "float32", "critic_widths": (256, 256)}, "--precision bfloat16"),
        ({"precision": "bfloat16", "critic_widths": (96, 96)}, "128, 256 or 512 units"),
        ({"precision": "bfloat16", "critic_widths": (256, 256), "critic_layer_norm": True}, "layer norm"),
        ({"precision": "bfloat16", "critic_widths": (256, 256)}, "H100 or H200"),
    ],
)
def test_who_asks_for_kernels_and_gets_none_is_told_why(options: dict[str, Any], says: str) -> None:
    (note,) = tiny("cal-ql", critic_kernel="fused", **options).notes
    assert says in note
    assert tiny("cal-ql", critic_kernel="plain", **options).notes == ()


def test_where_there_is_such_a_gpu_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "available", lambda: True)
    for widths in ((256, 256), (512, 512, 512)):
        assert tiny("cal-ql", critic_kernel="fused", precision="bfloat16", critic_widths=widths).notes == ()
    assert fused.supports(critics("bfloat16", (512, 512, 512), count=10).members)


@pytest.mark.parametrize("actions", [1, 2, 3, 8])
@pytest.mark.parametrize("features", [4, 29, 60])
def test_rows_hold_both_halves_of_every_input(features: int, actions: int) -> None:
    """Written two columns at a time, whatever the number of inputs; for both kinds of kernels."""
    of_state, of_action = (jax.random.normal(key, shape) for key, shape in
                           zip(jax.random.split(KEY), ((50, features), (50, 3, actions)), strict=True))  # fmt: skip
    layout = fused.Columns(features, actions)
    rows = fused._rows(layout, of_state, of_action)
    every = jnp.repeat(jnp.concatenate([of_state, jnp.ones((50, 1))], axis=-1), 3, axis=0)
    (high, low), (first, second) = halves(every), halves(of_action.reshape(-1, actions))
    spare = jnp.zeros((150, layout.count - 3 * layout.inputs), first.dtype)
    expected = jnp.concatenate([first, high, low, high, second, first, spare], axis=-1)
    for width in (256, 512):
        x = fused._laid_out(rows, fused.Weights(KEY, KEY, (), (), jnp.zeros((2, width))))
        found = x if width == 512 else fused._out_of_tiles(x)
        assert found.shape == (256, layout.count)
        assert np.array_equal(found[:150], expected)
        assert not np.any(found[150:])


def test_no_warpgroup_waits_for_registers_that_a_program_does_not_have() -> None:
    """The multiplying ones would do so for ever, and neither the interpreter nor the compiler notices."""
    with pytest.raises(AssertionError, match="are more than 504"):
        warpgroups.roles(print, print, (240, 32))
    assert warpgroups.WARPGROUPS * wide.REGISTERS[0] + wide.REGISTERS[1] <= warpgroups.REGISTERS


def test_without_a_gpu_the_option_changes_nothing() -> None:
    plain, asked = (tiny("cal-ql", critic_kernel=kernel).init(KEY, spec()) for kernel in ("plain", "fused"))
    assert jax.tree.structure(plain) == jax.tree.structure(asked)
    jax.tree.map(np.testing.assert_array_equal, plain, asked)
