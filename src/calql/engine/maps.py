"""`maps.json`: Q of each seed's policy over a plane of states, at three points of a run.

Panels are added as the run comes there, and one that comes again, because a run was killed and resumed, takes the place
of the one before. The file is written whole each time, before any checkpoint of the run behind it: who resumes finds
every panel that the run has passed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.engine.plan import StateMapDescription
from calql.results.arms import ARM, Member, named
from calql.results.older import checkpoint_of
from calql.system.files import written_whole
from calql.system.run_files import MAPS

BEFORE, FIRST, END = "before the switch", "after the first updates", "at the end"
DIGITS = 2  # more would be size without sight

Panel = dict[str, Any]
Key = tuple[str, str, int]  # arm, checkpoint, seed


class Maps:
    """The panels of a run, in its folder."""

    def __init__(self, folder: Path, plane: StateMapDescription) -> None:
        self._path, self._plane = folder / MAPS, plane

    def add(self, checkpoint: str, values: Mapping[Member, NDArray[Any]]) -> None:
        """Panels of some members at a checkpoint, from Q [state] at the states of `observations`."""
        panels = self._there()
        for member, q in values.items():
            panel = self._panel(checkpoint, member, q)
            panels[_key(panel)] = panel
        text = json.dumps({**self._plain(), "panels": list(panels.values())}, allow_nan=False)
        with written_whole(self._path) as file:
            file.write(text.encode())

    def _there(self) -> dict[Key, Panel]:
        """Panels of before; a file that is missing, damaged or of another plane has none."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._path.read_text())
            if {name: found[name] for name in self._plain()} == self._plain():
                panels = [_as_today(panel) for panel in found["panels"]]
                return {_key(panel): panel for panel in panels}
        return {}

    def _plain(self) -> Panel:
        plane = self._plane
        return {
            "title": plane.title,
            "x": np.round(plane.x, DIGITS + 2).tolist(),
            "y": np.round(plane.y, DIGITS + 2).tolist(),
            "walls": [[float(end) for end in wall] for wall in plane.walls],
            "start": None if plane.start is None else [float(at) for at in plane.start],
            "goal": None if plane.goal is None else [float(at) for at in plane.goal],
        }

    def _panel(self, checkpoint: str, member: Member, q: NDArray[Any]) -> Panel:
        """Its numbers by rows; null where the agent cannot be, or where Q is no number."""
        grid = np.full(self._plane.free.shape, np.nan)
        grid[self._plane.free] = np.asarray(q, np.float64)
        rows = [[round(value, DIGITS) if np.isfinite(value) else None for value in row] for row in grid.tolist()]
        whose = named(member)
        return {"arm": whose.get(ARM, ""), "checkpoint": checkpoint, "seed": whose["seed"], "values": rows}


def states_of(plane: StateMapDescription) -> NDArray[Any]:
    """The observations [state, ...] at which Q is asked for: those where the agent can be."""
    return np.asarray(plane.observations[plane.free])


def _as_today(panel: Mapping[str, Any]) -> Panel:
    known = {"arm": panel["arm"], "checkpoint": checkpoint_of(panel), "seed": panel["seed"]}
    return {**known, "values": panel["values"]}


def _key(panel: Mapping[str, Any]) -> Key:
    return panel["arm"], panel["checkpoint"], panel["seed"]
