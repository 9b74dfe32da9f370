"""The online decision transformer as its authors' code computes it: updates, one pass with dropout, and acting."""

from __future__ import annotations

import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from replay import PARAMETERS, Draws, Recording, agree, recordings, replaying

from calql.methods.base import TimeStep, Trained, Transitions
from calql.methods.odt import ODT, SPREAD_FLOOR, ODTOptions, ODTState
from calql.methods.optimise import clip_by_norm
from calql.networks import Spec, draws
from calql.networks.transformer import Affine, DecisionTransformer

pytestmark = pytest.mark.slow

SECTIONS = ("gym", "gym_full", "antmaze", "antmaze_full")
BLOCK = {
    "norm_attention": "ln_1",
    "query_key_value": "attn.c_attn",
    "attended": "attn.c_proj",
    "norm_perceptron": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}
LINEAR = {
    "embed_return": "embed_return",
    "embed_observation": "embed_state",
    "embed_action": "embed_action",
    "head_mean": "predict_action.mu",
    "head_log_std": "predict_action.log_std",
}


def method_of(recording: Recording, section: str, **changes: Any) -> ODT:
    config = recording.config
    setting = config["settings"][section.removesuffix("_full")]
    order, table = bool(setting["ordering"]), f"{section}/params/0/embed_ordering.weight"
    options: dict[str, Any] = {
        "width": config["embed_dim"],
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "dropout": 0.0,
        "training_context": config["K"],
        "acting_context": config["eval_context_length"],
        "order_embedding": order,
        "order_steps": len(recording(table)) if order else config["max_ep_len"],  # the file has the rows that are read
        "batch_size": config["batch_size"],
        "policy_rate": setting["learning_rate"],
        "weight_decay": setting["weight_decay"],
        "warmup_updates": config["warmup_steps"],
        "gradient_clip": config["grad_clip"],
        "temperature_start": config["init_temperature"],
        "temperature_rate": config["log_temperature_lr"],
        "entropy_scale": -config["target_entropy"] / config["act_dim"],
        "evaluation_return": setting["eval_rtg"],
        "exploration_return": setting["online_rtg"],
        "return_scale": 1.0 / setting["reward_scale"],
    }
    return ODT(ODTOptions(**{**options, **changes}))


def spec_of(recording: Recording, section: str) -> Spec:
    mean, std = (np.asarray(recording(f"{section}/state_{name}")) for name in ("mean", "std"))
    config = recording.config
    spread = tuple((std - SPREAD_FLOOR).tolist())  # the file's has the floor in it
    return Spec((config["obs_dim"],), config["act_dim"], mean=tuple(mean.tolist()), std=spread)


def policy_at(recording: Recording, section: str, number: int, like: DecisionTransformer) -> DecisionTransformer:
    """Ours from torch's names: Conv1D is [input, output] as ours is, Linear the other way round."""
    still = set(never_moved(recording, section))

    def leaf(name: str) -> jax.Array:
        return recording(f"{section}/params/{0 if name in still else number}/{name}")

    def affine(name: str, turned: bool, template: Affine) -> Affine:
        kernel = leaf(f"{name}.weight")
        pair = (kernel.T if turned else kernel, leaf(f"{name}.bias"))
        return eqx.tree_at(lambda a: (a.kernel, a.bias), template, pair)

    def norm(name: str, template: Any) -> Any:
        return eqx.tree_at(lambda n: (n.scale, n.shift), template, (leaf(f"{name}.weight"), leaf(f"{name}.bias")))

    def block(index: int) -> Any:
        template = jax.tree.map(lambda values: values[index], like.blocks)
        for ours, theirs in BLOCK.items():
            name, part = f"transformer.h.{index}.{theirs}", getattr(template, ours)
            built = affine(name, False, part) if isinstance(part, Affine) else norm(name, part)
            template = eqx.tree_at(lambda b, ours=ours: getattr(b, ours), template, built)
        return template

    policy = like
    for ours, theirs in LINEAR.items():
        built = affine(theirs, True, getattr(like, ours))
        policy = eqx.tree_at(lambda p, ours=ours: getattr(p, ours), policy, built)
    layers = [block(index) for index in range(like.blocks.up.kernel.shape[0])]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
    norms = (norm("embed_ln", like.norm_tokens), norm("transformer.ln_f", like.norm_output))
    policy = eqx.tree_at(lambda p: (p.blocks, p.norm_tokens, p.norm_output), policy, (stacked, *norms))
    if like.embed_order is None:
        return policy
    return eqx.tree_at(lambda p: p.embed_order, policy, leaf("embed_ordering.weight"))


