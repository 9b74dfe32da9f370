"""A system that counts what is done to it, and fails as told: `robot:Robot-v0`."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import corridor

COUNTS = "ROBOT_COUNTS"  # a file in which every process notes what it does
FAULT = "ROBOT_FAULT"  # KIND:STEP, the fault and the step of the first environment of a process at which it shows


class Robot(corridor.Corridor):
    """Connections, resets, steps and what was sent, one line each."""

    def __init__(self) -> None:
        self.steps = 0
        self._note("made")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self._note("reset")
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._note("step", finite=bool(np.isfinite(action).all()))
        self.steps += 1
        observation, reward, *rest = super().step(action)
        kind, _, at = os.environ.get(FAULT, ":0").partition(":")
        if self.steps == int(at):
            observation, reward = FAULTS[kind](observation, reward)
        return observation, reward, *rest

    def close(self) -> None:
        self._note("closed")

    def _note(self, what: str, **more: Any) -> None:
        if COUNTS in os.environ:
            with Path(os.environ[COUNTS]).open("a") as file:
                file.write(json.dumps({"what": what, **more}) + "\n")


def _raise() -> Any:
    raise RuntimeError("the motor is off")


def _deaf() -> Any:
    """A hang that no signal breaks off."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(3600)


FAULTS = {
    "nan observation": lambda seen, reward: (np.array([seen[0], np.nan], np.float32), reward),
    "nan reward": lambda seen, reward: (seen, float("nan")),
    "wrong shape": lambda seen, reward: (np.zeros(3, np.float32), reward),
    "no number": lambda seen, reward: (seen, None),
    "exception": lambda seen, reward: _raise(),
    "hang": lambda seen, reward: (time.sleep(3600), reward),
    "deaf hang": lambda seen, reward: (_deaf(), reward),
    "exit": lambda seen, reward: os._exit(7),
}

gymnasium.register("Robot-v0", entry_point=Robot, max_episode_steps=20)


def noted(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def times(path: Path, what: str) -> int:
    return sum(note["what"] == what for note in noted(path))


def most_open(path: Path) -> int:
    """The most connections that there were at one time."""
    number = most = 0
    for note in noted(path):
        number += {"made": 1, "closed": -1}.get(note["what"], 0)
        most = max(most, number)
    return most
