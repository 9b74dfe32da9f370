"""Rows of runs and of tables, wherever they lie, as one tidy table.

A run folder gives its rows, a sweep those of each arm, finished or not. Runs that are kept without their folder are
three files of one name: `door-config.json`, `door-metrics.jsonl` (or .gz) and, where there is one, `door-speed.jsonl`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from calql.domains.registry import all_tasks
from calql.engine.options import RunOptions
from calql.experiments.analysis.evaluations import MEASURING, NEEDED
from calql.experiments.analysis.tidy import came_from, open_table, planned, read_table, write_rows
from calql.experiments.names import method_called
from calql.methods import METHODS
from calql.results.arms import known_as
from calql.results.metrics import Row, read_rows
from calql.results.runs import RecordedRun, arms_apart
from calql.runs import request
from calql.runs.request import Choice
from calql.system.errors import UserError
from calql.system.run_config import check_parts, read_object
from calql.system.run_files import CONFIG, METRICS, SPEED, STATUS

EXPERIMENT = "runs"  # what rows of run folders have in the column of that name
SCALE = "paper"  # their options are the task's own, but for those that the variant names
# Options that say how long, how often measured or on which machine: another value is not another variant.
HOW_LONG = {
    "seeds", "first_seed", "offline_updates", "online_steps", "evaluate_offline_every", "evaluate_online_every",
    "evaluation_episodes", "precision", "critic_kernel", "lag", "update_schedule", "workers", "block",
    "checkpoint_minutes", "step_timeout", "films", "capacity", "devices",
}  # fmt: skip


def gather(places: Sequence[Path], path: Path) -> Path:
    """Everything that is found at the places, below folders too, as one table."""
    return write_rows(_once(row for place in places for row in rows_at(place)), path)


def _once(rows: Iterable[Row]) -> list[Row]:
    """A cell that experiments share stands in the table of each: once is enough, against the longer of the paper's."""
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault((row["cell"], row["variant"]), {}).setdefault(row["rows"], []).append(row)
    return [row for copies in found.values() for row in max(copies.values(), key=lambda copy: _paper_updates(copy[0]))]


def _paper_updates(row: Row) -> float:
    return float(row.get("paper_offline_updates") or 0)


def rows_at(place: Path) -> Iterator[Row]:
    """The rows of a table, of a run, or of all tables and runs below a folder; each knows where it was found."""
    if place.is_file():
        yield from _of_table(place)
        return
    if not place.is_dir():
        raise UserError("is not there", where=str(place), mend="give run folders, tables, or a folder of them")
    found = sorted(place.rglob(f"*{CONFIG}"))
    tables = [path for path in sorted(place.rglob("*.csv*")) if _is_table(path)]
    if not found and not tables:
        raise UserError("holds no runs and no tables of results", where=str(place), mend="give another folder")
    for config in found:
        yield from _of_run(config, place)
    for path in tables:
        yield from _of_table(path, place)


def _of_table(path: Path, below: Path | None = None) -> Iterator[Row]:
    where = str(path.relative_to(below)) if below else path.name
    for row in read_table(path):
        measured = {name: row.get(name) or _measured(row, name) for name in MEASURING}
        yield {**row, **measured, "rows": row.get("rows") or where}


def _measured(row: Mapping[str, str], name: str) -> int | None:
    """How a cell was measured; tables of before say it in the command alone, where it is not the task's own."""
    told = re.search(f"--{name.replace('_', '-')} ([0-9]+)", row.get("command") or "")
    return int(told[1]) if told else _usual(row["task"], row["method"], name)


@cache
def _usual(task: str, method: str, name: str) -> int | None:
    """The task's own; None for a task or a method that is not this package's."""
    run = protocol(task, method)
    return None if run is None else int(getattr(run, name))


def _is_table(path: Path) -> bool:
    if path.suffix not in (".csv", ".gz"):
        return False
    with open_table(path) as file:
        return set(NEEDED) <= set(next(csv.reader(file), []))


