"""Everything a run is made of, resolved and checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset
from calql.engine.inputs import Inputs, prepare
from calql.engine.options import RunOptions
from calql.engine.program import on_accelerator
from calql.methods.base import Method
from calql.reference import Fit, MonteCarlo, over_episodes
from calql.tasks.base import Task

SAMPLE = 2048  # logged rows on which the average Q is measured


@dataclass(frozen=True)
class Probe:
    """Logged pairs whose Q is compared with their return-to-go."""

    observations: NDArray[np.float32] | NDArray[np.uint8]
    actions: NDArray[np.float32]
    return_to_go: NDArray[np.float32]
    held_out: bool  # whether training never saw them


@dataclass(frozen=True)
class Plan:
    """A task, a method and options, with the data already valued."""

    label: str
    task: Task
    method: Method
    options: RunOptions
    inputs: Inputs
    logged_probe: Probe
    calibration_probe: Probe

    @property
    def seeds(self) -> list[int]:
        return [self.options.first_seed + index for index in range(self.options.seeds)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What came out of the fits that planning did."""
        return self.inputs.reference.notes

    @property
    def workers(self) -> int:
        """Processes that step environments: as asked for; else none where they are quick and updates need the cores."""
        if self.options.real:
            return 0
        if self.options.workers >= 0:
            return self.options.workers
        from calql.data.store import available_cores

        beside = self.task.stepping == "workers" or self.on_accelerator
        return available_cores() if beside else 0

    @property
    def on_accelerator(self) -> bool:
        return on_accelerator()

    @property
    def capacity(self) -> int:
        """Rows of the online buffer: never more than the run can collect."""
        return buffer_rows(self.options, self.task.episode_limit)


def buffer_rows(options: RunOptions, limit: int) -> int:
    """Rows of the online buffer of one seed, in episodes of at most `limit` steps."""
    overshoot = limit * options.trajectories
    return max(min(options.capacity, options.online_steps + overshoot), limit)


def make_plan(
    label: str,
    task: Task,
    method: Method,
    options: RunOptions,
    data: Dataset,
    held_out: Dataset | None,
    discount: float,
) -> Plan:
    """Value the data, fit the reference, choose the probes. `data` have actions in [-1, 1]."""
    rewards = replace(task.rewards, failure_test=options.failure_test)
    if options.rewards_online == "logged":
        rewards = replace(rewards, logged_only=False)
    task = replace(task, rewards=rewards)
    if held_out is None and options.hold_out > 0:
        data, held_out = data.split(options.hold_out, seed=0)
    if options.keep_episodes:
        data = data.select_episodes(np.argsort(_episode_returns(data), kind="stable"))  # the worst first
    fit = Fit(data, task.rewards, discount, seed=options.first_seed, updates=options.reference_updates)
    inputs = prepare(method, options.reference, fit)
    logged = _probe(data, inputs.return_to_go, held_out=False)
    calibration = logged
    if held_out is not None:
        returns = over_episodes(MonteCarlo(task.rewards, discount), Fit(held_out, task.rewards, discount))
        calibration = _probe(held_out, returns, held_out=True)
    return Plan(label, task, method, options, inputs, logged, calibration)


def _episode_returns(data: Dataset) -> NDArray[np.float64]:
    return np.add.reduceat(data.rewards.astype(np.float64), data.episode_starts)


def _probe(data: Dataset, returns: NDArray[np.float32], *, held_out: bool) -> Probe:
    """A fixed sample of rows, the same for every seed."""
    rows = np.random.default_rng(0).permutation(len(data))[:SAMPLE]
    rows.sort()
    return Probe(data.observations[rows], data.actions[rows], returns[rows], held_out)
