"""Cal-QL and CQL as the authors' code computes them.

Their code runs its loss once for every part that it trains, each time with fresh draws; ours draws once and all parts
share it. So our update runs once with the draws of each of their passes, and is compared in the part whose pass it was.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import pytest
from learner_state import Names, state_at
from replay import Draws, Recording, agree, drawn, recordings, replayed, transitions

from calql.methods.base import Transitions
from calql.methods.cal_ql import CalQL
from calql.methods.learner import ActorCritic, LearnerState
from calql.networks import Spec

NAMES = Names(temperature="log_alpha", multiplier="log_alpha_prime")

DRAWS = {
    "action_at_s": "policy/action",
    "backup_actions": "target/actions",
    "uniform_actions": "gap/uniform",
    "actions_at_s": "gap/policy",
    "actions_at_next_s": "gap/next",
}


def method_of(config: dict[str, Any]) -> ActorCritic:
    used, cql = config["used"], config["used"]["cql"]
    actions = cql["cql_n_actions"]
    options = CalQL(
        policy_widths=tuple(int(width) for width in used["policy_arch"].split("-")),
        critic_widths=tuple(int(width) for width in used["qf_arch"].split("-")),
        log_std_offset=used["policy_log_std_offset"],
        log_std_range=tuple(config["std_clip_log"]),
        policy_rate=cql["policy_lr"],
        critic_rate=cql["qf_lr"],
        target_rate=cql["soft_target_update_rate"],
        discount=cql["discount"],
        target_entropy=cql["target_entropy"],
        entropy_in_backup=cql["backup_entropy"],
        backup_actions=actions if cql["cql_max_target_backup"] else 1,
        sampled_actions=actions,
        importance_sampling=cql["cql_importance_sample"],
        conservative_weight=used["cql_min_q_weight"],
        dual=cql["cql_lagrange"],
        gap=cql["cql_target_action_gap"],
        soft_maximum_temperature=cql["cql_temp"],
        difference_clip=(float(cql["cql_clip_diff_min"]), float(cql["cql_clip_diff_max"])),
        calibrate=used["enable_calql"],
    )
    return ActorCritic(options)


def draws_of(recording: Recording, update: int, part: str) -> Draws:
    """Those of the pass for one part."""

    def named(label: str, values: jax.Array) -> tuple[str, jax.Array] | None:
        if not label.startswith(f"{part}_loss_"):
            return None
        what = label.removeprefix(f"{part}_loss_").removesuffix("_unused").removesuffix("_logging_only")
        return DRAWS[what], values if what == "uniform_actions" else values[0]

    return drawn(recording, update, named)


def part_of(state: LearnerState, part: str) -> Any:
    """What a pass of the authors' moves: one part, with its Adam and its target."""
    parts = {
        "policy": (state.policy, state.policy_adam),
        "log_alpha": (state.raw_temperature, state.temperature_adam),
        "log_alpha_prime": (state.raw_multiplier, state.multiplier_adam),
    }
    if part in parts:
        return parts[part]
    index = int(part.removeprefix("qf")) - 1
    arrays = eqx.filter(
        (state.critics, state.targets, state.critic_adam), lambda leaf: eqx.is_array(leaf) and leaf.ndim
    )
    return jax.tree.map(lambda leaf: leaf[index], arrays)


@pytest.mark.slow
@pytest.mark.parametrize("recording", recordings("cal-ql", "cql"))
def test_updates(recording: Recording) -> None:
    config = recording.config
    method = method_of(config)
    like = method.init(jax.random.key(0), Spec((config["obs_dim"],), config["act_dim"]))

    def recorded(prefix: str) -> LearnerState:
        return state_at(recording, prefix, like, NAMES)

    @jax.jit
    def update(state: LearnerState, batch: Transitions, given: dict[str, list[jax.Array]]) -> LearnerState:
        """Compiled once for all passes; it has no loop that would ask for draws anew."""
        source = Draws((name, values) for name, every in given.items() for values in every)
        return replayed(lambda: method.update(state, batch, jax.random.key(0))[0], source)

    assert recorded("init").raw_temperature == like.raw_temperature
    assert recorded("init").raw_multiplier == like.raw_multiplier
    for number in recording.updates():
        before = recorded(f"after{number - 1}" if number > 1 else "init")
        batch = transitions(recording.under(f"batch{number}"))
        for part in config["losses_in_order"]:
            ours = update(before, batch, draws_of(recording, number, part).all())
            at = f"{recording.name}, {part} after update {number}: "
            agree(part_of(ours, part), part_of(recorded(f"after{number}"), part), at)
