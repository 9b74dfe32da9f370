"""How large a run on data of one's own is, unless its user says: what the machine at hand can show soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from calql.domains.base import Protocol
from calql.system.cores import available_cores

PAPER_CORE_SECONDS = 0.54 / 4  # of processor time for an update of one seed at the paper's size (docs/own-data.md)


@dataclass(frozen=True)
class Size:
    """A protocol, the options that fit a machine and the machine, and a note that says so."""

    protocol: Protocol
    machine: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    cores: int = 0  # where it was made smaller for them

    timed: bool = True  # whether the time of an update was measured on such data

    def of_choices(self) -> Size:
        """For discrete actions, of which none is sampled."""
        options = {name: value for name, value in self.options.items() if name not in SAMPLES}
        return replace(self, options=options, timed=False)

    def notes(self, *, online: bool = True) -> list[str]:
        """What was chosen where nobody says otherwise, and what the paper's size would take here."""
        if not self.machine:
            return []
        small, large = self.protocol, PAPER.protocol
        steps = [f" and {each.online_steps:,} steps online" if online else "" for each in (small, large)]
        return [
            f"what you do not set is sized for {self.machine}: networks of 2 x 64 units, batches of "
            f"{NETWORKS['batch_size']}, {small.offline_updates:,} updates{steps[0]}; --preset paper trains networks of "
            f"256 units with batches of 256 for {large.offline_updates:,} updates{steps[1]}, which wants a GPU"
            f"{self._time(online) if self.timed else ''}"
        ]

    def _time(self, online: bool) -> str:
        hours = PAPER.protocol.offline_updates * PAPER_CORE_SECONDS / self.cores / 3600
        return f": with Cal-QL, some {hours:.1g} hours here for each seed{' before it goes online' if online else ''}"


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
}
SAMPLES: Mapping[str, Any] = {"sampled_actions": 4, "backup_actions": 4}  # of continuous actions alone


def fitting(platform: str | None = None) -> Size:
    """On a CPU, small networks and a short protocol; an accelerator is given the paper's size."""
    if (platform or jax.default_backend()) != "cpu":
        return PAPER
    cores = available_cores()
    machine = "one CPU core" if cores == 1 else f"{cores} CPU cores"
    return Size(ON_A_CPU, machine, {**NETWORKS, **SAMPLES}, cores)