def _of_run(config: Path, below: Path) -> Iterator[Row]:
    """Of every arm; `config` may belong to a run folder or stand beside its rows under a longer name."""
    whole = read_kept(config)
    metrics = config.with_name(config.name.removesuffix(CONFIG) + METRICS)
    where = str((metrics if metrics.is_file() else metrics.with_name(metrics.name + ".gz")).relative_to(below))
    for run in arms_apart(whole):
        method, variant = named(run)
        lengths = paper_lengths(run.task, method)
        cell = ".".join(part for part in (where, method, variant) if part)
        what = {"experiment": EXPERIMENT, "scale": SCALE, "cell": cell, "task": run.task, "method": method}
        around = planned(run, *lengths, "") | came_from(run, {}) | {"variant": variant, "rows": where}
        yield from (what | {k: v for k, v in row.items() if k != "arm"} | around for row in run.rows)


def read_kept(config: Path) -> RecordedRun:
    """A run from its config and the files of the same beginning; it ended where a status or its rows say so."""
    start = config.name.removesuffix(CONFIG)
    rows = [row for row in _rows(config.with_name(start + METRICS)) if {"seed", "phase", "score"} <= row.keys()]
    status = config.with_name(start + STATUS)
    described = read_object(config)
    check_parts(described, config)
    run = RecordedRun(config.parent, described, rows, _rows(config.with_name(start + SPEED)), {}, {})
    done = read_object(status) if status.is_file() else {"finished": came_to_its_end(run)}
    return RecordedRun(run.folder, run.config, rows, run.speed, done, {})


def _rows(path: Path) -> list[Row]:
    packed = path.with_name(path.name + ".gz")
    if path.is_file() or not packed.is_file():
        return read_rows(path)
    with gzip.open(packed, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def came_to_its_end(run: RecordedRun) -> bool:
    """Every seed has been evaluated at its planned end."""
    if not run.rows or not run.seeds:
        return False
    return all(_reached(run.of_seed(seed), run) for seed in run.seeds)


def _reached(rows: Sequence[Row], run: RecordedRun) -> bool:
    if run.online_steps:
        return max((row["env_steps"] for row in rows if row["phase"] == "online"), default=0) >= run.online_steps
    return max((row["update"] for row in rows), default=0) >= run.offline_updates


def named(run: RecordedRun) -> tuple[str, str]:
    """The method as tables know it, and what else was changed; an arm that is a method of its own is that method."""
    method, changed = str(run.config.get("method")), _changed(run.config)
    title = known_as(run.config, run.arm) if run.arm else ""
    if known := method_called(title):
        return known, ", ".join(changed)
    return method, ", ".join([*changed, *([run.arm] if run.arm else [])])


def _changed(config: Mapping[str, Any]) -> list[str]:
    """A program other than this one, data other than the task's, and options that were set and decide a result."""
    origins = config.get("origins") or {}
    options: dict[str, Any] = {**(config.get("options") or {}), **(config.get("run") or {})}
    dataset = (config.get("choice") or {}).get("dataset")
    told = [str(config["program"])] if config.get("program") else []
    told += [] if dataset is None else [f"dataset={Path(str(dataset)).name}"]
    mine: Iterable[str] = sorted(name for name, origin in origins.items() if origin == "you" and name not in HOW_LONG)
    return told + [f"{name}={_text(options.get(name))}" for name in mine]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def paper_lengths(task: str, method: str) -> tuple[int, int]:
    """Updates and steps of the paper's protocol; none for a task or a method that is not this package's."""
    run = protocol(task, method)
    return (0, 0) if run is None else (run.offline_updates, run.online_steps)


def protocol(task: str, method: str) -> RunOptions | None:
    """The options of a run as the paper has it."""
    if task not in all_tasks() or method not in METHODS:
        return None
    return request.defaults(Choice(task=task, method=method), all_tasks()[task])[0]
