"""Rounds: episodes from files do what the same episodes do online, each once; any round can be gone back to."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import calql
import corridor
from calql.data import write_npz
from calql.domains.registry import get_task
from calql.engine.episodes import Episode
from calql.engine.run import Run
from calql.results import read_rows
from calql.runs.rounds import branch, project, store
from calql.runs.rounds.collecting import write_episode
from calql.runs.rounds.ledger import read_ledger
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

ENV = "corridor:Corridor-v0"
MAZE: dict[str, Any] = {"task": "point-maze-quick", "episode_limit": 50}
TINY: dict[str, Any] = {
    "policy_widths": (8,), "critic_widths": (8,), "sampled_actions": 2, "backup_actions": 2, "batch_size": 8,
    "seeds": 2, "offline_updates": 12, "evaluate_offline_every": 12, "evaluate_online_every": 15,
    "evaluation_episodes": 1, "block": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corridor.write_demonstrations(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Episode]]]:
    """A run that plays its episodes itself in a simulator, and what each seed played."""
    played: list[list[Episode]] = [[], []]
    insert = Run._insert

    def note(run: Run, episodes: Sequence[Episode | None]) -> None:
        for mine, episode in zip(played, episodes, strict=True):
            mine += [] if episode is None else [episode]
        insert(run, episodes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_insert", note)
        folder = tmp_path_factory.mktemp("online") / "run"
        calql.train(**MAZE, out=folder, online_steps=190, **TINY)
    return folder, played


def state(folder: Path) -> dict[str, Any]:
    """What the last checkpoint holds of parameters, optimisers and buffers."""
    newest = max((folder / "checkpoints").glob("*.npz"), key=lambda path: int(path.stem))
    with np.load(newest) as arrays:
        names = [name for name in arrays.files if name.split("/")[0] in ("state", "replay", "inserted", "updates")]
        return {name: arrays[name] for name in names}


def test_three_rounds_equal_the_online_run_to_the_byte(
    online: tuple[Path, list[list[Episode]]], tmp_path: Path
) -> None:
    run, played = online
    assert [len(mine) for mine in played] == [4, 4]
    rounds = calql.Rounds.start(tmp_path / "p", **MAZE, share=False, progress=False, **TINY)
    space = get_task(MAZE["task"]).make_env().action_space
    assert isinstance(space, gymnasium.spaces.Box)
    cuts = [[0, 1, 3, 99], [0, 2, 3, 99]]
    for number in range(3):
        for seed, mine in enumerate(played):
            part = tmp_path / f"{number}-{seed}"
            for episode in mine[cuts[seed][number] : cuts[seed][number + 1]]:
                write_episode(part, episode, space, {"policy": None, "seed": seed})
            rounds.add(part)
        assert rounds.train(progress=False).finished
    last = tmp_path / "p" / "rounds" / "003"
    own, theirs = (folder / "metrics.jsonl" for folder in (run, last))
    assert len(read_rows(theirs)) > 8
    assert own.read_bytes().startswith(theirs.read_bytes())
    rest = own.read_text().removeprefix(theirs.read_text()).splitlines()  # of the end, which a round puts beside them
    assert set(rest) <= set((last / "standing.jsonl").read_text().splitlines())
    expected, found = state(run), state(last)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        assert array.tobytes() == found[name].tobytes(), name


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of logs alone, with one round trained on episodes of a robot's recorder."""
    folder = tmp_path_factory.mktemp("alone") / "p"
    small = {**TINY, "fqe_updates": 20, "hold_out": 0.25}
    rounds = calql.Rounds.start(folder, dataset=data, action_low=(-2.0,), action_high=(2.0,), progress=False, **small)
    record(folder.parent / "monday", rounds.policy, 3, seed=1)
    added = rounds.add(folder.parent / "monday")
    assert (added.episodes, added.repeated) == (3, [])
    assert not any("time limit" in note for note in added.notes)  # logs set none
    assert rounds.train(progress=False).finished
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one seed, started with objects of Python, and one round after the first."""
    folder = tmp_path_factory.mktemp("trained") / "p"
    given: dict[str, Any] = {"dataset": corridor.demonstrations(), "env": corridor.Corridor, "episode_limit": 20}
    rounds = calql.Rounds.start(folder, progress=False, probe=False, **given, **{**TINY, "seeds": 1})
    record(folder.parent / "monday", rounds.policy, 3)
    rounds.add(folder.parent / "monday")
    assert rounds.train(progress=False).finished
    return folder


def record(folder: Path, policy_folder: Path, episodes: int, first: int = 0, seed: int = 0) -> None:
    """What a control loop does on another machine; episodes may be longer than any logged one."""
    policy = calql.load_policy(policy_folder, seed=seed, explore=True)
    with calql.Recorder(folder, policy) as recorder:
        for number in range(first, first + episodes):
            env = corridor.Corridor()
            seen, _ = env.reset(seed=number)
            policy.reset()
            recorder.start(seen)
            for step in range(30):
                action = policy(seen)
                seen, reward, over, _, info = env.step(action)
                recorder.step(action, reward, seen, over, step == 29, success=info["success"])
                if over:
                    break


def test_without_an_environment(alone: Path) -> None:
    ledger = read_ledger(alone)
    assert [each.episodes for each in ledger.rounds] == [(), tuple(ledger.entries)]
    assert {(entry.round, entry.seed) for entry in ledger.entries.values()} == {(0, 1)}  # by the policy's checksum
    rows = read_rows(alone / "rounds" / "001" / "standing.jsonl")
    steps = sum(entry.steps for entry in ledger.entries.values())
    assert [row["env_steps"] for row in rows] == [steps, steps]  # all seeds share what one collected
    assert [row["update"] for row in rows] == [12 + steps] * 2
    assert all(row["score"] is None and np.isfinite(row["fqe_value"]) for row in rows)
    first, second = calql.Rounds(alone).rounds
    assert len(first.returns) == 3
    assert "value" in second.evaluated
    assert calql.load_policy(alone / "rounds" / "001")(np.zeros(2, np.float32)).shape == (1,)


def test_an_episode_comes_in_once(trained: Path, data: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(trained, tmp_path / "p"))
    rounds, monday = calql.Rounds(place), trained.parent / "monday"
    again = rounds.add(monday, data)
    assert again.episodes == 0
    assert sum("is there already (added" in text for text in again.repeated) == 3
    assert sum("is in the data that the project was started with" in text for text in again.repeated) == 12
    other = np.load(monday / "episode-00000.npz")
    np.savez_compressed(tmp_path / "renamed.npz", **{name: other[name] for name in other.files if name != "collected"})
    assert rounds.add(tmp_path / "renamed.npz").episodes == 0  # known by its content, not by its file
    with pytest.raises(UserError, match="no new episode waits"):
        rounds.train(progress=False)


def test_the_page_records_what_can_be_added(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(trained, tmp_path / "robot")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "rounds.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(block, {"env": gymnasium.make(ENV)})
    added = calql.Rounds("robot").add("monday")
    assert added.episodes == 10
    first, second = calql.Rounds("robot").rounds
    assert (len(first.returns), len(second.returns)) == (3 + 10, 0)  # by round 0's policy, whatever is present


def test_going_back_and_on(trained: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(trained, tmp_path / "p"))
    rounds = calql.Rounds(place)
    first = {path.name: path.read_bytes() for path in (place / "rounds" / "001").rglob("*") if path.is_file()}
    rounds.back(0, keep_episodes=True)
    assert rounds.policy == place / "rounds" / "000" / "policy"
    assert rounds.train(progress=False).finished
    ledger = read_ledger(place)
    assert (ledger.current, ledger.rounds[2].parent, len(ledger.rounds)) == (2, 0, 3)
    assert (place / "rounds" / "002" / "standing.jsonl").read_bytes() == first["standing.jsonl"]  # the same again
    assert {path.name: path.read_bytes() for path in (place / "rounds" / "001").rglob("*") if path.is_file()} == first
    rounds.back(1)
    record(tmp_path / "tuesday", rounds.policy, 1, first=7)
    rounds.add(tmp_path / "tuesday")
    assert rounds.train(progress=False).finished
    ledger = read_ledger(place)
    assert (ledger.current, ledger.rounds[3].parent, ledger.aside) == (3, 1, [])
    with pytest.raises(UserError, match="there is no round 7 that has ended; its rounds are 0, 1, 2, 3"):
        rounds.back(7)


def test_a_kill_at_any_step_of_a_round_is_made_good(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written next is not; the same command then comes to the same end."""

    class Killed(BaseException):
        pass

    def kill(*_: Any, **__: Any) -> Any:
        raise Killed

    folder = Path(shutil.copytree(trained, tmp_path / "p"))
    rounds = calql.Rounds(folder)
    record(tmp_path / "tuesday", rounds.policy, 2, first=4)
    expected = Path(shutil.copytree(folder, tmp_path / "whole"))
    calql.Rounds(expected).add(tmp_path / "tuesday")
    calql.Rounds(expected).train(progress=False)
    adding = [(store.np, "savez"), (project, "write_ledger")]
    training = [(project, "write_ledger"), (branch.os, "replace"), (project, "branch"), (Run, "_write_standing")]
    training += [(project, "_note_trained")]
    for module, name in adding:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, kill)
            with pytest.raises(Killed):
                rounds.add(tmp_path / "tuesday")
        assert not read_ledger(folder).inbox
    assert rounds.add(tmp_path / "tuesday").episodes == 2
    for module, name in training:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, kill)
            with pytest.raises(Killed):
                rounds.train(progress=False)
        assert calql.Rounds(folder).current == 1
    assert rounds.train(progress=False).finished
    for name in ("metrics.jsonl", "standing.jsonl"):
        assert (folder / "rounds" / "002" / name).read_bytes() == (expected / "rounds" / "002" / name).read_bytes()
    assert read_ledger(folder).rounds[2].episodes == read_ledger(expected).rounds[2].episodes
    found, wanted = state(folder / "rounds" / "002"), state(expected / "rounds" / "002")
    assert all(found[name].tobytes() == array.tobytes() for name, array in wanted.items())


