"""What an environment may do wrong: one line that names the episode and the step, nothing sent after it, run kept."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import robot
from test_probe import TINY, counts  # noqa: F401

import calql
import corridor
from calql.engine import boundary, workers
from calql.engine.boundary import Beacon, Boundary
from calql.engine.episodes import AFRESH, COLLECT, EVALUATE, Request
from calql.runs.life import resume
from calql.system.errors import Diverged, UserError

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {**TINY, "online_steps": 40, "probe": False, "score": "success", "step_timeout": 0.5}
AT = 33  # a step of the first environment: in its first collected episodes, after two evaluations


def train(folder: Path, **changes: Any) -> calql.Outcome:
    data = corridor.write_demonstrations(folder.parent)
    return calql.train(dataset=data, env="robot:Robot-v0", out=folder, **{**OPTIONS, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("whole") / "run").folder


SAID = {
    "nan observation": r"step\(\) gave nan as number 1 in its observation",
    "nan reward": "the environment gave nan as reward",
    "wrong shape": r"step\(\) gave an observation of shape \(3,\), not \(2,\)",
    "no number": r"the environment raised in step\(\): TypeError",
    "exception": r"the environment raised in step\(\): RuntimeError: the motor is off",
    "hang": r"did not come back from its step\(\) within 0.5 s.*--step-timeout",
}


@pytest.mark.parametrize("kind", SAID)
def test_a_fault_is_named_and_the_run_goes_on_once_it_is_mended(
    kind: str,
    whole: Path,
    tmp_path: Path,
    counts: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(robot.FAULT, f"{kind}:{AT}")
    with pytest.raises(UserError, match=rf"^seed 0, .*episode \d+, step \d+: .*{SAID[kind]}") as raised:
        train(tmp_path / "run")
    assert "\n" not in str(raised.value)
    notes = robot.noted(counts)
    assert [note["what"] for note in notes].count("step") == AT  # and none after it
    assert all(note["finite"] for note in notes if note["what"] == "step")
    assert notes[-1]["what"] == "closed"
    assert json.loads((tmp_path / "run" / "status.json").read_text())["reason"] == str(raised.value)
    monkeypatch.delenv(robot.FAULT)
    assert resume(tmp_path / "run").finished
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("exit", r"a worker process died \(exit code 7\)"),
        ("deaf hang", r"did not come back from its step\(\) within 0.5 s"),
        ("hang", r"did not come back from its step\(\) within 0.5 s"),
        ("nan reward", "gave nan as reward"),
    ],
)
def test_a_fault_in_a_worker_is_named_as_well(
    kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(robot.FAULT, f"{kind}:{AT}")
    monkeypatch.setattr(workers, "GRACE_S", 0.5)
    with pytest.raises(UserError, match=rf"^seed 0, .*episode \d+, step \d+: .*{said}"):
        train(tmp_path / "run", workers=1)
    assert (tmp_path / "run" / "config.json").exists()


def test_a_policy_that_is_not_a_number_is_never_sent(tmp_path: Path, counts: Path) -> None:  # noqa: F811
    drive, env = Boundary(robot.Robot, 0.0), robot.Robot()
    track = drive.reset(env, Request((3, COLLECT, 5)))
    with pytest.raises(Diverged, match=r"^seed 3, collected episode 5, step 1: the policy's action is NaN or inf"):
        drive.step(env, track, np.array([np.nan], np.float32))
    assert robot.times(counts, "step") == 0


def test_a_loaded_policy_refuses_what_is_not_a_number(whole: Path) -> None:
    policy = calql.load_policy(whole)
    seen = np.array([0.0, 1.0], np.float32)
    action = policy(seen)
    policy.reset()
    with pytest.raises(UserError, match="the observation holds nan as number 1"):
        policy(np.array([0.0, np.nan]))
    with pytest.raises(UserError, match="the reward holds inf"):
        policy(seen, float("inf"))
    np.testing.assert_array_equal(policy(seen), action)  # a refused call changes nothing
    policy._parameters = jax.tree.map(lambda leaf: leaf * np.nan, policy._parameters)
    with pytest.raises(UserError, match="the action of this policy holds nan"):
        policy(seen)


def test_a_reset_is_looked_at_too() -> None:
    class Blind(robot.Robot):
        def _seen(self) -> np.ndarray:
            return np.array([np.inf, 1.0], np.float32)

    with pytest.raises(UserError, match=r"^seed 0, evaluation 2, episode 1: reset\(\) gave inf as number 0"):
        Boundary(Blind, 0.0).reset(Blind(), Request((0, EVALUATE, 2, 1)))


def test_a_reset_may_take_longer_than_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert boundary.allowed_s(boundary.RESET, 2.0) == boundary.allowed_s(boundary.MAKE, 2.0) == 20.0

    class Slow(robot.Robot):
        def reset(self, **_: Any) -> Any:
            time.sleep(3600)

    monkeypatch.setattr(boundary, "SLOW", 2.0)
    before, drive = signal.getsignal(signal.SIGALRM), Boundary(Slow, 0.1)
    with pytest.raises(UserError, match=r"did not come back from its reset\(\) within 0.2 s"):
        drive.reset(Slow(), Request((0, AFRESH, 1)))
    drive.close([])
    assert signal.getsignal(signal.SIGALRM) == before


def test_two_players_of_one_process_are_each_rung() -> None:
    """The one that began to look at the clock first, while the handler is the other's."""

    class Stuck(robot.Robot):
        def step(self, action: Any) -> Any:
            time.sleep(3600)

    first, second = Boundary(Stuck, 0.1), Boundary(robot.Robot, 0.1)
    env, track = Stuck(), first.reset(Stuck(), Request((0, COLLECT, 1)))
    second.reset(robot.Robot(), Request((0, COLLECT, 2)))
    with pytest.raises(UserError, match=r"collected episode 1, step 1: .*did not come back"):
        first.step(env, track, np.zeros(1, np.float32))
    for drive in (second, first):
        drive.close([])


def test_a_beacon_tells_where_a_player_stands() -> None:
    beacon = Beacon()
    assert beacon.waiting is None
    beacon.set(boundary.STEP, Request((4, EVALUATE, 3, 2)), 7)
    waiting = beacon.waiting
    assert waiting is not None
    assert (waiting.where, waiting.call) == ("seed 4, evaluation 3, episode 2, step 7", "step()")
    assert waiting.seconds > 0.0
    beacon.clear()
    assert beacon.waiting is None


class GoesOn(list[float]):
    """The numbers of a worker whose step comes back right after somebody began to read, and who then resets."""

    def __init__(self, size: int, then: Callable[[], object]) -> None:
        super().__init__([0.0] * size)
        self.then = then
        self.read = False

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if self.read:
            self.read = False
            self.then()
        return found


@pytest.mark.parametrize("resets", [False, True])
def test_a_call_that_comes_back_while_it_is_looked_at_is_not_late(resets: bool) -> None:
    """Two looks at one number once made the uptime of the machine of it: runs of many workers ended within a minute."""

    def come_back() -> None:
        beacon.clear()
        if resets:
            beacon.set(boundary.RESET, Request((4, EVALUATE, 3, 3)), 0)

    cells = GoesOn(Beacon.SIZE, come_back)
    beacon = Beacon(cells)
    beacon.set(boundary.STEP, Request((4, EVALUATE, 3, 2)), 7)
    cells.read = True
    assert beacon.waiting is None
    assert (beacon.waiting is not None) == resets
