"""TD3+BC as its authors' code computes it: two updates of the critics to one of the policy and the targets."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from replay import MOMENTS, Draws, Recording, agree, recordings, replaying, transitions
from torch_layers import member, stacked, torch_perceptron

from calql.methods.base import last_minibatch
from calql.methods.td3_bc import TD3BC, TD3BCOptions, TD3State
from calql.networks import Spec
from calql.networks.features import SPREAD_FLOOR, Standardise

LAYERS = ("l1", "l2", "l3")
SECOND = ("l4", "l5", "l6")


def method_of(config: dict[str, Any]) -> TD3BC:
    options = TD3BCOptions(
        policy_widths=tuple(config["hidden"]),
        critic_widths=tuple(config["hidden"]),
        discount=config["discount"],
        target_rate=config["tau"],
        policy_rate=config["lr"],
        critic_rate=config["lr"],
        policy_delay=config["policy_freq"],
        target_noise=config["policy_noise"],
        target_noise_clip=config["noise_clip"],
        ascent_weight=config["alpha"],
        standardise=False,  # the batches are already
    )
    return TD3BC(options)


def networks_at(recording: Recording, prefix: str, like: TD3State) -> tuple[Any, Any, Any, Any]:
    """Policy, critics and their targets."""

    def policy(name: str) -> Any:
        template, leaves = like.policy.parameters, recording.under(f"{prefix}/{name}")
        return eqx.tree_at(lambda p: p.network, template, torch_perceptron(leaves, LAYERS, template.network))

    def critics(name: str) -> Any:
        template, leaves = like.critics.parameters, recording.under(f"{prefix}/{name}")
        members = [torch_perceptron(leaves, names, member(template.members)) for names in (LAYERS, SECOND)]
        return eqx.tree_at(lambda c: c.members, template, stacked(members))

    return policy("actor"), critics("critic"), policy("actor_target"), critics("critic_target")


def networks_of(state: TD3State) -> tuple[Any, Any, Any, Any]:
    return state.policy.parameters, state.critics.parameters, state.policy_target, state.critic_targets


@pytest.mark.slow
@pytest.mark.parametrize("recording", recordings("td3_bc"))
def test_updates(recording: Recording) -> None:
    config = recording.config
    method = method_of(config)
    critic_step, full_step = replaying(method.critic_step), replaying(method.full_step)
    like = method.init(jax.random.key(0), Spec((config["obs_dim"],), config["act_dim"]))
    policy, critics, policy_target, critic_targets = networks_at(recording, "params/0", like)
    state = like._replace(
        policy=like.policy._replace(parameters=policy),
        critics=like.critics._replace(parameters=critics),
        policy_target=policy_target,
        critic_targets=critic_targets,
    )
    for number in range(1, config["updates"] + 1):
        columns = recording.under(f"batch/{number}")
        columns["masks"] = columns.pop("not_done")[:, 0]
        columns["rewards"] = columns["rewards"][:, 0]
        del columns["indices"]
        batch = last_minibatch(transitions(columns))
        step = critic_step if number % config["policy_freq"] else full_step
        source = Draws(iter([("target/noise", recording(f"draw/{number}/target_policy_noise"))]))
        state = step(state, batch, source)
        at = f"{recording.name}, after update {number}: "
        agree(networks_of(state), networks_at(recording, f"params/{number}", like), at)
        same_moments(recording, state, number)


def same_moments(recording: Recording, state: TD3State, number: int) -> None:
    """The file holds those of each network's first layer."""
    firsts = {
        "actor": (state.policy.adam, lambda tree: tree.network.hidden[0].weight),
        "critic": (state.critics.adam, lambda tree: tree.members.hidden[0].weight[0]),
    }
    for name, (moments, first) in firsts.items():
        prefix = f"adam/{number}/{name}"
        if f"{prefix}/step" not in recording:
            continue
        assert int(moments.count) == int(recording(f"{prefix}/step"))
        for ours, theirs in ((moments.mu, "exp_avg"), (moments.nu, "exp_avg_sq")):
            expected = recording(f"{prefix}/l1.weight/{theirs}")
            assert float(jnp.abs(first(ours) - expected).max()) <= MOMENTS * float(jnp.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("recording", recordings("td3_bc"))
def test_states_are_standardised_as_there(recording: Recording) -> None:
    observations = np.asarray(recording("data/observations"))
    mean, std = observations.mean(0), observations.std(0)
    np.testing.assert_allclose(std + SPREAD_FLOOR, recording("data/state_std"), rtol=1e-6)
    encode = Standardise(tuple(mean.tolist()), tuple(std.tolist()))
    rows = np.asarray(recording("batch/1/indices"))
    np.testing.assert_allclose(encode(observations[rows]), recording("batch/1/observations"), atol=2e-6)
