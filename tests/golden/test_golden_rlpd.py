"""RLPD as its authors' code computes it: 20 critic steps and one of the policy in an update."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from learner_state import Names, state_at
from replay import Draws, Recording, drawn, follow, recordings, replayed, transitions

from calql.methods.learner import ActorCritic, LearnerState
from calql.methods.rlpd import RLPD
from calql.networks import Spec

pytestmark = pytest.mark.slow

NAMES = Names(temperature="log_temperature", multiplier="none", scalar="value")


def method_of(config: dict[str, Any]) -> ActorCritic:
    used = config["used"]
    widths = tuple(used["hidden_dims"])
    options = RLPD(
        policy_widths=widths,
        critic_widths=widths,
        critics=used["num_qs"],
        target_subset=used["num_min_qs"],
        critic_layer_norm=used["critic_layer_norm"],
        entropy_in_backup=used["backup_entropy"],
        policy_rate=used["actor_lr"],
        critic_rate=used["critic_lr"],
        discount=used["discount"],
        target_rate=used["tau"],
        critic_steps=config["utd_ratio"],
        target_entropy=config["target_entropy"],
        log_std_range=tuple(config["log_std_clip"]),
        batch_size=config["minibatch"],
    )
    return ActorCritic(options)


def draws_of(recording: Recording, update: int) -> Draws:
    def named(label: str, values: jax.Array) -> tuple[str, jax.Array]:
        if label.endswith("target_subset"):
            return "target/critics", values
        if label.endswith("next_action"):
            return "target/actions", values.T[:, None]  # [action, row] as [row, sample, action]
        return "policy/action", values.T

    return drawn(recording, update, named)


@pytest.mark.parametrize("recording", recordings("rlpd"))
def test_updates(recording: Recording) -> None:
    config = recording.config
    method = method_of(config)
    like = method.init(jax.random.key(0), Spec((config["obs_dim"],), config["act_dim"]))

    def update(state: LearnerState, number: int) -> LearnerState:
        batch = transitions(recording.under(f"batch{number}"), method.minibatches)
        return replayed(lambda: method.update(state, batch, jax.random.key(0))[0], draws_of(recording, number))

    def recorded(prefix: str) -> LearnerState:
        return state_at(recording, prefix, like, NAMES)

    start = recorded("init")
    assert start.raw_temperature == like.raw_temperature
    follow(recording, start, recording.updates(), update=update, recorded_state=recorded)
