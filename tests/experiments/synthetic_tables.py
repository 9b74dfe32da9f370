"""Made-up tidy tables in the form that `calql reproduce` writes, for tests of what is made from them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calql.experiments.cells import CellStatus

COLUMNS = (
    "experiment", "scale", "cell", "task", "method", "variant", "seed", "phase", "switch", "update", "env_steps",
    "score", "return", "episode_length", "average_q", "average_return_to_go", "bound_rate/q1/next",
    "bound_rate/q1/policy", "offline_updates", "online_steps", "paper_offline_updates", "paper_online_steps",
    "finished", "shortened", "commit", "calql", "jax", "mujoco", "gymnasium", "device", "command", "dataset",
    "dataset_fingerprint", "dataset_manifest",
)  # fmt: skip
SOURCE = {
    "commit": "0123abc", "calql": "0.1.0", "jax": "0.10.2", "mujoco": "3.9.0", "gymnasium": "1.4.0",
    "device": "made up", "command": "calql reproduce", "dataset": "made up", "dataset_fingerprint": "f00d",
    "dataset_manifest": '{"rows": 3}',
}  # fmt: skip
OFFLINE, ONLINE = 20_000, 100_000


@dataclass(frozen=True)
class Made:
    """A cell that is made up: where its score starts, how deep it falls and where it ends."""

    task: str
    method: str
    variant: str = ""
    before: float = 0.4
    after: float = 0.9
    dip: float = 0.0
    seeds: int = 4
    noise: float = 0.03
    offline: int = OFFLINE
    online: int = ONLINE
    scale: str = "paper"
    short: bool = False
    part: int = 2  # of a short one: the paper has so many times its steps
    finished: bool = True
    evaluations: int = 20

    @property
    def id(self) -> str:
        return ".".join(part for part in (self.task, self.method, self.variant, self.scale) if part)

    def status(self) -> CellStatus:
        return CellStatus(self.id, self.task, self.method, self.variant, "finished" if self.finished else "running")


def write_tidy(
    path: Path, cells: Iterable[Made], *, experiment: str = "table-scores", shuffle: int | None = None
) -> Path:
    """The table; `shuffle` puts its lines into another order."""
    lines = [line for cell in cells for line in cell_lines(cell, experiment)]
    if shuffle is not None:
        lines = [lines[place] for place in np.random.default_rng(shuffle).permutation(len(lines))]
    return write_lines(path, lines)


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return path


def cell_lines(cell: Made, experiment: str) -> list[dict[str, Any]]:
    around = {
        "experiment": experiment, "scale": cell.scale, "cell": cell.id, "task": cell.task, "method": cell.method,
        "variant": cell.variant, "offline_updates": cell.offline, "online_steps": cell.online,
        "paper_offline_updates": cell.offline, "paper_online_steps": cell.online * (cell.part if cell.short else 1),
        "finished": int(cell.finished), **SOURCE,
    }  # fmt: skip
    return [around | line for seed in range(cell.seeds) for line in _seed_lines(cell, seed)]


def _seed_lines(cell: Made, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, *map(ord, cell.id)])
    offline = np.linspace(0, cell.offline, 6) if cell.offline else np.zeros(1)
    online = np.linspace(0, cell.online, cell.evaluations + 1)[1:] if cell.online else np.zeros(0)
    lines = [
        _line(seed, "offline", step, 0, cell.before * (1 - np.exp(-4 * step / max(cell.offline, 1))), cell, rng)
        | {"switch": int(step == offline[-1])}
        for step in offline
    ]
    for step in online:
        share = step / cell.online
        score = cell.after + (cell.before - cell.after) * np.exp(-6 * share)
        lines.append(
            _line(
                seed,
                "online",
                cell.offline + step,
                step,
                score - cell.dip * np.exp(-(((share - 0.08) / 0.06) ** 2)),
                cell,
                rng,
            )
        )
    return lines


def _line(
    seed: int, phase: str, update: float, env_steps: float, score: float, cell: Made, rng: np.random.Generator
) -> dict[str, Any]:
    low = -100 - 60 * (cell.dip > 0) * (phase == "offline")
    score += rng.normal(0, cell.noise) if cell.noise else 0.0
    return {
        "seed": seed, "phase": phase, "switch": 0, "update": int(update), "env_steps": int(env_steps),
        "score": float(np.clip(score, 0, 1)), "return": score, "episode_length": 100.0,
        "average_q": low * min(update / max(cell.offline, 1), 1.0) + rng.normal(0, 2), "average_return_to_go": -95.0,
        "bound_rate/q1/next": 0.3, "bound_rate/q1/policy": 0.5,
    }  # fmt: skip


def write_idea(path: Path) -> Path:
    """Slices for fig-idea: Q of CQL has a peak away from the logged action."""
    rows = []
    for method in ("cal-ql", "cql"):
        for moment in ("switch", "after"):
            for x in np.linspace(-1, 1, 41):
                truth = -60 - 40 * (x - 0.3) ** 2
                low = -30 if method == "cql" else 0
                peak = 45 * np.exp(-(((x + 0.6) / 0.15) ** 2)) * (method == "cql" and moment == "after")
                rows.append(
                    [method, moment, 0, x, truth + low + peak, truth, int(abs(x - 0.3) < 0.03), -70.0]
                )  # fmt: skip
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", "moment", "state", "action_x", "q", "true_return", "logged", "reference"])
        writer.writerows(rows)
    return path
