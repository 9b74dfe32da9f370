"""Discrete actions through a whole run: from a file of whole numbers to a policy that gives them, and what is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
import toy_task as toy
from gymnasium import spaces
from test_probe import TINY

import calql
from calql.cli import main
from calql.data import Dataset, write_npz
from calql.engine.boundary import Boundary
from calql.engine.episodes import Request
from calql.engine.plan import make_plan
from calql.engine.run import Run
from calql.results import Silent
from calql.system.errors import UserError

pytestmark = pytest.mark.slow


def balanced(folder: Path, episodes: int = 6) -> Path:
    """CartPole by a rule of thumb that errs now and then."""
    env, rng = gymnasium.make("CartPole-v1"), np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = []
    for episode in range(episodes):
        seen, _ = env.reset(seed=episode)
        over = False
        while not over:
            action = int(seen[2] + 0.5 * seen[3] > 0) if rng.random() > 0.5 else int(rng.integers(2))
            following, reward, terminal, cut, _ = env.step(action)
            rows.append((seen, action, reward, following, terminal, cut and not terminal))
            seen, over = following, terminal or cut
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
    columns = dict(zip(names, (np.array(column) for column in zip(*rows, strict=True)), strict=True))
    assert columns["actions"].dtype.kind == "i"
    np.savez(folder / "cart.npz", **columns)  # type: ignore[arg-type]
    return folder / "cart.npz"


@pytest.mark.parametrize("method", ["cal-ql", "dqn"])
def test_from_a_file_to_a_policy(method: str, tmp_path: Path) -> None:
    """Train, evaluate, report; the policy gives whole numbers for one observation and for many."""
    data, out = balanced(tmp_path), tmp_path / "run"
    words = "--seeds 1 --offline-updates 20 --online-steps 30 --evaluate-offline-every 20 --evaluate-online-every 30"
    widths = "--critic-widths 8" + (" --policy-widths 8" if method == "cal-ql" else "")
    command = f"train --dataset {data} --env CartPole-v1 --method {method} --quiet --workers 0 --batch-size 8"
    assert (
        main([*command.split(), *words.split(), *widths.split(), "--evaluation-episodes", "1", "--out", str(out)]) == 0
    )
    assert main(["evaluate", str(out), "--episodes", "2"]) == 0
    assert main(["report", str(out)]) == 0
    policy = calql.load_policy(out)
    env = gymnasium.make("CartPole-v1")
    seen, _ = env.reset(seed=0)
    action = policy(seen)
    assert type(action) is int
    env.step(action)
    policy.reset()
    actions = policy(np.stack([seen] * 3))
    assert actions.shape == (3,)
    assert actions.dtype.kind == "i"
    assert env.action_space.contains(actions[0])
    config = json.loads((out / "config.json").read_text())
    assert config["environment"]["action"] == {"choices": 2, "start": 0}
    described = json.loads((out / "policy" / "policy.json").read_text())
    assert described["action"] == {"choices": 2, "start": 0, "from": "one-hot", "masked": False}


class Within(toy.Choosing):
    """The same with its mask among its observations; whole numbers from 5 on."""

    observation_space = spaces.Dict(  # type: ignore[assignment]
        {"observation": toy.Line.observation_space, "action_mask": spaces.MultiBinary(toy.CHOICES)}
    )
    action_space = spaces.Discrete(toy.CHOICES, start=5)  # type: ignore[assignment]

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        seen, info = super().reset(**kwargs)
        return {"observation": seen, "action_mask": info.pop("action_mask")}, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        seen, *rest, info = super().step(action - 5)
        return {"observation": seen, "action_mask": info.pop("action_mask")}, *rest, info  # type: ignore[return-value]


def recorded(*, start: int = 0) -> Dataset:
    from dataclasses import replace

    data = toy.record(toy.Choosing())
    return replace(data, actions=data.actions + start)


MAKERS = {"info": (toy.Choosing, 0), "dictionary": (Within, 5)}


@pytest.mark.parametrize("schedule", ["trajectory", "step"])
@pytest.mark.parametrize("kind", MAKERS)
def test_masks_of_an_environment_are_kept_to(kind: str, schedule: str, tmp_path: Path) -> None:
    """The environment raises at a forbidden action; some steps are random, and the masks are in the buffer."""
    make, start = MAKERS[kind]
    outcome = calql.train(
        dataset=recorded(start=start),
        env=make,
        out=tmp_path / "run",
        progress=False,
        episode_limit=toy.LIMIT,
        **{**TINY, "online_steps": 30, "warmup_steps": 10, "warmup_actions": "random", "update_schedule": schedule},
        workers=0,
    )
    assert outcome.finished
    policy, env = calql.load_policy(outcome.folder, explore=True), make()
    seen, info = env.reset(seed=3)
    for _ in range(toy.LIMIT):
        told = {} if kind == "dictionary" else {"mask": info["action_mask"]}
        seen, _, over, _, info = env.step(policy(seen, **told))
        if over:
            break
    if kind == "info":
        policy.reset()
        with pytest.raises(UserError, match=r"has to be told which actions are allowed; .*info\['action_mask'\]"):
            policy(env.reset(seed=0)[0])
        with pytest.raises(UserError, match=r"the mask has shape \(3,\) and allows 0 actions"):
            policy(env.reset(seed=0)[0], mask=np.zeros(3))
    assert calql.evaluate(outcome.folder, 2)["episodes"] == 2


@pytest.mark.parametrize("schedule", ["trajectory", "step"])
@pytest.mark.parametrize("name", ["cal-ql", "dqn"])
def test_stopped_and_resumed_is_never_interrupted(name: str, schedule: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"online_steps": 20, "evaluate_online_every": 5, "update_schedule": schedule, "block": 2}

    def begun(folder: Path) -> Run:
        folder.mkdir(exist_ok=True)
        options = toy.run_options(name, **changes)
        method, data = toy.tiny(name, discrete=True), toy.data(discrete=True)
        return Run(make_plan(name, toy.task(discrete=True), method, options, data, None, 0.99), folder, Silent())

    whole = begun(tmp_path / "whole")
    assert whole.execute(lambda: False)
    whole.close()
    looks = 0

    def soon() -> bool:
        nonlocal looks
        looks += 1
        return looks > 6

    cut = begun(tmp_path / "cut")
    assert not cut.execute(soon)
    cut.close()
    again = begun(tmp_path / "cut")
    again.restore()
    again.output.metrics.truncate(again.output.rows_written)
    assert again.online
    assert again.execute(lambda: False)
    again.close()
    assert (tmp_path / "cut" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    toy.same(again.learning.state, whole.learning.state)
    toy.same(again.replay, whole.replay)
    masks = np.asarray(whole.replay.rows.action_masks)
    assert masks.dtype == bool
    chosen = np.asarray(whole.replay.rows.actions) > 0
    assert not (chosen & ~masks).any()


class Sent(gymnasium.Env[np.ndarray, int]):
    """Notes what it is sent; its infos are given."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, *infos: dict[str, Any]) -> None:
        self.infos, self.sent = list(infos), []

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), self.infos.pop(0)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.sent.append(action)
        return np.zeros(1, np.float32), 0.0, not self.infos[1:], False, self.infos.pop(0)