def never_moved(recording: Recording, section: str) -> list[str]:
    return json.loads(str(recording.arrays[f"{section}/parameters_that_never_move"]))


def batch_of(recording: Recording, section: str, prefix: str, method: ODT) -> Transitions:
    """Windows that start where theirs do, cut from the raw trajectories; beyond an episode's end stands rubbish."""
    steps, rows = method.context, []
    for trajectory, start in zip(
        np.asarray(recording(f"{prefix}/trajectory")), np.asarray(recording(f"{prefix}/start")), strict=True
    ):
        episode = {
            name: np.asarray(recording(f"{section}/trajectory/{trajectory}/{name}"))
            for name in ("observations", "actions", "rewards")
        }
        length = len(episode["rewards"])
        index = np.minimum(start + np.arange(steps), length - 1)
        to_go = np.cumsum(episode["rewards"][::-1])[::-1]
        beyond = start + np.arange(steps) >= length
        rows.append(
            {
                "observations": np.where(beyond[:, None], 7.0, episode["observations"][index]),
                "actions": np.where(beyond[:, None], 0.3, episode["actions"][index]),
                "return_to_go": np.where(beyond, 99.0, to_go[index]),
                "timestep": np.where(beyond, 5, index).astype(np.int32),
                "remaining": np.where(beyond, 3, length - 1 - index).astype(np.int32),
            }
        )
    columns = {name: jnp.asarray(np.stack([row[name] for row in rows])[None]) for name in rows[0]}
    columns = {n: c.astype(jnp.float32) if c.dtype == jnp.float64 else c for n, c in columns.items()}
    nothing = jnp.zeros(columns["return_to_go"].shape)
    return Transitions(
        rewards=nothing,
        next_observations=columns["observations"],
        terminals=nothing,
        reference=nothing,
        **columns,
    )


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("recording", recordings("odt"))
def test_updates(recording: Recording, section: str) -> None:
    method = method_of(recording, section)
    like = method.init(jax.random.key(0), spec_of(recording, section))
    step = replaying(method.update, unrolled=False)
    state = like._replace(policy=Trained.fresh(policy_at(recording, section, 0, like.policy.parameters)))
    assert float(state.log_temperature.parameters) == pytest.approx(
        float(recording(f"{section}/log_temperature/0")), abs=PARAMETERS
    )
    for number in range(1, recording.config["updates"] + 1):
        batch = batch_of(recording, section, f"{section}/batch/{number}", method)
        noise = recording(f"{section}/draw/{number}/entropy_noise")[0]
        source = Draws(iter([("entropy", noise)]))
        before = state
        state = step(state, batch, source)
        expected = policy_at(recording, section, number, like.policy.parameters)
        agree(state.policy.parameters, expected, f"{section}, after update {number}: ")
        temperature = recording(f"{section}/log_temperature/{number}")
        assert float(jnp.abs(state.log_temperature.parameters - temperature)) <= PARAMETERS
        same_gradient(recording, section, number, before, state)


def same_gradient(recording: Recording, section: str, number: int, before: ODTState, after: ODTState) -> None:
    """The clipped gradients that the file holds, from how the first moments moved."""
    moved = jax.tree.map(lambda new, old: (new - 0.9 * old) / 0.1, after.policy.adam.mu, before.policy.adam.mu)
    ours = {
        "embed_state.weight": moved.embed_observation.kernel.T,
        "predict_action.mu.weight": moved.head_mean.kernel.T,
        "transformer.h.0.attn.c_attn.weight": moved.blocks.query_key_value.kernel[0],
        "transformer.h.3.mlp.c_proj.weight": moved.blocks.down.kernel[3],
        "transformer.ln_f.bias": moved.norm_output.shift,
    }
    found = 0
    for name, gradient in ours.items():
        if f"{section}/clipped_grad/{number}/{name}" in recording:
            expected, found = recording(f"{section}/clipped_grad/{number}/{name}"), found + 1
            assert float(jnp.abs(gradient - expected).max()) <= 2e-5 * max(float(jnp.abs(expected).max()), 0.01), name
    assert found


