"""Figure 4: slices of Q over actions at one state, against the return that each action truly leads to."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calql.experiments.cells import GATHERED
from calql.experiments.names import method_name, method_place
from calql.results.panels import INK_PLACE, Line, Panel
from calql.results.statistics import Floats

MOMENTS = {"switch": "at the switch", "after": "after the first online updates"}


@dataclass(frozen=True)
class Slice:
    """Q of one method at one moment and state, over one component of the action."""

    method: str
    moment: str
    state: str
    action: Floats
    q: Floats
    true_return: Floats
    logged: np.ndarray  # which actions are the data's
    reference: float


def read_slices(folder: Path) -> list[Slice]:
    """None where the file is not there: the cells have not come that far."""
    path = folder / GATHERED
    if not path.is_file():
        return []
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            groups.setdefault((row["method"], row["moment"], row["state"]), []).append(row)
    found = [_slice(*key, rows) for key, rows in groups.items()]
    return sorted(found, key=lambda each: (each.state, list(MOMENTS).index(each.moment), method_place(each.method)))


def _slice(method: str, moment: str, state: str, rows: list[dict[str, str]]) -> Slice:
    rows = sorted(rows, key=lambda row: float(row["action_x"]))
    action, q, true_return = (np.array([float(row[name]) for row in rows]) for name in ("action_x", "q", "true_return"))
    logged = np.array([bool(int(row["logged"])) for row in rows])
    return Slice(method, moment, state, action, q, true_return, logged, float(rows[0]["reference"]))


def slice_panels(slices: Sequence[Slice]) -> list[Panel]:
    """A panel for each state, moment and method; panels of one state have one scale."""
    states = list(dict.fromkeys(each.state for each in slices))
    titles = {state: f", {state}" if len(states) > 1 else "" for state in states}
    return [
        Panel(
            f"{method_name(each.method)} {MOMENTS[each.moment]}{titles[each.state]}",
            _lines(each), "action, first component", "Q and return", x_range=(-1.05, 1.05),
            y_range=_range([other for other in slices if other.state == each.state]),
        )
        for each in slices
    ]  # fmt: skip


def _lines(each: Slice) -> list[Line]:
    flat = np.full_like(each.action, each.reference)
    return [
        Line("true return", TRUTH_PLACE, each.action, each.true_return),
        Line(f"Q of {method_name(each.method)}", method_place(each.method), each.action, each.q),
        Line("reference value", INK_PLACE, each.action, flat, kind="dashed"),
        Line("logged action", INK_PLACE, each.action[each.logged], each.q[each.logged], kind="points"),
    ]


TRUTH_PLACE = 2  # green, as no method of this figure is


def _range(slices: Sequence[Slice]) -> tuple[float, float]:
    values = np.concatenate([np.concatenate([each.q, each.true_return, [each.reference]]) for each in slices])
    margin = 0.05 * (values.max() - values.min()) or 1.0
    return float(values.min() - margin), float(values.max() + margin)
