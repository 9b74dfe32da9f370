"""ReBRAC as its authors' fine-tuning code computes it, offline and a quarter into the online phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from replay import Draws, Recording, drawn, follow, perceptron, recordings, replayed, trained, transitions

from calql.methods.base import last_minibatch
from calql.methods.rebrac import ReBRAC, ReBRACOptions
from calql.methods.td3_bc import TD3State
from calql.networks import Spec


def method_of(config: dict[str, Any]) -> ReBRAC:
    used = config["used"]
    options = ReBRACOptions(
        policy_widths=(used["hidden_dim"],) * used["actor_n_hiddens"],
        critic_widths=(used["hidden_dim"],) * used["critic_n_hiddens"],
        critics=config["num_critics"],
        critic_layer_norm=used["critic_ln"],
        policy_rate=used["actor_learning_rate"],
        critic_rate=used["critic_learning_rate"],
        discount=used["gamma"],
        target_rate=used["tau"],
        policy_delay=used["policy_freq"],
        target_noise=used["policy_noise"],
        target_noise_clip=used["noise_clip"],
        policy_penalty=used["actor_bc_coef"],
        target_penalty=used["critic_bc_coef"],
        final_penalty=used["min_decay_coef"],
        penalty_updates=used["num_online_updates"],
    )
    return ReBRAC(options)


def state_at(recording: Recording, prefix: str, like: TD3State, online: jax.Array) -> TD3State:
    def policy(leaves: Mapping[str, jax.Array]) -> Any:
        template = like.policy.parameters
        return eqx.tree_at(lambda p: p.network, template, perceptron(leaves, template.network))

    def critics(leaves: Mapping[str, jax.Array]) -> Any:
        template = like.critics.parameters
        return eqx.tree_at(lambda c: c.members, template, perceptron(leaves, template.members))

    return like._replace(
        policy=trained(recording, prefix, "policy", like.policy, policy),
        critics=trained(recording, prefix, "critic", like.critics, critics),
        policy_target=policy(recording.under(f"{prefix}/target_policy")),
        critic_targets=critics(recording.under(f"{prefix}/target_critic")),
        online_updates=online,
    )


def draws_of(recording: Recording, update: int) -> Draws:
    def named(label: str, values: jax.Array) -> tuple[str, jax.Array] | None:
        return None if "logging_only" in label else ("target/noise", values)

    return drawn(recording, update, named)


@pytest.mark.slow
@pytest.mark.parametrize("recording", recordings("rebrac"))
def test_updates(recording: Recording) -> None:
    config = recording.config
    offline = config["used"]["num_offline_updates"]
    method = method_of(config)
    assert method.options.policy_first
    like = method.init(jax.random.key(0), Spec((config["obs_dim"],), config["act_dim"]))
    state = state_at(recording, "init", like, jnp.int32(-1))
    for number, (iteration, full) in enumerate(zip(config["iterations"], config["full_update"], strict=True), 1):
        if iteration >= offline:
            method, state = method.switch(state)
            state = state._replace(online_updates=jnp.int32(iteration - offline))

        def update(state: TD3State, number: int, full: bool = full, method: ReBRAC = method) -> TD3State:
            batch = last_minibatch(transitions(recording.under(f"batch{number}")))
            step = method.full_step if full else method.critic_step
            return replayed(lambda: step(state, batch, jax.random.key(0))[0], draws_of(recording, number))

        if iteration >= offline:  # the weight that the authors' loop had at this step
            weight = method.decay(state) * method.options.policy_penalty
            assert float(weight) == pytest.approx(config["actor_bc_coef"][number - 1], rel=1e-5)
        count = jnp.int32(-1) if iteration < offline else state.online_updates + 1

        def recorded(prefix: str, count: jax.Array = count) -> TD3State:
            return state_at(recording, prefix, like, count)

        state = follow(recording, state, [number], update=update, recorded_state=recorded)


@pytest.mark.slow
def test_an_update_is_a_full_step_and_one_of_the_critics_alone() -> None:
    """The cycle starts with the full step, as the authors' iteration 0 does."""
    method = ReBRAC(ReBRACOptions(policy_widths=(8,), critic_widths=(8,)))
    state = method.init(jax.random.key(0), Spec((3,), 2))
    rows = jax.random.normal(jax.random.key(1), (2, 4, 3))
    batch = transitions(
        {
            "observations": rows.reshape(8, 3),
            "actions": jnp.tanh(rows.reshape(8, 3)[:, :2]),
            "next_actions": jnp.tanh(rows.reshape(8, 3)[:, 1:]),
            "rewards": jnp.ones(8),
            "next_observations": rows.reshape(8, 3) + 1.0,
            "masks": jnp.ones(8),
        },
        minibatches=2,
    )
    key_critic = jax.random.split(jax.random.split(jax.random.key(2))[1], 2)
    first, second = (jax.tree.map(lambda column, i=i: column[i], batch) for i in range(2))
    expected, _ = jax.jit(method.full_step)(state, first, key_critic[0])
    expected, _ = jax.jit(method.critic_step)(expected, second, key_critic[1])
    after, _ = jax.jit(method.update)(state, batch, jax.random.key(2))
    for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(expected), strict=True):
        assert jnp.allclose(ours, theirs, atol=1e-6)
