"""WSRL as its authors' code computes it: Cal-QL with ten critics, then SAC with every optimiser at every step."""

from __future__ import annotations

import math
from typing import Any

import jax
import pytest
from learner_state import Names, state_at
from replay import Draws, Recording, drawn, follow, recordings, replayed, samples_last, transitions

from calql.methods.learner import ActorCritic, LearnerState
from calql.methods.wsrl import WSRL
from calql.networks import Spec

NAMES = Names(
    temperature="raw_temperature",
    multiplier="raw_multiplier",
    policy_adam="actor",
    critic_adam="critic",
    temperature_adam="temperature",
    multiplier_adam="cql_alpha_lagrange",
    leaves_named=True,
)

# (theirs, ours) by the end of a label
DRAWS = {
    "policy_action": "policy/action",
    "dual_uniform_actions": "dual/uniform",
    "dual_actions_at_s": "dual/policy",
    "dual_actions_at_next_s": "dual/next",
    "dual_critic_subset": "dual/critics",
    "backup_actions": "target/actions",
    "target_subset": "target/critics",
    "critic_uniform_actions": "gap/uniform",
    "critic_actions_at_s": "gap/policy",
    "critic_actions_at_next_s": "gap/next",
    "critic_critic_subset": "gap/critics",
    "temperature_next_actions": "temperature/actions",
}


def method_of(config: dict[str, Any], minibatches: int) -> ActorCritic:
    offline, online = (config["used"][phase] for phase in ("offline", "online"))
    dual = offline["cql_autotune_alpha"]
    actions = offline["cql_n_actions"]
    options = WSRL(
        policy_widths=tuple(offline["policy_network_kwargs"]["hidden_dims"]),
        critic_widths=tuple(offline["critic_network_kwargs"]["hidden_dims"]),
        last_hidden_gain=offline["critic_network_kwargs"].get("kernel_scale_final", 2.0**0.5),
        state_dependent_std=offline["policy_kwargs"]["std_parameterization"] == "exp",
        critics=offline["critic_ensemble_size"],
        target_subset=offline["critic_subsample_size"],
        penalised_critics=offline["critic_subsample_size"],
        critic_layer_norm=offline["critic_network_kwargs"]["use_layer_norm"],
        policy_layer_norm=offline["policy_network_kwargs"]["use_layer_norm"],
        policy_rate=offline["actor_optimizer_kwargs"]["learning_rate"],
        critic_rate=offline["critic_optimizer_kwargs"]["learning_rate"],
        discount=offline["discount"],
        target_rate=offline["soft_target_update_rate"],
        sampled_actions=actions,
        backup_actions=actions if offline["cql_max_target_backup"] else 1,
        backup_actions_online=actions if online.get("max_target_backup") else 1,
        importance_sampling=offline["cql_importance_sample"],
        conservative_weight=1.0 if dual else offline["cql_alpha"],
        dual=dual,
        gap=offline["cql_target_action_gap"],
        calibrate_random=offline["calql_bound_random_actions"],
        critic_steps_online=minibatches,
    )
    return ActorCritic(options)


def draws_of(recording: Recording, update: int) -> Draws:
    def named(label: str, values: jax.Array) -> tuple[str, jax.Array]:
        name = next(ours for theirs, ours in DRAWS.items() if label.endswith(theirs))
        if name == "policy/action":
            return name, values[0]
        return name, values if "uniform" in name or values.ndim == 1 else samples_last(values)

    return drawn(recording, update, named)


@pytest.mark.slow
@pytest.mark.parametrize("recording", recordings("wsrl"))
def test_updates(recording: Recording) -> None:
    config, numbers = recording.config, recording.updates()
    rows = [len(recording(f"batch{number}/rewards")) for number in numbers]
    method = method_of(config, rows[-1] // rows[0])
    like = method.init(jax.random.key(0), Spec((config["obs_dim"],), config["act_dim"]))

    def recorded(prefix: str) -> LearnerState:
        return state_at(recording, prefix, like, NAMES)

    def update(state: LearnerState, number: int) -> LearnerState:
        phase = offline if number in first else online
        batch = transitions(recording.under(f"batch{number}"), phase.minibatches)
        return replayed(lambda: phase.update(state, batch, jax.random.key(0))[0], draws_of(recording, number))

    first = [number for number, count in zip(numbers, rows, strict=True) if count == rows[0]]
    offline, start = method, recorded("init")
    assert float(like.raw_temperature) == pytest.approx(math.log(math.e - 1.0))
    assert start.raw_temperature == pytest.approx(like.raw_temperature)
    assert start.raw_multiplier == pytest.approx(like.raw_multiplier)
    state = follow(recording, start, first, update=update, recorded_state=recorded)

    online, state = method.switch(state)
    like = replace_multiplier(like, state)  # dropped online: it stays where it was
    follow(recording, state, numbers[len(first) :], update=update, recorded_state=recorded)


def replace_multiplier(like: LearnerState, state: LearnerState) -> LearnerState:
    return like._replace(raw_multiplier=state.raw_multiplier, multiplier_adam=state.multiplier_adam)
