"""Do recorded steps continue in today's simulator? Each domain answers with measured checks.

A module of `calql.recipes` may offer `CERTIFIERS`, a mapping from task name to certifier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Dataset, Ints
from calql.data.load import MINARI, load
from calql.errors import UserError

Predictor = Callable[[NDArray[Any], NDArray[Any]], tuple[NDArray[Any], float, bool]]  # o, a -> o', r, terminal


@dataclass(frozen=True)
class Check:
    """One measured quantity and the most (or least) it may be."""

    what: str
    value: float
    limit: float
    at_least: bool = False
    detail: str = ""

    @property
    def passed(self) -> bool:
        if np.isnan(self.value):
            return False
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        bound = f"{'at least' if self.at_least else 'at most'} {self.limit:g}"
        line = f"{'ok  ' if self.passed else 'FAIL'}  {self.what}: {self.value:.6g} ({bound})"
        return f"{line}  {self.detail}" if self.detail else line


@dataclass(frozen=True)
class Recording:
    """What is certified: the transitions, and the file they came from where a domain needs more of it."""

    dataset: Dataset
    path: Path | None = None


@dataclass(frozen=True)
class Certifier:
    """A domain's way to check a recording; shapes are compared before it is asked."""

    observation: tuple[int, ...]
    action: tuple[int, ...]
    check: Callable[[Recording], Sequence[Check]]
    read: Callable[[Path], Dataset | None] = lambda path: None  # files of a layout that only the domain knows


@dataclass(frozen=True)
class Report:
    task: str
    source: str
    transitions: int
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        verdict = "belongs to" if self.passed else "does NOT belong to"
        head = f"{self.source}: {self.transitions} transitions, {verdict} {self.task} as simulated here"
        return "\n".join([head, *(f"  {check}" for check in self.checks)])


def certify(task: str, recorded: Dataset | Path | str) -> Report:
    """Check a dataset, or a file of one, against the simulator of a task."""
    certifier = _certifier(task)
    recording = Recording(recorded) if isinstance(recorded, Dataset) else _open(certifier, recorded)
    dataset = recording.dataset
    require_shapes(task, certifier, dataset)
    return Report(task, dataset.source, len(dataset), tuple(certifier.check(recording)))


def _open(certifier: Certifier, recorded: Path | str) -> Recording:
    if str(recorded).startswith(MINARI):
        return Recording(load(recorded))
    path = Path(recorded).expanduser()
    own = certifier.read(path)
    return Recording(load(path) if own is None else own, path)


def require_shapes(task: str, certifier: Certifier, dataset: Dataset) -> None:
    """Refuse data of another task."""
    for kind, recorded, expected in (
        ("observations", dataset.observations.shape[1:], certifier.observation),
        ("actions", dataset.actions.shape[1:], certifier.action),
    ):
        if recorded != expected:
            raise UserError(
                f"is data of another task: its {kind} have {_size(recorded)} and {task}'s have {_size(expected)}",
                where=dataset.source,
                mend="name the task that the data were recorded in",
            )


def _certifier(task: str) -> Certifier:
    from calql.recipes import find  # recipes use this module, so it cannot import them

    found: Certifier = find("CERTIFIERS", "task with a certifier", task)
    return found


@dataclass(frozen=True)
class Drift:
    """How one predicted step differs from the recorded one, row by row."""

    rows: Ints
    state: NDArray[np.float64]  # [row, feature], absolute
    reward: NDArray[np.float64]  # [row], absolute
    terminal: NDArray[np.bool_]  # [row], predicted as recorded


def one_step_drift(dataset: Dataset, predict: Predictor, rows: Ints) -> Drift:
    """Predict one step from each of the given recorded rows."""
    state, reward, terminal = [], [], []
    for row in rows:
        following, earned, ended = predict(dataset.observations[row], dataset.actions[row])
        state.append(np.abs(following - dataset.next_observations[row].astype(np.float64)))
        reward.append(abs(earned - float(dataset.rewards[row])))
        terminal.append(ended == bool(dataset.terminals[row]))
    return Drift(rows, np.asarray(state), np.asarray(reward), np.asarray(terminal, bool))


def spread_rows(count: int, most: int) -> Ints:
    """At most `most` row numbers, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} dimensions" if len(shape) == 1 else f"shape {shape}"
