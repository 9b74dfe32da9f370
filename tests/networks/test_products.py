"""Products: inputs keep their digits in any precision, and a program asks for the arithmetic that its option names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_task import logged, spec, tiny

from calql.engine import mixing
from calql.methods import able
from calql.networks import MLP, Critics, Identity, Precision, Spec, Style, make_encoder, q_values
from calql.networks.encoder import convolve
from calql.networks.products import asked_of_xla, halves, product, product_of_inputs
from calql.networks.transformer import DecisionTransformer

pytestmark = pytest.mark.slow

KEY = jax.random.key(0)
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")


# -- inputs -----------------------------------------------------------------------------------------------


def test_two_halves_are_the_whole() -> None:
    """Compiled, where XLA would leave out a cast to bfloat16 and back."""
    x = 32.0 * jax.random.normal(KEY, (1_000,))
    high, low = (np.asarray(part, np.float64) for part in jax.jit(halves)(x))
    assert np.all(np.abs(np.asarray(x) - high - low) <= 2.0**-17 * np.abs(np.asarray(x)))
    assert np.abs(low).max() > 0.01


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("x", "weight"), [((32.1, 32.0), (1.0, -1.0)), ((32.0, 32.0), (1.003, -1.0))])
def test_digits_of_inputs_and_of_their_weights_count(
    x: tuple[float, ...], weight: tuple[float, ...], precision: Precision
) -> None:
    """Each rounded to bfloat16, the difference would be zero."""
    found = jax.jit(product_of_inputs, static_argnums=2)(jnp.array([x]), jnp.array([weight]), precision)
    assert float(found[0, 0]) == pytest.approx(float(np.dot(x, weight)), rel=4e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_gradients_have_these_digits_too(precision: Precision) -> None:
    x, weight = 32.0 + jax.random.normal(KEY, (5, 3)), 1.0 + 0.1 * jax.random.normal(KEY, (4, 3))
    of_result = jnp.ones((5, 4)) * jnp.array([1.0, -1.0, 0.5, -0.25])  # which bfloat16 has
    result, back = jax.vjp(lambda x, w: product_of_inputs(x, w, precision), x, weight)
    of_x, of_weight = back(of_result.astype(result.dtype))
    exact = [np.asarray(a, np.float64) for a in (x, weight, of_result)]
    np.testing.assert_allclose(of_x, exact[2] @ exact[1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_weight, exact[2].T @ exact[0], rtol=1e-4)
    assert of_x.dtype == of_weight.dtype == jnp.float32


def along_a_corridor(features: int) -> jax.Array:
    """64 states of AntMaze, 16 mm apart at 30 m: bfloat16 has nine numbers there."""
    states = jnp.tile(jax.random.normal(KEY, (1, features)), (64, 1))
    return states.at[:, 0].set(30.0 + jnp.arange(64) / 64.0)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_states_close_together_far_from_the_origin_are_told_apart(precision: Precision, layer_norm: bool) -> None:
    style, states = Style(precision=precision, output_gain=1.0), along_a_corridor(29)
    policy = MLP(29, 16, (64, 64), key=KEY, style=style, layer_norm=layer_norm)
    critics = Critics(Identity(), 29, 8, (64, 64), count=2, key=KEY, style=style, layer_norm=layer_norm)
    for values in (policy(states)[:, 0], q_values(critics, states, jnp.zeros((64, 8)))[0]):
        assert len(np.unique(np.asarray(values))) > 30


def test_colours_keep_their_digits_in_the_first_layer() -> None:
    """Its result in bfloat16 is float32's, rounded once; of rounded colours and kernels, half of it would not be."""
    image = jnp.asarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8))
    x = image.astype(jnp.float32) / 255.0 - 0.5
    kernel = jax.random.normal(KEY, (3, 3, 3, 8))
    exact, rough = convolve(x, kernel, 2), convolve(x, kernel, 2, "bfloat16")
    ours = convolve(x, kernel, 2, "bfloat16", inputs=True)
    assert float(jnp.mean(ours == exact.astype(jnp.bfloat16))) > 0.95
    assert float(jnp.mean(rough == exact.astype(jnp.bfloat16))) < 0.7


# -- what programs ask for --------------------------------------------------------------------------------


def dots(function: Callable[..., Any], *inputs: Any, platform: str = "cpu") -> list[tuple[str, str]]:
    """Type of the left operand and the arithmetic asked for, of each product in the program for a platform."""
    text = jax.jit(function).trace(*inputs).lower(lowering_platforms=(platform,)).as_text()
    lines = [line for line in text.splitlines() if "dot_general" in line]
    return [(_operand(line), _asked(line)) for line in lines]


