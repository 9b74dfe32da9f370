"""The tidy table: one row for every evaluation of every seed of every cell, with what it came from.

Tables, figures and the report are all made from this file and can be made again from it alone.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from calql.experiments.cells import PROVENANCE, Cell
from calql.experiments.folders import run_folder
from calql.results.metrics import Row, write_atomically
from calql.results.runs import RecordedRun, read_run
from calql.system.errors import UserError
from calql.system.run_files import CONFIG

TABLE = "results.csv"
WHAT = ("experiment", "scale", "cell", "task", "method", "variant", "seed")
MEASURED = ("phase", "switch", "update", "env_steps", "score", "return", "episode_length")
PLANNED = (
    "offline_updates", "online_steps", "paper_offline_updates", "paper_online_steps", "evaluation_episodes",
    "evaluate_online_every", "finished", "shortened", "minutes",
)  # fmt: skip
VERSIONS = ("commit", "calql", "jax", "mujoco", "gymnasium", "device")
SOURCES = ("command", "dataset", "dataset_fingerprint", "dataset_manifest", "rows")


def write_table(experiment: str, cells: Sequence[Cell], root: Path, path: Path) -> Path:
    """Everything that the cells have measured so far, in the order of the cells."""
    return write_rows([row for cell in cells for row in _rows(experiment, cell, root / cell.id)], path)


def write_rows(rows: Sequence[Row], path: Path) -> Path:
    """The rows as a table, columns in their order."""
    columns = _columns(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell_text(value) for name, value in row.items()} for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())
    return path


@contextlib.contextmanager
def open_table(path: Path) -> Iterator[TextIO]:
    """For reading; a name that ends in .gz is a compressed one."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            yield file
    except FileNotFoundError:
        raise UserError("no such table", where=str(path), mend="run 'calql reproduce' first") from None
    except (gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"is not a whole table: {error}", where=str(path), mend="copy it again, or write it anew with --report-only"
        ) from None


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows as text, empty where a cell has no such number."""
    with open_table(path) as file:
        return list(csv.DictReader(file))


def _columns(rows: Sequence[Row]) -> list[str]:
    """Known columns first and last, and between them whatever the methods measure, by name."""
    known = {*WHAT, *MEASURED, *PLANNED, *VERSIONS, *SOURCES}
    more = sorted({name for row in rows for name in row} - known)
    return [*WHAT, *MEASURED, *more, *PLANNED, *VERSIONS, *SOURCES]


def _rows(experiment: str, cell: Cell, folder: Path) -> list[Row]:
    if not (run_folder(folder) / CONFIG).is_file():
        return []
    run = read_run(run_folder(folder))
    what = {
        "experiment": experiment,
        "scale": cell.scale,
        "cell": cell.id,
        "task": cell.task,
        "method": cell.method,
        "variant": cell.variant,
    }
    noted = folder / PROVENANCE
    provenance = json.loads(noted.read_text()) if noted.is_file() else {}
    around = planned(run, cell.paper_offline_updates, cell.paper_online_steps, cell.shortened)
    return [what | row | around | came_from(run, provenance) for row in run.rows]


def planned(run: RecordedRun, paper_offline: int, paper_online: int, shortened: str) -> Row:
    """How long a run is, how long the paper's, and how it is measured."""
    return {
        "offline_updates": run.offline_updates,
        "online_steps": run.online_steps,
        "paper_offline_updates": paper_offline,
        "paper_online_steps": paper_online,
        "evaluation_episodes": run.option("evaluation_episodes"),
        "evaluate_online_every": run.option("evaluate_online_every"),
        "finished": run.finished,
        "shortened": shortened,
        "minutes": minutes_of(run),
    }


def minutes_of(run: RecordedRun) -> float | None:
    """Wall-clock time of all commands that it took, as far as it was noted: the clock starts anew with each."""
    times = [float(row["elapsed_s"]) for row in run.speed if row.get("elapsed_s") is not None]
    ends = [last for last, following in itertools.pairwise([*times, 0.0]) if following < last]
    return round(sum(ends) / 60.0, 1) if ends else None


def came_from(run: RecordedRun, provenance: Mapping[str, Any]) -> Row:
    """Code, machine, command and data behind a run."""
    noted = run.config.get("versions")
    versions = noted if isinstance(noted, dict) else {}
    return {name: versions.get(name, "") for name in VERSIONS} | {
        "command": run.config.get("command", ""),
        "dataset": provenance.get("dataset", ""),
        "dataset_fingerprint": (run.config.get("dataset") or {}).get("fingerprint", ""),
        "dataset_manifest": json.dumps(provenance.get("manifest", {}), sort_keys=True),
    }


def _cell_text(value: Any) -> Any:
    """Nothing for what is missing, 0 and 1 for flags."""
    if value is None:
        return ""
    return int(value) if isinstance(value, bool) else value
