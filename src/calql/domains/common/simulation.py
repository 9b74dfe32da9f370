"""MuJoCo and what is built on it: loaded with the first environment, so that tasks can be listed without."""

from __future__ import annotations

import contextlib
import importlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calql.system.extras import Extra, extra

WHAT = "the simulator of this task"

if TYPE_CHECKING:
    import mujoco
else:
    mujoco = Extra("mujoco", WHAT)


@dataclass(frozen=True)
class Simulation:
    """MuJoCo's side of an environment; environments that have one offer it as `simulation`."""

    model: mujoco.MjModel
    data: mujoco.MjData
    substeps: int  # simulator steps per action

    def draw_plainly(self) -> None:
        """No shadows, no smoothing: where the CPU draws, several times as fast."""
        self.model.vis.quality.shadowsize = 0
        self.model.vis.quality.offsamples = 0


def robotics(module: str, name: str, **options: Any) -> Any:
    """An environment of gymnasium-robotics, without the notice about dense Adroit rewards that it prints."""
    with contextlib.redirect_stderr(io.StringIO()):
        found = extra(f"gymnasium_robotics.envs.{module}", WHAT)
    return getattr(found, name)(**options)


def locomotion(module: str, name: str, **options: Any) -> Any:
    """An environment of Gymnasium's that runs on MuJoCo."""
    extra("mujoco", WHAT)
    return getattr(importlib.import_module(f"gymnasium.envs.mujoco.{module}"), name)(**options)


__all__ = ["Simulation", "locomotion", "mujoco", "robotics"]
