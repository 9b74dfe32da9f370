"""Columns under other names: the command that the error gives reads the file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import corridor
from calql.data import Dataset, Reading, load
from calql.data.hints import role_of, table_example
from calql.data.reading import EXAMPLE
from calql.system.errors import UserError


def suggested(path: Path) -> Reading:
    """What the error of reading it says to give."""
    with pytest.raises(UserError) as raised:
        load(path)
    return Reading(columns=tuple(str(raised.value).partition("--columns ")[2].split()))


def same(found: Dataset, data: Dataset) -> None:
    for name in ("observations", "actions", "rewards", "next_observations", "terminals", "truncated"):
        np.testing.assert_array_equal(getattr(found, name), getattr(data, name))


@pytest.mark.parametrize(
    "names",
    [
        ("obs", "act", "rew", "next_obs", "done"),
        ("state", "action", "reward", "next_state", "dones"),
        ("observations", "actions", "r", "next_observations", "terminated"),
        ("observations", "actions", "rewards", "next_observations", "done"),
    ],
)
def test_an_archive_under_other_names(names: tuple[str, ...], tmp_path: Path) -> None:
    data = corridor.demonstrations()
    columns = (data.observations, data.actions, data.rewards, data.next_observations, data.terminals)
    assert data.terminals[data.episode_ends].all()
    np.savez(tmp_path / "mine.npz", **dict(zip(names, columns, strict=True)))  # type: ignore[arg-type]
    same(load(tmp_path / "mine.npz", suggested(tmp_path / "mine.npz")), data)


def test_a_table_of_columns_with_names_of_their_own(tmp_path: Path) -> None:
    data, path = corridor.demonstrations(), tmp_path / "log.csv"
    episode = np.repeat(np.arange(len(data.episode_ends)), data.episode_lengths)
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["run_id", "place", "speed", "motor", "rew", "done"])
        for row in range(len(data)):
            numbers = (*data.observations[row], *data.actions[row], data.rewards[row], data.terminals[row])
            lines.writerow([episode[row], *map(float, numbers)])
    found = load(path, suggested(path))
    np.testing.assert_allclose(found.observations, data.observations, rtol=1e-6)
    np.testing.assert_allclose(found.actions, data.actions, rtol=1e-6)
    np.testing.assert_array_equal(found.terminals, data.terminals)


def test_a_table_with_what_each_column_is_after_the_step(tmp_path: Path) -> None:
    data, path = corridor.demonstrations(), tmp_path / "log.csv"
    episode = np.repeat(np.arange(len(data.episode_ends)), data.episode_lengths)
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["episode", "x", "y", "ax", "reward", "terminal", "timeout", "next_x", "next_y"])
        for row in range(len(data)):
            ends = int(data.terminals[row]), int(data.truncated[row])
            numbers = (*data.observations[row], *data.actions[row], data.rewards[row])
            lines.writerow([episode[row], *map(float, numbers), *ends, *map(float, data.next_observations[row])])
    assert suggested(path).columns == ("observation=x,y", "next_observation=next_x,next_y", "action=ax")
    same(load(path, suggested(path)), data)


def test_an_action_is_not_guessed() -> None:
    assert table_example(["x", "y", "speed"]) == EXAMPLE
    assert table_example(["x", "angle", "u_1", "u_2"]) == "for example --columns observation=x,angle action=u_1,u_2"
    assert table_example(["x", "y", "next_x", "ctrl_x"]) == "for example --columns observation=x,y action=ctrl_x"


def test_names_of_episodes_and_ends_that_people_give() -> None:
    names = ["ep", "x", "y", "ax", "ay", "rew", "term", "trunc"]
    said = "action=ax,ay episode=ep reward=rew terminal=term timeout=trunc"
    assert table_example(names) == f"for example --columns observation=x,y {said}"


def test_what_was_given_stays() -> None:
    names = ["ep", "x", "y", "a1", "a2", "rew", "term"]
    given = ("observation=x,y", "action=a?", "reward=rew")
    assert table_example(names, given) == (
        "for example --columns observation=x,y 'action=a?' reward=rew episode=ep terminal=term"
    )
    assert table_example(["x", "y", "a1"], given) == "name it beside the others in --columns, as ROLE=NAME"


def test_nothing_is_guessed_where_nothing_can_be() -> None:
    assert table_example(["alone"]) == EXAMPLE
    assert table_example([f"column_{place}" for place in range(30)]) == EXAMPLE
    assert table_example(["a b", "c", "d"]) == EXAMPLE  # a shell would take it apart
    assert table_example(["obs_x", "obs_y", "act"]) == "for example --columns observation=obs_x,obs_y action=act"
    assert role_of("Rew") == "reward"
    assert role_of("friction") is None
