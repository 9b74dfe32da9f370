"""How large a cell is, and how long it should take: from rates that are stated, not measured on the spot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calql.data.store import manifest
from calql.domains.datasets import recipe
from calql.domains.registry import DOMAINS, get_task
from calql.experiments.cells import TASKS_OWN, Cell
from calql.experiments.launchers.machine import Machine
from calql.experiments.training import options_of
from calql.methods import method_entry
from calql.system.errors import UserError

# Updates/s of Cal-QL over all seeds and cells of one device, with Adroit's networks in bfloat16: measured on the door.
UPDATES_PER_S: Mapping[str, float] = {"NVIDIA H200": 2_800.0}
GPU_UPDATES_PER_S, CORE_UPDATES_PER_S = 1_500.0, 1.0  # another GPU (assumed); one CPU core (assumed)
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
        cost = method_entry(cell.method).update_cost * DOMAINS[task.domain].update_cost
        update_s = self.updates * cost / (updates_per_s(machine) / at_once)
        stepping_cores = cores if task.stepping == "workers" else 1.0
        return (
            START_S
            + update_s
            + self.env_steps / (DOMAINS[task.domain].steps_per_s * (1.0 - POLICY_SHARE) * stepping_cores)
        )


def size_of(cell: Cell) -> Size:
    """From the options alone; evaluation episodes count as if they went to their limit."""
    task = get_task(cell.task)
    run, _ = options_of(cell)
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
    steps = ", ".join(f"{name} {domain.steps_per_s:,.0f}" for name, domain in DOMAINS.loadable().items())
    return (
        f"assumed on {machine.device}: {updates_per_s(machine):,.0f} updates/s of Cal-QL on Adroit over all seeds "
        "and cells, "
        f"environment steps/s of one core: {steps}, of which the policy takes {POLICY_SHARE:.0%}; "
        "evaluation episodes counted at full length"
    )


def cost_text(machine: Machine, hours: float, price: float | None) -> str:
    """So many hours of a machine, in hours of its GPUs (or of itself, where it has none), and in money."""
    what, count = ("GPU-hours", hours * len(machine.gpus)) if machine.gpus else ("hours of a machine", hours)
    return f"{count:,.0f} {what}" + ("" if price is None else f", at {price:g} each: {count * price:,.0f}")


def _transitions(cell: Cell) -> int | None:
    if cell.data != TASKS_OWN:
        return None
    try:
        return int(manifest(cell.task)["transitions"])
    except UserError:
        return recipe(cell.task).size
