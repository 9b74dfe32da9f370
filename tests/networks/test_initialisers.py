"""How layers start, by the names of the code bases that have it."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.methods.awac import AWAC, ORIGINAL, AWACOptions
from calql.methods.learner import ActorCritic
from calql.methods.odt import ODT, ODTOptions
from calql.methods.rebrac import ReBRAC, ReBRACOptions
from calql.methods.rlpd import RLPD
from calql.methods.td3_bc import TD3BC, TD3BCOptions
from calql.networks import Initialiser, Spec, linear

KEY = jax.random.key(0)
SPEC = Spec((6,), 2)


def spans(values: jax.Array, bound: float) -> None:
    """Uniform within the bound: nothing outside, and its far ends are reached."""
    assert float(jnp.abs(values).max()) <= bound
    assert float(jnp.abs(values).max()) > 0.8 * bound
    assert abs(float(values.mean())) < 0.2 * bound


@pytest.mark.parametrize(
    ("name", "output", "weight", "bias"),
    [
        ("torch", False, 0.2, 0.2),  # 1 / sqrt(25 inputs), the bias too
        ("torch", True, 0.2, 0.2),
        ("rebrac", False, 0.2, None),
        ("rebrac", True, 3e-3, 3e-3),
        ("rlkit", False, 0.1, 0.0),  # 1 / sqrt(100 outputs)
        ("rlkit", True, 3e-3, 0.0),
    ],
)
def test_uniform_starts(name: Initialiser, output: bool, weight: float, bias: float | None) -> None:
    layer = linear(25, 100, KEY, name, 3e-3, output=output)
    spans(layer.weight, weight)
    assert layer.bias is not None
    if bias is None:
        np.testing.assert_array_equal(layer.bias, jnp.float32(0.1))
    elif bias == 0.0:
        np.testing.assert_array_equal(layer.bias, 0.0)
    else:
        spans(layer.bias, bias)


def test_xavier_counts_the_outputs_of_each_head() -> None:
    """Mean and log standard deviation are two layers: the bound is sqrt(6 / (inputs + d)), not of 2 d."""
    state = ActorCritic(RLPD(policy_widths=(64,), critic_widths=(8,))).init(KEY, SPEC)
    weight = state.policy.network.output.weight
    assert weight.shape == (4, 64)
    spans(weight, math.sqrt(6.0 / (64 + 2)))
    assert not jnp.allclose(weight[:2], weight[2:])


@pytest.mark.slow
def test_td3_bc_and_rebrac_start_as_their_authors_networks() -> None:
    td3 = TD3BC(TD3BCOptions()).init(KEY, SPEC)
    spans(td3.policy.parameters.network.output.weight, 1 / 16)
    spans(td3.critics.parameters.members.hidden[1].bias, 1 / 16)
    rebrac = ReBRAC(ReBRACOptions()).init(KEY, SPEC)
    spans(rebrac.policy.parameters.network.output.weight, 1e-3)
    spans(rebrac.critics.parameters.members.output.weight, 3e-3)
    assert rebrac.critics.parameters.members.norm_after


def test_awacs_original_starts_small_with_targets_apart() -> None:
    original = {name: value for name, value in ORIGINAL.items() if name != "offline_updates"}
    state = AWAC(AWACOptions(**original)).init(KEY, SPEC)
    spans(state.policy.parameters.network.output.weight, 1e-3)
    spans(state.critics.parameters.members.output.weight, 3e-3)
    weights = [critics.members.hidden[0].weight for critics in (state.critics.parameters, state.targets)]
    assert not np.allclose(*weights)
    std = jnp.exp(state.policy.parameters(jnp.zeros((1, 6))).log_std)
    np.testing.assert_allclose(std, math.exp(-3.0), rtol=1e-6)  # halfway between -6 and 0


@pytest.mark.slow
def test_the_decision_transformer_starts_as_its_authors() -> None:
    policy = ODT(ODTOptions(width=64, layers=2)).init(KEY, SPEC).policy.parameters
    spans(policy.embed_observation.kernel, 1 / math.sqrt(6))
    spans(policy.embed_return.bias, 1.0)
    assert policy.embed_order is not None
    assert policy.embed_order.shape == (1_000, 64)
    assert float(policy.embed_order.std()) == pytest.approx(1.0, abs=0.02)
    assert float(policy.blocks.up.kernel.std()) == pytest.approx(0.02, rel=0.05)
    for head in (policy.head_mean, policy.head_log_std):
        np.testing.assert_allclose(head.kernel.T @ head.kernel, np.eye(2), atol=1e-5)
        np.testing.assert_array_equal(head.bias, 0.0)
    assert not jnp.allclose(policy.head_mean.kernel, policy.head_log_std.kernel)
    assert ODT(ODTOptions(width=64, order_embedding=False)).init(KEY, SPEC).policy.parameters.embed_order is None
