"""What a domain and its tasks are: descriptions that others read, never a branch in them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset
from calql.data.rewards import EpisodeSummary, RewardRule
from calql.data.store import Recipe
from calql.domains.checks import Certifier
from calql.domains.scene import Point, Rectangle, Scene

Score = Callable[[Sequence[EpisodeSummary]], float]
DataSource = str | Callable[[], Dataset]  # the name of a dataset that has a recipe, or what gives the data


def success_rate(episodes: Sequence[EpisodeSummary]) -> float:
    return float(np.mean([e.success for e in episodes]))


def final_reward_share(most: float) -> Score:
    """Mean reward of the last step over the most it can be (kitchen: solved tasks over 4)."""

    def score(episodes: Sequence[EpisodeSummary]) -> float:
        return float(np.mean([e.last_reward for e in episodes])) / most

    return score


@dataclass(frozen=True)
class NormalisedReturn:
    """Mean return, 0 at `low` (random in D4RL) and 1 at `high` (expert)."""

    low: float
    high: float

    def __call__(self, episodes: Sequence[EpisodeSummary]) -> float:
        return (float(np.mean([e.total for e in episodes])) - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Protocol:
    """How long a run is and how it is measured; the paper's numbers for the task."""

    offline_updates: int
    online_steps: int
    evaluate_offline_every: int  # gradient steps
    evaluate_online_every: int  # environment steps
    evaluation_episodes: int = 20
    mixing: float = 0.5  # offline share of an online batch; -1: pooled
    update_ratio: int = 1  # gradient steps per environment step


@dataclass(frozen=True)
class StateMap:
    """States laid out over a plane, at which the values of a policy can be drawn as a map."""

    title: str
    x: NDArray[np.float64]  # [column], centres
    y: NDArray[np.float64]  # [row]
    observations: NDArray[np.float32]  # [row, column, ...]
    free: NDArray[np.bool_]  # [row, column]: where the agent can be
    walls: tuple[Rectangle, ...] = ()
    start: Point | None = None
    goal: Point | None = None


@dataclass(frozen=True)
class Task:
    """One benchmark by name: environment, data, score, and the numbers that go with them."""

    name: str
    domain: str
    summary: str  # one line, for `calql tasks`
    make_env: Callable[[], gymnasium.Env[Any, Any]]  # picklable; reset(seed=...) must determine the episode
    data: DataSource  # recorded rewards
    episode_limit: int
    score: Score
    rewards: RewardRule
    protocol: Protocol
    reference: str = "monte-carlo"
    held_out: DataSource | None = None  # logged like the data but never trained on
    options: Mapping[str, Any] = field(default_factory=dict)  # of the run or of methods; whoever has them takes them
    machine: str = ""  # the machine that the following fit, in words
    fitted: Mapping[str, Any] = field(default_factory=dict)  # above what a method sets
    rewards_for_all: bool = False  # whether `rewards` hold also for methods whose authors map otherwise
    trial: Callable[[gymnasium.Env[Any, Any] | None], tuple[Score, str]] | None = (
        None  # the score that driving it shows
    )
    discrete: bool = False  # an action is one of several
    logs_alone: bool = False  # there is no environment: policies are valued from held-out episodes
    stepping: Literal["in-process", "workers"] = "in-process"  # where environments of this cost step fastest
    state_map: Callable[[Dataset], StateMap] | None = None  # states over a plane, like those of the data
    films: bool = False  # it draws itself in no time, without OpenGL: a run ends with films of its policies


@dataclass(frozen=True)
class Remote:
    """Where the original of a task's data lies: a file at a URL, or a dataset of Minari's hub."""

    url: str = ""
    minari: str = ""
    sha256: str | None = None  # where its publisher, or somebody who has it, published one
    ready: bool = True  # can be trained on as it is; False: material for `calql data build`


D4RL = "https://rail.eecs.berkeley.edu/datasets/offline_rl"


@dataclass(frozen=True)
class Domain:
    """Tasks that share a simulator, and all that the package knows of them.

    Its folder holds `tasks.py` with `TASKS`; `data.py` with `RECIPES`, how its datasets are made; `check.py` with
    `CERTIFIERS`, whether recorded steps continue in its simulator; and `scenes.py` with `SCENES`, what a page about
    its data can show. The last three where it has them.
    """

    name: str
    home: str  # the folder as a package
    steps_per_s: float  # of one core: `calql bench --envs`
    update_cost: float = 1.0  # of one update with its networks, against Adroit's
    small: Mapping[str, Any] = field(default_factory=dict)  # at most so much of each at the scale `small`
    small_tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by task, again
    small_evaluations: tuple[int, int] = (2, 8)  # offline and online at that scale
    originals: Mapping[str, Remote] = field(default_factory=dict)  # of its tasks' data, where they are public
    quick_data: bool = False  # built in seconds, so that no stand-in is needed to try something out

    @property
    def tasks(self) -> Mapping[str, Task]:
        return {task.name: task for task in self._offer("tasks", "TASKS", ())}

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        return self._offer("data", "RECIPES", {})

    @property
    def certifiers(self) -> Mapping[str, Certifier]:
        return self._offer("check", "CERTIFIERS", {})

    @property
    def scenes(self) -> Mapping[str, Scene]:
        return self._offer("scenes", "SCENES", {})

    def _offer(self, module: str, name: str, otherwise: Any) -> Any:
        """What one of its modules offers; imported when it is asked for, since simulators take their time."""
        path = f"{self.home}.{module}"
        return getattr(importlib.import_module(path), name) if importlib.util.find_spec(path) else otherwise
