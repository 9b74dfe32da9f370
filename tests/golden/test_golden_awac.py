"""AWAC as its authors' code computes it on Adroit: the preset `original`, from fresh and from late parameters."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from replay import MOMENTS, Draws, Recording, agree, recordings, replaying, transitions
from torch_layers import member, stacked, torch_perceptron

from calql.methods import preset
from calql.methods.awac import AWAC, AWACOptions, AWACState
from calql.networks import Spec

LAYERS = ("fc0", "fc1", "last_fc")
RUN = {"offline_updates"}  # what the preset sets in the run, not in the method


def method_of(config: dict[str, Any]) -> AWAC:
    """The preset, with the file's sizes; what the file says beside them must be what the preset has."""
    original = {name: value for name, value in preset("original", "awac").items() if name not in RUN}
    trainer, policy = config["trainer"], config["policy"]
    said = {
        "discount": trainer["discount"],
        "target_rate": trainer["soft_target_tau"],
        "policy_rate": trainer["policy_lr"],
        "critic_rate": trainer["qf_lr"],
        "temperature": trainer["beta"],
        "advantage_cap": trainer["clip_score"],
        "weight_decay": trainer["policy_weight_decay"],
        "log_std_range": (float(policy["min_log_std"]), float(policy["max_log_std"])),
        "batch_size": config["bc_batch_size_default"],
        "batch_size_online": config["online_batch_size"],
    }
    sizes = {"policy_widths": tuple(policy["hidden_sizes"]), "critic_widths": tuple(config["qf"]["hidden_sizes"])}
    return AWAC(AWACOptions(**{**original, **said, **sizes}))


def networks_at(recording: Recording, prefix: str, like: AWACState) -> tuple[Any, Any, Any]:
    template, leaves = like.policy.parameters, recording.under(f"{prefix}/policy")
    network = torch_perceptron(leaves, LAYERS, template.network)
    policy = eqx.tree_at(lambda p: (p.network, p.log_std), template, (network, leaves["log_std_logits"]))

    def critics(names: tuple[str, str]) -> Any:
        template = like.critics.parameters
        found = [recording.under(f"{prefix}/{name}") for name in names]
        members = [torch_perceptron(leaves, LAYERS, member(template.members)) for leaves in found]
        return eqx.tree_at(lambda c: c.members, template, stacked(members))

    return policy, critics(("qf1", "qf2")), critics(("target_qf1", "target_qf2"))


@pytest.mark.slow
@pytest.mark.parametrize("section", ["fresh", "late"])
@pytest.mark.parametrize("recording", recordings("awac"))
def test_updates(recording: Recording, section: str) -> None:
    config = recording.config
    method = method_of(config)
    step = replaying(method.update)
    like = method.init(jax.random.key(0), Spec((config["obs_dim"],), config["act_dim"]))
    policy, critics, targets = networks_at(recording, f"{section}/params/0", like)
    state = like._replace(
        policy=like.policy._replace(parameters=policy),
        critics=like.critics._replace(parameters=critics),
        targets=targets,
    )
    for number in range(1, config["updates"] + 1):
        columns = recording.under(f"{section}/batch/{number}")
        flat = {name: columns[name][:, 0] for name in ("rewards", "terminals")}
        batch = transitions({**columns, **flat})
        noise = recording(f"{section}/draw/{number}/2_policy_at_next_observations")
        source = Draws(iter([("target/action", noise)]))
        state = step(state, batch, source)
        ours = (state.policy.parameters, state.critics.parameters, state.targets)
        if number == 1:  # the first moments are then a tenth of the gradient with its decay
            same_gradient(recording, section, method, policy, state)
        at = f"{section}, after update {number}: "
        agree(ours, networks_at(recording, f"{section}/params/{number}", like), at)


def same_gradient(recording: Recording, section: str, method: AWAC, before: Any, state: AWACState) -> None:
    """Recorded before the decay."""
    decay = method.options.weight_decay
    gradient = jax.tree.map(lambda mu, p: 10.0 * mu - decay * p, state.policy.adam.mu, before)
    leaves = recording.under(f"{section}/grad/1/policy")
    ours = (*gradient.network.hidden, gradient.network.output)
    for name, layer in zip(LAYERS, ours, strict=True):
        for mine, theirs in ((layer.weight, leaves[f"{name}.weight"]), (layer.bias, leaves[f"{name}.bias"])):
            assert float(jnp.abs(mine - theirs).max()) <= 2 * MOMENTS * float(jnp.abs(theirs).max()), name


@pytest.mark.slow
@pytest.mark.parametrize("recording", recordings("awac"))
def test_the_preset_is_what_the_recording_was_made_with(recording: Recording) -> None:
    sizes = {"policy_widths", "critic_widths"}
    chosen = method_of(recording.config).options
    for name, value in preset("original", "awac").items():
        if name not in RUN | sizes:
            assert getattr(chosen, name) == value, name
