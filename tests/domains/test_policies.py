"""Stored policies: every layout by hand-made weights, and the real ones where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from calql.domains.common.policies import load_policy
from calql.system.errors import UserError

SHARED = Path(os.environ.get("CALQL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))


def arrays(rng: np.random.Generator, **shapes: tuple[int, int]) -> dict[str, np.ndarray]:
    made = {}
    for name, shape in shapes.items():
        made[f"{name}_weight"] = rng.normal(size=shape).astype(np.float32)
        made[f"{name}_bias"] = rng.normal(size=shape[0]).astype(np.float32)
    return made


def test_d4rl_tanh_gaussian(tmp_path: Path) -> None:
    stored = arrays(np.random.default_rng(0), fc0=(4, 3), fc1=(4, 4), last_fc=(2, 4), last_fc_log_std=(2, 4))
    np.savez(tmp_path / "p.npz", **stored)  # type: ignore[arg-type]
    policy = load_policy(tmp_path / "p.npz")
    x = np.array([0.3, -1.0, 2.0], np.float32)
    hidden = np.maximum(stored["fc0_weight"] @ x + stored["fc0_bias"], 0)
    hidden = np.maximum(stored["fc1_weight"] @ hidden + stored["fc1_bias"], 0)
    expected = np.tanh(stored["last_fc_weight"] @ hidden + stored["last_fc_bias"])
    assert np.allclose(policy.mode(x), expected, atol=1e-6)
    assert np.allclose(policy.mode(np.stack([x, x]))[1], expected, atol=1e-6)
    assert (len(policy.hidden[0][0]), policy.action_size) == (3, 2)
    draws = [policy.sample(x, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_constant_spread_wins_over_the_unused_head(tmp_path: Path) -> None:
    stored = arrays(np.random.default_rng(0), fc0=(4, 3), last_fc=(2, 4), last_fc_log_std=(2, 4))
    stored |= {"nonlinearity": np.array("tanh"), "output_distribution": np.array("gaussian")}
    stored["log_std"] = np.full(2, -20.0, np.float32)
    np.savez(tmp_path / "p.npz", **stored)  # type: ignore[arg-type]
    policy = load_policy(tmp_path / "p.npz")
    x = np.array([0.1, 0.2, 0.3])
    hidden = np.tanh(stored["fc0_weight"] @ x + stored["fc0_bias"])
    expected = np.clip(stored["last_fc_weight"] @ hidden + stored["last_fc_bias"], -1, 1)
    assert np.allclose(policy.sample(x, np.random.default_rng(0)), expected, atol=1e-5)


def test_deterministic_and_stable_baselines(tmp_path: Path) -> None:
    stored = arrays(np.random.default_rng(0), fc0=(4, 3), last_fc=(2, 4))
    stored["output_distribution"] = np.array("deterministic")
    np.savez(tmp_path / "d.npz", **stored)  # type: ignore[arg-type]
    policy = load_policy(tmp_path / "d.npz")
    x = np.ones(3)
    assert np.array_equal(policy.sample(x, np.random.default_rng(0)), policy.mode(x))
    stored = arrays(
        np.random.default_rng(0),
        actor_latent_pi_0=(4, 3),
        actor_latent_pi_2=(4, 4),
        actor_mu=(2, 4),
        actor_log_std=(2, 4),
    )
    np.savez(tmp_path / "s.npz", **stored)  # type: ignore[arg-type]
    policy = load_policy(tmp_path / "s.npz")
    assert len(policy.hidden) == 2
    assert np.abs(policy.sample(x, np.random.default_rng(0))).max() <= 1.0


def test_unknown_layouts_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", weights=np.zeros(3))
    with pytest.raises(UserError, match="no known policy layout"):
        load_policy(tmp_path / "p.npz")
    (tmp_path / "t.npz").write_text("no archive")
    with pytest.raises(UserError, match="not a readable"):
        load_policy(tmp_path / "t.npz")


@pytest.mark.parametrize("folder", ["d4rl_policies", "sb3_experts"])
def test_every_stored_policy_acts(folder: str) -> None:
    files = sorted((SHARED / folder).glob("*.npz"))
    if not files:
        pytest.skip(f"needs the stored policies of {folder} (CALQL_SHARED_DATA)")
    for path in files:
        policy = load_policy(path)
        action = policy.sample(np.zeros(len(policy.hidden[0][0])), np.random.default_rng(0))
        assert action.shape == (policy.action_size,)
        assert np.abs(action).max() <= 1.0, path.name