def test_what_is_forbidden_is_not_sent() -> None:
    env, request = (
        Sent({"action_mask": [1, 0, 1]}, {"action_mask": [0, 1, 0]}, {"action_mask": [0, 0, 0]}),
        Request((0, 0, 0)),
    )
    boundary = Boundary(lambda: env, 0.0)
    trajectory = boundary.reset(env, request)
    with pytest.raises(UserError, match="seed 0, collected episode 0, step 1: action 1 is forbidden, and was not sent"):
        boundary.step(env, trajectory, np.eye(3)[1])
    assert env.sent == []
    assert boundary.step(env, trajectory, np.eye(3)[2])
    assert not boundary.step(env, trajectory, np.eye(3)[1])
    assert env.sent == [2, 1]
    masks = trajectory.episode().masks
    np.testing.assert_array_equal(masks, [[1, 0, 1], [0, 1, 0], [1, 1, 1]])  # nothing is chosen after the end
    drawn = {int(np.argmax(request.uniform_action(step, 3, np.array([1, 0, 1], bool)))) for step in range(50)}
    assert drawn == {0, 2}


@pytest.mark.parametrize(
    ("infos", "said"),
    [
        (({},), r"reset\(\) gave no 'action_mask', and the data have masks"),
        (({"action_mask": [0, 0, 0]},), r"reset\(\) gave an 'action_mask' that forbids every action"),
        (({"action_mask": [1, 1]},), r"reset\(\): its action_mask has shape \(2,\), not \(3,\)"),
    ],
)
def test_a_mask_that_says_nothing_ends_the_run(infos: tuple[dict[str, Any], ...], said: str) -> None:
    env = Sent(*infos)
    with pytest.raises(UserError, match=said):
        Boundary(lambda: env, 0.0, masked=True).reset(env, Request((0, 0, 0)))


def test_data_given_as_an_object_keep_their_masks_in_the_run_folder(tmp_path: Path) -> None:
    given = recorded()
    small = {**TINY, "online_steps": 10}
    outcome = calql.train(
        dataset=given,
        env=toy.Choosing,
        out=tmp_path / "run",
        progress=False,
        episode_limit=toy.LIMIT,
        workers=0,
        **small,
    )
    longer = calql.resume(outcome.folder, progress=False, online_steps=20, trust=True)
    assert longer.finished
    with np.load(outcome.folder / "data.npz") as kept:
        np.testing.assert_array_equal(kept["action_masks"], given.action_masks)
        assert kept["actions"].dtype == np.int64


def test_sweeps_and_files_of_masks(tmp_path: Path) -> None:
    """Two arms of one program, on data read from a file with masks."""
    path = write_npz(recorded(), tmp_path / "logs.npz")
    small = {**TINY, "online_steps": 0}
    outcome = calql.train(
        dataset=path,
        env=toy.Choosing,
        out=tmp_path / "run",
        vary={"calibrate": (True, False)},
        progress=False,
        episode_limit=toy.LIMIT,
        workers=0,
        **small,
    )
    assert len({row["arm"] for row in outcome.rows}) == 2


def test_the_grid_is_filmed_without_a_forbidden_move(tmp_path: Path) -> None:
    assert main(["render", "cliff-grid-masked", "--out", str(tmp_path / "walk.gif")]) == 0
    assert (tmp_path / "walk.gif").is_file()


def test_a_policy_of_choices_acts_the_same_alone_and_side_by_side() -> None:
    method = toy.tiny("cal-ql", discrete=True)
    policy = method.policy(method.init(jax.random.key(0), toy.spec(discrete=True)))
    seen = toy.data(discrete=True).observations[:4]
    many = policy(seen).mode()
    alone = np.stack([policy(one).mode() for one in seen])
    np.testing.assert_array_equal(many, alone)
