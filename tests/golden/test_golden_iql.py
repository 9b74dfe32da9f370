"""IQL as its authors' code computes it: fine-tuning on AntMaze, and offline on kitchen with dropout and a cosine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import pytest
from replay import Draws, Recording, drawn, follow, perceptron, recordings, replaying, trained, transitions

from calql.methods.iql import IQL, IQLOptions, IQLState
from calql.networks import Spec


def method_of(config: dict[str, Any]) -> IQL:
    used = config["used"]
    widths = tuple(used["hidden_dims"])
    options = IQLOptions(
        policy_widths=widths,
        critic_widths=widths,
        discount=used["discount"],
        policy_rate=used["actor_lr"],
        critic_rate=used["critic_lr"],
        target_rate=used["tau"],
        expectile=used["expectile"],
        temperature=used["temperature"],
        weight_cap=config["weight_cap"],
        policy_dropout=used.get("dropout_rate") or 0.0,
        policy_decay_updates=used.get("max_steps") or 0,
    )
    return IQL(options)


def state_at(recording: Recording, prefix: str, like: IQLState) -> IQLState:
    def policy(leaves: Mapping[str, jax.Array]) -> Any:
        template = like.policy.parameters
        network = perceptron(leaves, template.network)
        return eqx.tree_at(lambda p: (p.network, p.log_std), template, (network, leaves["log_std"]))

    def critics(leaves: Mapping[str, jax.Array]) -> Any:
        template = like.critics.parameters
        return eqx.tree_at(lambda c: c.members, template, perceptron(leaves, template.members))

    def value(leaves: Mapping[str, jax.Array]) -> Any:
        template = like.value.parameters
        return eqx.tree_at(lambda v: v.network, template, perceptron(leaves, template.network))

    return like._replace(
        policy=trained(recording, prefix, "policy", like.policy, policy),
        critics=trained(recording, prefix, "critic", like.critics, critics),
        value=trained(recording, prefix, "value", like.value, value),
        targets=critics(recording.under(f"{prefix}/target_critic")),
    )


def draws_of(recording: Recording, update: int) -> Draws:
    def named(label: str, values: jax.Array) -> tuple[str, jax.Array]:
        return f"keep/{int(label.removeprefix('policy_keep_layer')) - 1}", values

    return drawn(recording, update, named)


@pytest.mark.slow
@pytest.mark.parametrize("recording", recordings("iql"))
def test_updates(recording: Recording) -> None:
    config = recording.config
    method = method_of(config)
    step = replaying(method.update)
    like = method.init(jax.random.key(0), Spec((config["obs_dim"],), config["act_dim"]))

    def update(state: IQLState, number: int) -> IQLState:
        batch = transitions(recording.under(f"batch{number}"))
        return step(state, batch, draws_of(recording, number))

    def recorded(prefix: str) -> IQLState:
        return state_at(recording, prefix, like)

    follow(recording, recorded("init"), recording.updates(), update=update, recorded_state=recorded)
