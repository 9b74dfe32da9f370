"""The running bodies: Gymnasium's v4, to the bit, by a shorter way."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from calql.domains.locomotion.env import EPISODE_LIMIT, RULES, Runner
from calql.system.errors import UserError

BODIES = tuple(RULES)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_step_is_gymnasiums_to_the_bit(body: str, kind: type) -> None:
    ours, theirs = Runner(body), RULES[body].scene()
    rng = np.random.default_rng(0)
    for seed in range(4):  # long enough for hopper and walker to fall, and to be clipped at 10
        assert np.array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
        for _ in range(120):
            action = rng.uniform(-1.0, 1.0, ours.action_space.shape).astype(kind)
            mine, other = ours.step(action), theirs.step(action)
            assert np.array_equal(mine[0], other[0])
            assert mine[1:3] == other[1:3]
            assert mine[4]["x_velocity"] == other[4]["x_velocity"]
            if mine[2]:
                break
        assert mine[2] == (body != "halfcheetah")


def test_a_hopper_that_flies_apart_has_fallen_as_gymnasiums_has() -> None:
    ours, theirs = Runner("hopper"), RULES["hopper"].scene()
    for env in (ours, theirs):
        env.reset(seed=0)
        env.set_state(env.model.qpos0, np.full(env.model.nv, 150.0))
    action = np.zeros(3, np.float32)
    assert ours.step(action)[1:3] == theirs.step(action)[1:3]


def test_the_episode_is_cut_at_1000_steps() -> None:
    env = Runner("halfcheetah")
    env.reset(seed=0)
    ends = [env.step(np.zeros(6, np.float32))[2:4] for _ in range(EPISODE_LIMIT)]
    assert ends == [(False, False)] * (EPISODE_LIMIT - 1) + [(False, True)]
    env.reset(seed=0)
    assert not env.step(np.zeros(6, np.float32))[3]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", BODIES)
def test_gymnasium_accepts_it(body: str) -> None:
    check_env(Runner(body), skip_render_check=True)


def test_an_unknown_body_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'hopper'"):
        Runner("hoper")
