"""The paper's own numbers (Tables 1, 2, 5 and 6), under the names that tasks and methods have here."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Number = Literal["before", "after", "regret"]
Key = tuple[str, str]  # task, method

PRINTED: Mapping[str, str] = {  # the name in the tables, and that of the method here
    "Cal-QL": "cal-ql",
    "CQL": "cql",
    "IQL": "iql",
    "AWAC": "awac",
    "O3F": "o3f",
    "ODT": "odt",
    "CQL+SAC": "cql-sac",
    "Hybrid RL": "hybrid",
    "SAC+od": "sac-offline",
    "SAC": "sac",
}
ROUNDING = 0.005  # half of the last digit that the paper prints, of scores and regrets alike
SEEDS = 6  # behind each number; the paper prints no spread


@dataclass(frozen=True)
class Published:
    """One cell of the paper's tables, as shares of 1; None where it has no number."""

    task: str
    domain: str
    method: str
    before: float | None
    after: float | None
    regret: float | None


@dataclass(frozen=True)
class PaperTable:
    """A table of scores and its table of regrets, which are printed apart."""

    cells: Mapping[Key, Published]
    hundredths: bool  # scores are printed out of 100

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task for task, _ in self.cells))

    @property
    def methods(self) -> tuple[str, ...]:
        """In the order in which they are printed."""
        return tuple(dict.fromkeys(method for _, method in self.cells))

    @property
    def domains(self) -> Mapping[str, str]:
        """Task to the block of lines that it is printed in."""
        return {cell.task: cell.domain for cell in self.cells.values()}

    def number(self, key: Key, number: Number) -> float | None:
        cell = self.cells.get(key)
        return None if cell is None else getattr(cell, number)


@cache
def main_table() -> PaperTable:
    """Tables 1 and 2: eleven tasks, ten methods."""
    return _read("main.csv", lambda row: (_main_task(row["domain"], row["task"]), row["domain"]), hundredths=True)


@cache
def locomotion_table() -> PaperTable:
    """Tables 5 and 6: fifteen tasks, five methods."""
    return _read("locomotion.csv", lambda row: _locomotion_task(row["task"]), hundredths=False)


def printed(task: str, method: str) -> Published | None:
    """What the paper prints of a method on a task."""
    return main_table().cells.get((task, method)) or locomotion_table().cells.get((task, method))


def _read(name: str, place: Callable[[Mapping[str, str]], tuple[str, str]], *, hundredths: bool) -> PaperTable:
    text = resources.files("calql.experiments").joinpath("paper", name).read_text(encoding="utf-8")
    most = 100.0 if hundredths else 1.0
    cells = [_cell(row, place(row), most) for row in csv.DictReader(text.splitlines())]
    return PaperTable({(cell.task, cell.method): cell for cell in cells}, hundredths)


def _cell(row: Mapping[str, str], place: tuple[str, str], most: float) -> Published:
    task, domain = place
    return Published(
        task=task,
        domain=domain,
        method=PRINTED[row["method"]],
        before=_share(row["score_offline"], most),
        after=_share(row["score_finetuned"], most),
        regret=_share(row["cumulative_regret"], 1.0),
    )


def _share(text: str, most: float) -> float | None:
    return float(text) / most if text else None


def _main_task(domain: str, task: str) -> str:
    return {"adroit": f"{task}-binary", "visual": "pick-place"}.get(domain, f"{domain}-{task}")


def _locomotion_task(task: str) -> tuple[str, str]:
    name = task.removesuffix("-v2")
    return name, name.split("-")[0]
