"""The simulator inside an environment: what bounds its speed, and what is drawn of it."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco


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
