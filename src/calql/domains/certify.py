"""Do recorded steps continue in today's simulator? Each domain answers with measured checks.

The `check.py` of a domain offers `CERTIFIERS`, a mapping from task name to certifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calql.data.dataset import Dataset
from calql.data.formats.minari import MINARI
from calql.data.load import load
from calql.domains.checks import Certifier, Check, Recording
from calql.domains.registry import find
from calql.system.errors import UserError


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
    return find("task with a certifier", task, lambda domain: domain.certifiers)


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} dimensions" if len(shape) == 1 else f"shape {shape}"
