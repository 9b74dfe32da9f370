"""The tidy table read back: every cell with its evaluations, in an order that the file's does not change."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from calql.experiments.analysis.tidy import open_table
from calql.experiments.names import method_place
from calql.experiments.paper.numbers import Number
from calql.methods.vocabulary import AVERAGE_Q, AVERAGE_RETURN_TO_GO, BOUND_RATE
from calql.results.metrics import Row
from calql.results.runs import RecordedRun
from calql.results.statistics import Floats
from calql.results.summary import SeedSummary, summarise_seed, tolerance_of
from calql.system.errors import UserError

NEEDED = (
    "scale", "cell", "task", "method", "variant", "seed", "phase", "switch", "update", "env_steps", "score", "finished",
)  # fmt: skip
PROVENANCE = (
    "commit", "calql", "jax", "mujoco", "gymnasium", "device", "command",
    "dataset", "dataset_fingerprint", "dataset_manifest", "rows",
)  # fmt: skip
MEASURING = ("evaluation_episodes", "evaluate_online_every")
LENGTHS = ("offline_updates", "online_steps", "paper_offline_updates", "paper_online_steps")
DRAWN = ("score", AVERAGE_Q, AVERAGE_RETURN_TO_GO, f"{BOUND_RATE}/")  # starts of the columns that figures show


@dataclass(frozen=True, eq=False)
class Result:
    """One cell that has evaluations."""

    cell: str
    task: str
    method: str
    variant: str
    scale: str
    finished: bool
    shortened: str  # how, in words
    run: RecordedRun  # its rows, as a run folder would give them
    provenance: Mapping[str, str]
    paper_offline: int = 0  # updates and steps of the paper's protocol; 0: it has none
    paper_online: int = 0
    minutes: float | None = None  # of wall-clock time, for all seeds of it (and all arms of a sweep)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.task, self.method, self.variant

    @cached_property
    def seeds(self) -> tuple[SeedSummary, ...]:
        rows, tolerance = map(self.run.of_seed, self.run.seeds), tolerance_of(self.run.option("evaluation_episodes"))
        every = int(self.run.option("evaluate_online_every") or 0)
        return tuple(
            summarise_seed(each, online_steps=self.run.online_steps, every=every, tolerance=tolerance)
            for each in rows
            if each
        )

    def values(self, number: Number) -> Floats | None:
        """One number of every seed; None where the cell has none, as has the score before without pre-training."""
        if number == "before" and not self.run.offline_updates:
            return None
        found = [getattr(seed, number) for seed in self.seeds]
        return None if any(value is None for value in found) else np.array(found, np.float64)


def read_results(table: Path) -> list[Result]:
    """Cells in the order of task, method and variant."""
    groups: dict[tuple[str, str], tuple[dict[str, str], list[Row]]] = {}  # the first line of a cell, and all as rows
    with open_table(table) as file:
        lines = csv.DictReader(file)
        _check(lines.fieldnames or (), table)
        for line in lines:
            groups.setdefault((line["cell"], line["variant"]), (line, []))[1].append(_row(line))
    return sorted((_result(table, first, rows) for first, rows in groups.values()), key=_place)


def _check(names: Iterable[str], table: Path) -> None:
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise UserError(
            f"a table of results without {', '.join(missing)}",
            where=str(table),
            mend="give the results.csv that 'calql reproduce' wrote",
        )


def _place(result: Result) -> tuple[str, int, str, str]:
    return result.task, method_place(result.method), result.method, result.variant


def _result(table: Path, first: Mapping[str, str], unordered: list[Row]) -> Result:
    rows = sorted(unordered, key=_moment)
    offline, online, paper_offline, paper_online = (int(_number(first.get(name)) or 0) for name in LENGTHS)
    finished = all(row["finished"] for row in rows)
    config = {
        "task": first["task"],
        "method": first["method"],
        "seeds": sorted({row["seed"] for row in rows}),
        "run": {
            "offline_updates": offline,
            "online_steps": online,
            **{name: _whole(first.get(name)) for name in MEASURING},
        },
    }
    return Result(
        cell=first["cell"],
        task=first["task"],
        method=first["method"],
        variant=first["variant"],
        scale=first["scale"],
        finished=finished,
        shortened=first.get("shortened", ""),
        run=RecordedRun(table.parent, config, rows, [], {"finished": finished}, {}),
        provenance={name: first.get(name) or "" for name in PROVENANCE},
        paper_offline=paper_offline,
        paper_online=paper_online,
        minutes=_number(first.get("minutes")),
    )


def _whole(text: str | None) -> int | None:
    return int(float(text)) if text else None


def _row(line: Mapping[str, str]) -> Row:
    drawn = {
        name: value for name, text in line.items() if name.startswith(DRAWN) and (value := _number(text)) is not None
    }
    return {
        "score": None,
        **drawn,
        **{name: int(float(line[name])) for name in ("seed", "update", "env_steps")},
        **{name: bool(_number(line[name])) for name in ("switch", "finished")},
        "phase": line["phase"],
    }


def _moment(row: Row) -> tuple[int, bool, int, int]:
    return row["seed"], row["phase"] == "online", row["update"], row["env_steps"]


def _number(text: str | None) -> float | None:
    return float(text) if text else None