def _operand(line: str) -> str:
    found = re.search(r": \(tensor<(?:\d+x)*(\w+)>", line)
    assert found is not None, line
    return found.group(1)


def _asked(line: str) -> str:
    if "algorithm" in line:
        return "tf32" if line.count("precision_type = tf32") == 2 else line
    return "float32" if "precision = [HIGHEST, HIGHEST]" in line else "default"


def forward_and_backward(precision: Precision) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Every kind of network: its output's sum and all gradients."""
    style = Style(precision=precision)
    network = MLP(3, 2, (8, 8), key=KEY, style=style, layer_norm=True)
    critics = Critics(Identity(), 3, 2, (8, 8), count=2, key=KEY, style=style)
    pixels, _ = make_encoder(Spec((8, 8, 3), 2, image=True), KEY, precision=precision)
    sizes = {"time_steps": 4, "width": 8, "layers": 2, "heads": 2, "dropout": 0.0}
    transformer = DecisionTransformer(Identity(), 3, 2, **sizes, key=KEY, precision=precision)  # type: ignore[arg-type]
    states, actions = jnp.ones((4, 3)), jnp.ones((4, 5, 2))

    def summed(f: Callable[..., Any]) -> Callable[..., Any]:
        total = lambda *inputs: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(f(*inputs)))  # noqa: E731
        return jax.grad(total, argnums=0)

    return {
        "perceptron": (summed(lambda n, x: n(x)), (network, states)),
        "critics": (summed(lambda n, s, a: q_values(n, s, a)), (critics, states, actions)),
        "encoder": (summed(lambda n, x: n(x)), (pixels, jnp.ones((4, 8, 8, 3), jnp.uint8))),
        "transformer": (
            summed(lambda n, r, s, a: n(r, s, a, jnp.arange(4))),
            (transformer, jnp.ones(4), states, actions[:, 0]),
        ),
    }


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("network", ["perceptron", "critics", "encoder", "transformer"])
def test_float32_is_asked_for_as_float32(network: str, platform: str) -> None:
    """Forwards and backwards. Unasked, a GPU would do it in TF32."""
    function, inputs = forward_and_backward("float32")[network]
    found = dots(function, *inputs, platform=platform)
    assert len(found) >= 5
    assert set(found) == {("f32", "float32")}


@pytest.mark.parametrize("network", ["perceptron", "critics", "encoder", "transformer"])
def test_tf32_is_asked_for_by_name_on_a_gpu_and_inputs_are_not_in_it(
    network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    function, inputs = forward_and_backward("tf32")[network]
    found = dots(function, *inputs, platform="cuda")
    assert set(found) == {("f32", "float32"), ("f32", "tf32")}
    in_tf32 = sum(asked == "tf32" for _, asked in found)
    assert in_tf32 == {"perceptron": 3, "critics": 3, "encoder": 12, "transformer": 18}[network]


@pytest.mark.parametrize("network", ["perceptron", "critics", "encoder", "transformer"])
def test_without_tf32_it_is_float32(network: str) -> None:
    plain, asked = (forward_and_backward(precision)[network] for precision in ("float32", "tf32"))
    for mine, theirs in zip(*(jax.tree.leaves(jax.jit(f)(*inputs)) for f, inputs in (plain, asked)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("network", ["perceptron", "critics", "encoder", "transformer"])
def test_bfloat16_leaves_no_float32_product_to_the_default(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    function, inputs = forward_and_backward("bfloat16")[network]
    found = dots(function, *inputs, platform="cuda")
    assert ("bf16", "default") in found
    assert ("f32", "default") not in found


@pytest.mark.parametrize("name", able(False))
def test_no_method_has_a_product_of_its_own_in_other_arithmetic(name: str) -> None:
    """Every product of an update, whatever network or loss it is in."""
    method = tiny(name)
    state, shape = jax.eval_shape(lambda key: method.init(key, spec()), KEY), mixing.batch_shape(method)
    batch = jax.tree.map(lambda c: jax.ShapeDtypeStruct((*shape, *c.shape[1:]), c.dtype), logged(method))
    found = dots(method.update, state, batch, KEY, platform="cuda")
    assert found
    assert set(found) == {("f32", "float32")}


def test_the_formula_is_the_same_in_all() -> None:
    x, weight = jax.random.normal(KEY, (6, 3)), jax.random.normal(jax.random.key(1), (4, 3))
    for precision in PRECISIONS:
        np.testing.assert_allclose(product(x, weight, precision), x @ weight.T, atol=0.05)
    assert asked_of_xla("tf32") == asked_of_xla("float32") == jax.lax.Precision.HIGHEST
