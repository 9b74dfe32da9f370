"""Cells of a few seconds on the point maze, whose data need no source."""

from __future__ import annotations

from typing import Any

from calql.experiments.cells import Cell

TINY: dict[str, Any] = {
    "offline_updates": 20,
    "online_steps": 200,
    "updates_per_episode": 10,
    "evaluate_offline_every": 20,
    "evaluate_online_every": 200,
    "evaluation_episodes": 1,
    "batch_size": 8,
    "sampled_actions": 2,
    "backup_actions": 2,
    "policy_widths": (8,),
    "critic_widths": (8,),
    "block": 10,
    "checkpoint_minutes": 0.0,  # after every block
}


def tiny_cell(method: str = "cal-ql", **options: Any) -> Cell:
    return Cell("point-maze-narrow", method, "smoke", seeds=1, options={**TINY, **options})
