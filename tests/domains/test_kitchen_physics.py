"""The lean model moves as FrankaKitchen-v1's does: positions, velocities, observations and rewards to the bit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from calql.domains.kitchen.data import EVERYBODY, read_demonstrations
from calql.domains.kitchen.env import NOISE, Kitchen, _build_scene, observation_60
from calql.domains.kitchen.physics import out_of_reach

SOURCES = Path(os.environ.get("CALQL_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
needs_sources = pytest.mark.skipif(
    not (SOURCES / EVERYBODY.path).is_file(),
    reason=f"no demonstrations under {SOURCES} (set CALQL_SHARED_DATA)",
)
ARM = range(3, 12)  # bodies
REACHING = (  # joints of the arm in the midst of demonstrations, at doors and handles
    (-1.75, -1.53, 0.94, -1.24, 0.44, 1.4, 1.23, 0.02, 0.02),
    (-1.77, -1.4, 1.1, -1.96, 0.51, 1.77, 0.91, 0.03, 0.02),
    (-1.52, -1.76, 1.77, -1.73, -0.99, 1.24, 2.8, 0.02, 0.02),
)


@pytest.fixture(scope="module")
def env() -> Kitchen:
    return Kitchen("partial")


@pytest.fixture(scope="module")
def plain(env: Kitchen) -> Any:
    """FrankaKitchen-v1 itself."""
    return _build_scene(env.tasks, NOISE, None)


@pytest.fixture(scope="module")
def full(env: Kitchen) -> mujoco.MjModel:
    """Its model, without what is only seen."""
    spec = mujoco.MjSpec.from_file(env.scene.robot_env.fullpath)
    spec.compiler.discardvisual = True
    return spec.compile()


def start_alike(env: Kitchen, plain: Any, qpos: np.ndarray, qvel: np.ndarray) -> None:
    ours = env.reset(seed=5, options={"state": (qpos, qvel)})[0]
    plain.reset(seed=5)
    plain.robot_env.set_state(qpos, qvel)
    theirs = plain._get_obs(plain.robot_env._get_obs())["observation"]
    assert np.array_equal(ours, observation_60(theirs, env.tasks))


def require_alike(env: Kitchen, plain: Any, action: np.ndarray, paid: float) -> float:
    """One step of both; what the plain one has paid so far, which pays newly solved tasks only."""
    ours, reward, *_ = env.step(action)
    theirs, new, *_ = plain.step(action)
    assert np.array_equal(env.scene.data.qpos, plain.data.qpos)
    assert np.array_equal(env.scene.data.qvel, plain.data.qvel)
    assert np.array_equal(ours, observation_60(theirs["observation"], env.tasks))
    assert reward == paid + new
    return reward


def touched(env: Kitchen) -> int:
    """Contacts of the arm."""
    bodies = env.scene.model.geom_bodyid
    return sum(any(bodies[geom] in ARM for geom in contact.geom) for contact in env.scene.data.contact)


@pytest.mark.parametrize("joints", REACHING)
def test_an_arm_among_things_moves_as_in_franka_kitchen_to_the_bit(
    env: Kitchen, plain: Any, joints: tuple[float, ...]
) -> None:
    start_alike(env, plain, np.concatenate([joints, plain.robot_env.init_qpos[9:]]), np.zeros(29))
    contacts, paid = 0, 0.0
    for action in np.random.default_rng(1).uniform(-1.2, 1.2, (25, 9)):
        paid = require_alike(env, plain, action, paid)
        contacts += touched(env)
    assert contacts > 0


@pytest.mark.slow
def test_random_actions_lead_where_they_lead_in_franka_kitchen(env: Kitchen, plain: Any) -> None:
    env.reset(seed=7)
    plain.reset(seed=7)
    paid = 0.0
    for action in np.random.default_rng(2).uniform(-1.2, 1.2, (1000, 9)):
        paid = require_alike(env, plain, action, paid)


@pytest.mark.slow
@needs_sources
@pytest.mark.parametrize("index", [3, 300])
def test_a_demonstration_leads_where_it_leads_in_franka_kitchen(env: Kitchen, plain: Any, index: int) -> None:
    recorded = read_demonstrations(SOURCES / EVERYBODY.path)
    rows = recorded.rows(index)
    v1, actions = recorded.observations[rows].astype(np.float64), recorded.actions[rows]
    first = v1[0]
    start_alike(env, plain, np.concatenate([first[:9], first[18:39]]), np.concatenate([first[9:18], first[39:]]))
    contacts, paid = 0, 0.0
    for seen, action in zip(v1, actions, strict=True):
        env.seen[:9] = seen[:9]
        plain.robot_env._last_robot_qpos = seen[:9]
        paid = require_alike(env, plain, action, paid)
        contacts += touched(env)
    assert contacts > 0
    assert paid > 0


def test_pairs_out_of_reach_stay_apart_at_any_angle(full: mujoco.MjModel) -> None:
    data, rng = mujoco.MjData(full), np.random.default_rng(0)
    geoms = {
        full.body(b).name: range(full.body_geomadr[b], full.body_geomadr[b] + full.body_geomnum[b])
        for b in range(full.nbody)
    }
    hinges = full.jnt_qposadr[full.jnt_type == mujoco.mjtJoint.mjJNT_HINGE]
    pairs = out_of_reach(full)
    for _ in range(3):
        data.qpos[hinges] = rng.uniform(-np.pi, np.pi, len(hinges))
        mujoco.mj_kinematics(full, data)
        for still, moving in pairs:
            for one in geoms[still]:
                for other in geoms[moving]:
                    assert mujoco.mj_geomDistance(full, data, one, other, 0.005, None) >= 0.005, (still, moving)


def test_only_what_hangs_on_hinges_can_be_out_of_reach(full: mujoco.MjModel) -> None:
    pairs = out_of_reach(full)
    assert ("world", "panda0_link7") in pairs  # the floor
    assert ("counters", "panda0_link4") in pairs
    assert ("counters", "panda0_link7") not in pairs  # the hand gets there
    sliding_or_free = {"panda0_leftfinger", "panda0_rightfinger", "slidelink", "kettleroot", "kettle"}
    assert not {moving for _, moving in pairs} & sliding_or_free


def test_a_longer_hinge_chain_comes_into_reach() -> None:
    def pairs(length: float) -> list[tuple[str, str]]:
        return out_of_reach(
            mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody>
              <body name="wall" pos="1 0 0"><geom type="box" size=".1 1 1"/></body>
              <body name="upper"><joint axis="0 1 0"/><geom size=".05"/>
                <body name="lower" pos="0 0 {length}"><joint axis="0 1 0"/><geom size=".05" pos="0 0 .3"/></body>
              </body>
            </worldbody></mujoco>""")
        )

    assert pairs(0.5) == [("wall", "upper"), ("wall", "lower")]  # 0.5 + 0.3 + 0.05 of 0.9
    assert pairs(0.6) == [("wall", "upper")]


def test_what_stands_still_keeps_its_mass_and_is_boxed_along_its_axes(env: Kitchen, full: mujoco.MjModel) -> None:
    lean, name = env.scene.model, "counters"
    assert np.array_equal(lean.body(name).iquat, [1, 0, 0, 0])
    assert not np.allclose(full.body(name).iquat, [1, 0, 0, 0])
    assert np.array_equal(lean.body_mass, full.body_mass)
    assert np.array_equal(lean.body_ipos, full.body_ipos)
    moving = full.body_weldid > 0
    assert np.array_equal(lean.body_iquat[moving], full.body_iquat[moving])
    assert np.array_equal(lean.body_inertia[moving], full.body_inertia[moving])
