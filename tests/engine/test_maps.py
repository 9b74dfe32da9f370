"""Maps of Q: the plane of states, the panels of each checkpoint, and what a kill leaves of them."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_task import tiny

from calql.data import Dataset
from calql.domains.antmaze.maze import maze
from calql.domains.base import StateMap
from calql.domains.point_maze.maze import MAZE
from calql.engine.maps import BEFORE, END, Maps, states_of
from calql.engine.program import Program
from calql.networks import Spec


def plane() -> StateMap:
    """Two rows of three, one of which is a wall."""
    x, y = np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0])
    free = np.array([[True, True, False], [True, True, True]])
    observations = np.stack(np.meshgrid(x, y), axis=-1).astype(np.float32)
    return StateMap("Q", x, y, observations, free, walls=((1.5, 4.5, 2.5, 5.5),), start=(0.0, 5.0), goal=(2.0, 6.0))


def logged(width: int) -> Dataset:
    """Two steps in the maze: one on the left to the right, one below to the left."""
    seen = np.zeros((2, width), np.float32)
    seen[:, :4] = [[-2.0, 1.0, 1.3, 0.0], [-2.0, -1.0, -1.3, 0.0]]
    ends = np.array([False, True])
    return Dataset(seen, np.zeros((2, 2), np.float32), np.zeros(2, np.float32), seen, ends, np.zeros(2, bool), "two")


def test_panels_hold_q_by_rows_and_null_in_walls(tmp_path: Path) -> None:
    Maps(tmp_path, plane()).add(BEFORE, {("calibrate=true", 3): np.array([1.234, -2.0, 3.0, 4.0, np.nan])})
    found = json.loads((tmp_path / "maps.json").read_text())
    assert found["title"] == "Q"
    assert (found["x"], found["y"]) == ([0.0, 1.0, 2.0], [5.0, 6.0])
    assert found["walls"] == [[1.5, 4.5, 2.5, 5.5]]
    assert (found["start"], found["goal"]) == ([0.0, 5.0], [2.0, 6.0])
    rows = [[1.23, -2.0, None], [3.0, 4.0, None]]
    assert found["panels"] == [{"arm": "calibrate=true", "checkpoint": BEFORE, "seed": 3, "values": rows}]


def test_a_checkpoint_that_comes_again_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    numbers = np.arange(5.0)
    Maps(tmp_path, plane()).add(BEFORE, {0: numbers, 1: numbers})
    Maps(tmp_path, plane()).add(END, {0: numbers})
    Maps(tmp_path, plane()).add(BEFORE, {0: numbers + 1.0})
    panels = json.loads((tmp_path / "maps.json").read_text())["panels"]
    assert [(panel["arm"], panel["checkpoint"], panel["seed"]) for panel in panels] == [
        ("", BEFORE, 0),
        ("", BEFORE, 1),
        ("", END, 0),
    ]
    assert panels[0]["values"][0][0] == 1.0
    assert not list(tmp_path.glob(".*"))


def test_panels_of_before_called_it_a_moment_and_stay(tmp_path: Path) -> None:
    numbers = np.arange(5.0)
    Maps(tmp_path, plane()).add(BEFORE, {0: numbers})
    file = tmp_path / "maps.json"
    file.write_text(file.read_text().replace('"checkpoint"', '"moment"'))
    Maps(tmp_path, plane()).add(END, {0: numbers})
    assert [panel["checkpoint"] for panel in json.loads(file.read_text())["panels"]] == [BEFORE, END]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"panels": [{}]}', '{"title": "another", "panels": []}'])
def test_a_damaged_file_is_begun_anew(text: str, tmp_path: Path) -> None:
    (tmp_path / "maps.json").write_text(text)
    Maps(tmp_path, plane()).add(END, {0: np.arange(5.0)})
    assert len(json.loads((tmp_path / "maps.json").read_text())["panels"]) == 1


def test_states_are_those_where_the_agent_can_be() -> None:
    assert states_of(plane()).tolist() == [[0.0, 5.0], [1.0, 5.0], [0.0, 6.0], [1.0, 6.0], [2.0, 6.0]]


def test_the_point_maze_is_gone_through_with_the_velocities_of_its_data() -> None:
    found = MAZE.state_map(logged(4))
    assert found.observations.shape == (25, 35, 4)
    assert found.free.sum() == 11 * 25  # free cells, of five by five states each
    np.testing.assert_allclose(found.x[[0, -1]], [-3.4, 3.4])
    np.testing.assert_allclose(found.y[[0, -1]], [2.4, -2.4])  # the first row is the top
    assert found.start == (-2.0, 1.0)
    assert found.goal == (-2.0, -1.0)
    row, column = 7, 7  # in the start cell
    assert found.free[row, column]
    np.testing.assert_allclose(found.observations[row, column], [-2.0, 1.0, 1.3, 0.0], atol=1e-6)
    np.testing.assert_allclose(found.observations[17, column], [-2.0, -1.0, -1.3, 0.0], atol=1e-6)
    assert len(found.walls) == 35 - 11
    assert (-3.5, 1.5, -2.5, 2.5) in found.walls


def test_the_ant_maze_has_its_goal_where_data_are_labelled() -> None:
    found = maze("umaze").state_map(logged(29))
    assert found.start == (0.0, 0.0)
    assert found.goal == (0.75, 8.75)
    assert found.observations.shape == (25, 25, 29)
    assert found.y[0] < found.y[-1]  # there y grows with the row


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cal-ql", "iql", "td3-bc", "odt", "bc"])
def test_q_of_a_policy_is_q_of_its_mode(name: str) -> None:
    """Asked of any method by the protocol; one without Q has no map."""
    method, spec = tiny(name), Spec((3,), 2)
    program = Program(method)
    state = program.start(jnp.stack([jax.random.key(0), jax.random.key(1)]), spec)
    seen = jax.random.normal(jax.random.key(2), (5, 3))
    found = program.values_of_policies(state, seen)
    if name in ("odt", "bc"):
        assert found is None
        return
    assert found is not None
    for seed in range(2):
        one = jax.tree.map(lambda leaf, seed=seed: leaf[seed], state)
        actions = method.policy(one)(seen).mode()
        np.testing.assert_allclose(found[seed], method.value(one, seen, actions), rtol=1e-4, atol=1e-5)
