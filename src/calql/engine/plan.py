"""Everything a run is made of, resolved and checked before anything is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset
from calql.data.rewards import EpisodeSummary, RewardRule
from calql.engine.assessment import Assessment, make_assessment
from calql.engine.devices import Shards, shards_for
from calql.engine.handed_in import Recorded
from calql.engine.inputs import Inputs, prepare
from calql.engine.options import RunOptions
from calql.engine.placement import streams
from calql.engine.program import on_accelerator
from calql.methods.base import Method
from calql.methods.reference import Fit, MonteCarlo, over_episodes
from calql.results.arms import Member
from calql.system.cores import available_cores

Stepping = Literal["in-process", "workers"]
SAMPLE = 2048  # logged rows on which the average Q is measured


class TaskDescription(Protocol):
    """What the engine reads of a task; whoever describes tasks has a frozen dataclass with at least this."""

    @property
    def make_env(self) -> Callable[[], gymnasium.Env[Any, Any]]: ...
    @property
    def episode_limit(self) -> int: ...
    @property
    def score(self) -> Callable[[Sequence[EpisodeSummary]], float]: ...
    @property
    def rewards(self) -> RewardRule: ...
    @property
    def stepping(self) -> Stepping: ...


class StateMapDescription(Protocol):
    """States over a plane, at which Q is drawn as a map."""

    @property
    def title(self) -> str: ...
    @property
    def x(self) -> NDArray[Any]: ...
    @property
    def y(self) -> NDArray[Any]: ...
    @property
    def observations(self) -> NDArray[Any]: ...
    @property
    def free(self) -> NDArray[np.bool_]: ...
    @property
    def walls(self) -> Sequence[Sequence[float]]: ...
    @property
    def start(self) -> Sequence[float] | None: ...
    @property
    def goal(self) -> Sequence[float] | None: ...


@dataclass(frozen=True)
class Probe:
    """Logged pairs whose Q is compared with their return-to-go."""

    observations: NDArray[np.float32] | NDArray[np.uint8]
    actions: NDArray[np.float32]
    return_to_go: NDArray[np.float32]
    held_out: bool  # whether training never saw them


@dataclass(frozen=True)
class Arm:
    """One value of a sweep: its name in rows, and the method that has it."""

    name: str
    method: Method


@dataclass(frozen=True)
class Plan:
    """A task, a method and options, with the data already valued."""

    label: str
    task: TaskDescription
    method: Method
    options: RunOptions
    inputs: Inputs
    logged_probe: Probe
    calibration_probe: Probe
    arms: tuple[Arm, ...] = ()  # of a sweep: every seed trains once for each
    state_map: StateMapDescription | None = None  # where the task has one
    assess: Assessment | None = None  # in the place of episodes, where there is no environment
    handed_in: Recorded | None = None  # episodes that were collected elsewhere: the run plays none to learn from

    @property
    def seeds(self) -> list[int]:
        """The seed of each member: those of the first arm, of the next one, and so on."""
        seeds = [self.options.first_seed + index for index in range(self.options.seeds)]
        return seeds * max(len(self.arms), 1)

    @property
    def members(self) -> list[Member]:
        """What trains as one program: seeds, or seeds of arms."""
        if not self.arms:
            return list(self.seeds)
        names = [arm.name for arm in self.arms for _ in range(self.options.seeds)]
        return list(zip(names, self.seeds, strict=True))

    @property
    def notes(self) -> tuple[str, ...]:
        """What came out of the fits that planning did."""
        return self.inputs.reference.notes + (() if self.assess is None else self.assess.notes)

    @property
    def logs_alone(self) -> bool:
        """Whether the offline phase is all there is: nothing is played, and nothing handed in."""
        return self.assess is not None and self.handed_in is None

    @property
    def last_step(self) -> float:
        """Environment steps after which a seed is evaluated for the last time; more may always be handed in."""
        return self.options.online_steps if self.handed_in is None else math.inf

    @property
    def workers(self) -> int:
        """Processes that step environments."""
        return worker_processes(self.options, self.task.stepping, beside=self.on_accelerator)

    @property
    def on_accelerator(self) -> bool:
        return on_accelerator()

    @property
    def shards(self) -> Shards:
        """The devices that its members are shared out over."""
        return shards_for(self.options.devices, len(self.members))

    @property
    def capacity(self) -> int:
        """Rows of the online buffer: never more than the run can collect. Where episodes are handed in, these grow from
        round to round; a power of two holds several rounds, whose programs are then the same."""
        rows, limit = buffer_rows(self.options, self.task.episode_limit), self.task.episode_limit
        if self.handed_in is None:
            return rows
        return max(min(1 << (rows - 1).bit_length(), self.options.capacity), limit)


def worker_processes(options: RunOptions, stepping: Stepping, *, beside: bool) -> int:
    """As asked for; else none where environments are quick, unless updates are done elsewhere and leave the cores."""
    if options.real:
        return 0
    if options.workers >= 0:
        return options.workers
    return available_cores() if stepping == "workers" or beside else 0


def buffer_rows(options: RunOptions, limit: int) -> int:
    """Rows of the online buffer of one seed, in episodes of at most `limit` steps."""
    overshoot = limit * options.trajectories
    return max(min(options.capacity, options.online_steps + overshoot), limit)


def make_plan(
    label: str,
    task: TaskDescription,
    method: Method,
    options: RunOptions,
    data: Dataset,
    held_out: Dataset | None,
    discount: float,
    arms: tuple[Arm, ...] = (),
    state_map: StateMapDescription | None = None,
    *,
    logs_alone: bool = False,
) -> Plan:
    """Value the data, fit the reference, choose the probes. `data` have actions in [-1, 1].

    With `logs_alone` no environment is ever made, and evaluations are of held-out episodes.
    """
    rewards = replace(task.rewards, failure_test=options.failure_test)
    if options.rewards_online == "logged":
        rewards = replace(rewards, logged_only=False)
    task = replace(task, rewards=rewards)  # type: ignore[type-var]  # a description is a dataclass
    if held_out is None and options.hold_out > 0:
        data, held_out = data.split(options.hold_out, seed=0)
    if options.keep_episodes:
        data = data.select_episodes(np.argsort(_episode_returns(data), kind="stable"))  # the worst first
    stream = data.stored or streams(data, options)
    fit = Fit(data, task.rewards, discount, seed=options.first_seed, updates=options.reference_updates, stream=stream)
    assess = make_assessment(method, replace(fit, updates=options.fqe_updates), held_out) if logs_alone else None
    inputs = prepare(method, options.reference, fit)
    logged = _probe(data, inputs.return_to_go, held_out=False)
    calibration = logged
    if held_out is not None:
        returns = over_episodes(MonteCarlo(task.rewards, discount), Fit(held_out, task.rewards, discount))
        calibration = _probe(held_out, returns, held_out=True)
        logged = calibration if logs_alone else logged  # Q beside what training never saw
    return Plan(label, task, method, options, inputs, logged, calibration, arms, state_map, assess)


def _episode_returns(data: Dataset) -> NDArray[np.float64]:
    return np.add.reduceat(data.rewards.astype(np.float64), data.episode_starts)


def _probe(data: Dataset, returns: NDArray[np.float32], *, held_out: bool) -> Probe:
    """A fixed sample of rows, the same for every seed."""
    rows = np.random.default_rng(0).permutation(len(data))[:SAMPLE]
    rows.sort()
    return Probe(data.observations[rows], data.actions[rows], returns[rows], held_out)
