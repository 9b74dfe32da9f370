"""A policy in the form in which it acts says what it says as it was trained, in float32 and without copying weights."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.methods import method_entry
from calql.methods.base import Spec, TimeStep
from calql.networks.acting import Turned, as_trained, for_acting

VECTOR, IMAGE = Spec((5,), 3), Spec((16, 16, 3), 3, image=True)
LARGER = {"cal-ql": 4.0, "odt": 1.0}  # fresh policies of Cal-QL hardly act at all
SMALL: dict[str, Any] = {"cal-ql": {"policy_widths": (32, 32)}, "odt": {"width": 8, "layers": 2, "heads": 2}}


def made(name: str, spec: Spec, precision: str) -> tuple[Any, Any]:
    options = method_entry(name).options(precision=precision, **SMALL[name])
    method = method_entry(name).make(options)
    policy = jax.device_get(method.policy(method.init(jax.random.key(0), spec)))
    return method, jax.tree.map(lambda leaf: np.float32(LARGER[name]) * leaf, policy)


def action(method: Any, policy: Any, spec: Spec) -> np.ndarray:
    rng = np.random.default_rng(0)
    seen = rng.integers(0, 255, spec.observation_shape).astype(np.uint8) if spec.image else rng.normal(size=5)
    time_step = TimeStep(jnp.asarray(seen, jnp.uint8 if spec.image else jnp.float32), jnp.float32(0.0), jnp.int32(0))
    return np.asarray(method.act(policy, method.start(policy), time_step, jax.random.key(1), explore=True)[0])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "spec"), [("cal-ql", VECTOR), ("cal-ql", IMAGE), ("odt", VECTOR)])
def test_it_acts_as_the_same_parameters_do_in_float32(name: str, spec: Spec) -> None:
    method, policy = made(name, spec, "float32")
    low_method, low = made(name, spec, "bfloat16")
    expected = action(method, policy, spec)
    np.testing.assert_allclose(action(method, as_trained(for_acting(policy)), spec), expected, atol=1e-6)
    np.testing.assert_allclose(action(low_method, as_trained(for_acting(low)), spec), expected, atol=1e-6)
    assert np.abs(action(low_method, low, spec) - expected).max() > 1e-5  # else nothing was gained


def test_weights_lie_as_a_row_is_multiplied() -> None:
    """[input, output] in order, and back again in the compiled program without a transposition."""
    _, policy = made("cal-ql", VECTOR, "float32")
    turned = [node for node in jax.tree.leaves(for_acting(policy), is_leaf=_is_turned) if _is_turned(node)]
    assert len(turned) == 3
    assert all(node.kernel.flags["C_CONTIGUOUS"] for node in turned)
    layer = policy.network.hidden[1]
    np.testing.assert_array_equal(turned[1].kernel.T, layer.weight)
    assert isinstance(as_trained(for_acting(policy)).network.hidden[1], eqx.nn.Linear)
    program = jax.jit(lambda p, x: as_trained(p)(x).mean).lower(for_acting(policy), jnp.ones(5)).compile()
    assert "transpose(" not in program.as_text()


@pytest.mark.slow
def test_the_policy_itself_stays_as_it_was() -> None:
    _, policy = made("cal-ql", VECTOR, "bfloat16")
    for_acting(policy)
    assert policy.network.precision == "bfloat16"
    assert isinstance(policy.network.hidden[0], eqx.nn.Linear)


def _is_turned(node: object) -> bool:
    return isinstance(node, Turned)
