"""How large a cell is, and how long it should take: from rates that are stated, not measured on the spot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calql import experiment as experiments
from calql.data.store import manifest
from calql.errors import UserError
from calql.experiment import Choice
from calql.recipes import recipe
from calql.reproduce.cells import Cell
from calql.reproduce.machine import Machine
from calql.tasks import get_task

# Updates/s of Cal-QL over all seeds and cells of one device, with Adroit's networks in bfloat16: measured on the door.
UPDATES_PER_S: Mapping[str, float] = {"NVIDIA H200": 2_800.0}
GPU_UPDATES_PER_S, CORE_UPDATES_PER_S = 1_500.0, 1.0  # another GPU (assumed); one CPU core (assumed)
# One update with a domain's networks against Adroit's: AntMaze and the point maze measured, others by their products.
NETWORKS: Mapping[str, float] = {"antmaze": 0.55, "locomotion": 0.3, "pick-place": 2.0, "point-maze": 0.005}
# One update of a method against one of Cal-QL: fewer networks and samples, or more of them.
COST: Mapping[str, float] = {
    "cal-ql-utd20": 3.0,
    "rlpd": 1.5,
    "iql": 0.4,
    "awac": 0.5,
    "td3-bc": 0.4,
    "o3f": 0.6,
    "sac": 0.5,
    "sac-offline": 0.5,
    "hybrid": 0.5,
    "odt": 20.0,
}
# Environment steps/s of one core: `calql bench --envs`.
STEPS_PER_S: Mapping[str, float] = {
    "adroit": 3_600.0,
    "kitchen": 550.0,
    "antmaze": 3_000.0,
    "pick-place": 3_400.0,
    "locomotion": 9_000.0,
    "point-maze": 8_300.0,
}
POLICY_SHARE = 0.5  # of a core's time goes to the policy that acts in them (assumed)
START_S = 60.0  # imports, data, compiling


@dataclass(frozen=True)
class Size:
    """Of one cell, over all of its seeds."""

    updates: int
    env_steps: int  # collected and for evaluations
    transitions: int | None  # logged; None where the set has not been built

    def seconds(self, cell: Cell, machine: Machine, at_once: int) -> float:
        """On its share of the machine, with `at_once` cells on it."""
        cores = max(machine.cores / at_once, 1.0)
        task = get_task(cell.task)
        cost = COST.get(cell.method, 1.0) * NETWORKS.get(task.domain, 1.0)
        update_s = self.updates * cost / (updates_per_s(machine) / at_once)
        lanes = cores if task.stepping == "workers" else 1.0
        return START_S + update_s + self.env_steps / (STEPS_PER_S[task.domain] * (1.0 - POLICY_SHARE) * lanes)


def size_of(cell: Cell) -> Size:
    """From the options alone; evaluation episodes count as if they went to their limit."""
    task = get_task(cell.task)
    run, learner = experiments.defaults(Choice(task=cell.task, method=cell.method), task)
    run, _ = experiments.set_options(run, learner, cell.options, cell.method)
    evaluations = 2 + run.offline_updates // run.evaluate_offline_every + run.online_steps // run.evaluate_online_every
    online = run.online_steps * run.update_ratio
    if run.updates_per_episode:
        online = -(-run.online_steps // task.episode_limit) * run.updates_per_episode
    return Size(
        updates=cell.seeds * (run.offline_updates + online),
        env_steps=cell.seeds * (run.online_steps + evaluations * run.evaluation_episodes * task.episode_limit),
        transitions=_transitions(cell),
    )


def updates_per_s(machine: Machine) -> float:
    if not machine.gpus:
        return machine.cores * CORE_UPDATES_PER_S
    return len(machine.gpus) * UPDATES_PER_S.get(machine.gpu_kind, GPU_UPDATES_PER_S)


def assumptions(machine: Machine) -> str:
    steps = ", ".join(f"{domain} {rate:,.0f}" for domain, rate in STEPS_PER_S.items())
    return (
        f"assumed on {machine.device}: {updates_per_s(machine):,.0f} updates/s of Cal-QL on Adroit over all seeds "
        "and cells, "
        f"environment steps/s of one core: {steps}, of which the policy takes {POLICY_SHARE:.0%}; "
        "evaluation episodes counted at full length"
    )


def _transitions(cell: Cell) -> int | None:
    if cell.data != "task":
        return None
    try:
        return int(manifest(cell.task)["transitions"])
    except UserError:
        return recipe(cell.task).size