@pytest.mark.parametrize("section", ["gym_full", "antmaze_full"])
@pytest.mark.parametrize("recording", recordings("odt"))
def test_one_pass_with_dropout(recording: Recording, section: str) -> None:
    method = method_of(recording, section, dropout=recording.config["dropout_default"])
    like = method.init(jax.random.key(0), spec_of(recording, section)).policy.parameters
    policy = policy_at(recording, section, 0, like)
    names = {"drop": "embedding", "attn_dropout": "attention", "resid_dropout": "attended", "dropout": "perceptron"}
    kept = recording.under(f"{section}/dropout/kept")
    source = Draws((f"keep/{names[name.split('.')[-1]]}", mask) for name, mask in sorted(kept.items()))
    count = next(iter(kept.values())).shape[0]
    batch = batch_of(recording, section, f"{section}/sequence", method)
    rows = jax.tree.map(lambda column: column[0, :count], batch)
    assert rows.return_to_go is not None
    returns = rows.return_to_go / method.options.return_scale
    with jax.disable_jit(), draws.recorded(source):
        gaussian = policy(returns, rows.observations, rows.actions, rows.timestep, jax.random.key(0))
    assert source.all_used()
    np.testing.assert_allclose(gaussian.mean, recording(f"{section}/dropout/mean"), atol=2e-6)
    np.testing.assert_allclose(jnp.exp(gaussian.log_std), recording(f"{section}/dropout/std"), atol=2e-6)


@pytest.mark.parametrize("kind", ["collect", "evaluate"])
@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("recording", recordings("odt"))
def test_acting(recording: Recording, section: str, kind: str) -> None:
    """Step by step through their scripted environments, with the actions that they took."""
    method = method_of(recording, section)
    like = method.init(jax.random.key(0), spec_of(recording, section)).policy.parameters
    policy = policy_at(recording, section, recording.config["updates"], like)
    prefix = f"{section}/acting/{kind}"
    observations, rewards = recording(f"{prefix}/env_observations"), recording(f"{prefix}/env_rewards")
    lengths = np.asarray(recording(f"{prefix}/episode_length"))
    act = jax.jit(method.act, static_argnames="explore")
    for env, length in enumerate(lengths):
        carry = method.start(policy)
        for step in range(int(length)):
            reward = rewards[step - 1, env] if step else jnp.float32(0.0)
            time_step = TimeStep(observations[step, env], reward, jnp.int32(step))
            if kind == "collect":
                noise = recording(f"{prefix}/noise")[step, env]
                source = Draws(iter([("action", noise)]))
                with jax.disable_jit(), draws.recorded(source):
                    action, carry = method.act(policy, carry, time_step, jax.random.key(0), explore=True)
            else:
                action, carry = act(policy, carry, time_step, jax.random.key(0), explore=False)
            np.testing.assert_allclose(action, recording(f"{prefix}/actions_taken")[step, env], atol=1e-5)


@pytest.mark.parametrize("recording", recordings("odt"))
def test_which_episodes_are_kept(recording: Recording) -> None:
    """The best logged ones, the worst of which make room first: as many as are kept, less those collected."""
    given = np.asarray(recording("replay_buffer/returns_given"))
    kept = np.asarray(recording("replay_buffer/kept_after_each_add"))  # one more collected in each row
    capacity = kept.shape[1]
    worst_first = np.sort(given)
    for collected, theirs in enumerate(kept):
        dropped = int(np.clip(len(given) + collected - capacity, 0, len(given)))  # as the engine counts them
        assert sorted(value for value in theirs if value in given) == worst_first[dropped:].tolist()


def test_a_short_gradient_is_left_alone_and_a_long_one_cut() -> None:
    gradient = {"a": jnp.array([3.0]), "b": jnp.array([4.0])}
    same, cut = clip_by_norm(gradient, 10.0), clip_by_norm(gradient, 0.25)
    assert (float(same["a"][0]), float(same["b"][0])) == (3.0, 4.0)
    assert float(cut["a"][0]) == pytest.approx(0.15, rel=1e-5)
