"""How large a run on data of one's own is, unless its user says: what the machine at hand can show soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from calql.domains.base import Protocol
from calql.system.cores import available_cores


@dataclass(frozen=True)
class Size:
    """A protocol, the options that fit a machine and the machine, and a note that says so."""

    protocol: Protocol
    machine: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


PAPER = Size(
    Protocol(
        offline_updates=100_000,
        online_steps=100_000,
        evaluate_offline_every=10_000,
        evaluate_online_every=5_000,
    )
)
ON_A_CPU = Protocol(
    offline_updates=10_000,
    online_steps=10_000,
    evaluate_offline_every=2_000,
    evaluate_online_every=1_000,
    evaluation_episodes=10,
)
NETWORKS: Mapping[str, Any] = {
    "policy_widths": (64, 64),
    "critic_widths": (64, 64),
    "batch_size": 128,
    "sampled_actions": 4,
    "backup_actions": 4,
}


def fitting(platform: str | None = None) -> Size:
    """On a CPU, small networks and a short protocol; an accelerator is given the paper's size."""
    if (platform or jax.default_backend()) != "cpu":
        return PAPER
    cores = available_cores()
    machine = "one CPU core" if cores == 1 else f"{cores} CPU cores"
    return Size(ON_A_CPU, machine, NETWORKS, _note(machine))


def _note(machine: str) -> str:
    small, large = ON_A_CPU, PAPER.protocol
    return (
        f"sized for {machine}: networks of 2 x 64 units, batches of 128, {small.offline_updates:,} updates and "
        f"{small.online_steps:,} steps; --preset paper trains networks of 256 units with batches of 256 for "
        f"{large.offline_updates:,} and {large.online_steps:,}, which wants a GPU"
    )