def test_bad_episodes_are_refused_or_dropped(trained: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(trained, tmp_path / "p"))
    rounds, good = calql.Rounds(place), corridor.demonstrations(20).select_episodes([15, 16, 17])
    jumping = good.observations.copy()
    jumping[1] += 3.0
    write_npz(replace(good, observations=jumping), tmp_path / "jumps.npz")
    with pytest.raises(UserError, match="1 of 3 episodes is bad: its rows do not follow from each other"):
        rounds.add(tmp_path / "jumps.npz")
    added = rounds.add(tmp_path / "jumps.npz", drop_bad_episodes=True)
    assert added.episodes == 2
    assert any("1 of 3 episodes dropped" in note for note in added.notes)
    write_npz(replace(good, actions=50 * good.actions), tmp_path / "units.npz")
    with pytest.raises(UserError, match="different units"):
        rounds.add(tmp_path / "units.npz")
    wide = [np.tile(column, 2) for column in (good.observations, good.next_observations)]
    write_npz(replace(good, observations=wide[0], next_observations=wide[1]), tmp_path / "wide.npz")
    with pytest.raises(UserError, match=r"of shape \(4,\), and those of the project float32 of shape \(2,\)"):
        rounds.add(tmp_path / "wide.npz", drop_bad_episodes=True)
    assert len(read_ledger(place).inbox) == 2


def test_a_strangers_reward_function_is_not_imported(trained: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(trained, tmp_path / "p"))
    path = place / "rounds" / "001" / "config.json"
    config = json.loads(path.read_text())
    config["choice"]["reward"] = "strange_module:reward"
    path.unlink()
    path.write_text(json.dumps(config))
    with pytest.raises(UserError, match="imports the module 'strange_module'"):
        calql.Rounds(place).add(trained.parent / "monday")


def test_an_environment_in_the_projects_bounds(alone: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(alone, tmp_path / "p"))
    with pytest.raises(UserError, match="started without an environment"):
        calql.Rounds(place).collect(1)
    files = calql.Rounds(place).collect(2, env=ENV)
    assert calql.Rounds(place).add(*files).episodes == 2
    (entry, _) = (read_ledger(place).entries[each] for each in read_ledger(place).inbox)
    assert (entry.round, entry.seed) == (1, 0)
