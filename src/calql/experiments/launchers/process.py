"""`python -m calql.experiments.launchers.process FOLDER`: the process of one cell, which starts or goes on."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from calql.data.store import MANIFEST, data_root, digest
from calql.domains.registry import get_task
from calql.engine.devices import ALL
from calql.experiments.cells import PROVENANCE, SLICES, STAND_IN, Cell
from calql.experiments.folders import BUSY, CellProgress, at_work, read_progress, run_folder, write_progress
from calql.experiments.launchers.base import GRACE_S
from calql.experiments.slices import write_slices
from calql.experiments.standin import stand_in
from calql.experiments.training import options_of, train_cell
from calql.results import Progress
from calql.results.metrics import write_atomically
from calql.runs import life as training
from calql.runs.preparation import Prepared
from calql.runs.stops import Stopped, Stops
from calql.system.errors import UserError
from calql.system.run_files import CONFIG

TOLD = ("recipe", "version", "seed", "size", "sha256", "transitions", "episodes", "sources")  # of a set's manifest
BLOCK_ON_CPU = 10  # updates between two looks at the clock: a hundred of the paper's networks take a minute there
STOPPED = "stopped; it goes on when called again"
FAILED = 1  # exit code; a cell that finished or was stopped ends with 0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="calql.experiments.launchers.process", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=0, help="processes that step environments")
    parser.add_argument("--parent", type=int, default=0, help="stop cleanly when this process is gone")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds given to another process to leave the folder")
    given = parser.parse_args(words)
    if given.parent:
        threading.Thread(target=_stop_without, args=(given.parent,), daemon=True).start()
    with at_work(given.folder, given.wait) as free:
        return run_cell(given.folder, given.workers) if free else BUSY


def run_cell(folder: Path, workers: int) -> int:
    """Train or go on, and write down how that ended."""
    before, begun = read_progress(folder), time.monotonic()

    def note(state: Any, reason: str = "") -> None:
        write_progress(folder, CellProgress(state, reason, before.seconds + time.monotonic() - begun))

    note("running")
    try:
        cell = Cell.read(folder)
        with Stops(own_process=True, grace_s=GRACE_S) as stops:
            outcome = _train(cell, folder, workers, stops)
        if cell.slices and outcome.finished:
            write_slices(cell, run_folder(folder), folder / SLICES)
    except Stopped:
        note("running", STOPPED)
        return 0
    except UserError as error:
        print(f"calql: {error}", file=sys.stderr)
        note("failed", str(error))
        return FAILED
    except Exception as error:
        traceback.print_exc()
        note("failed", f"{type(error).__name__}: {error}".splitlines()[0])
        return FAILED
    if outcome.finished:
        note("finished")
    else:
        note("running", STOPPED)
    return 0


def _train(cell: Cell, folder: Path, workers: int, stops: Stops) -> training.Outcome:
    run, watching = run_folder(folder), training.Watching(Progress(), stops=stops)
    dataset = stand_in(get_task(cell.task)) if cell.data == STAND_IN else None
    if (run / CONFIG).exists():
        _adapt(run / CONFIG, dataset, workers)
    here = {"workers": workers, "devices": ALL}  # a launcher shows a cell what it may use
    if jax.default_backend() == "cpu" and "block" not in cell.options:
        here["block"] = min(options_of(cell)[0].block, BLOCK_ON_CPU)

    def prepared(experiment: Prepared) -> None:
        write_atomically(folder / PROVENANCE, json.dumps(_provenance(experiment), indent=2) + "\n")

    return train_cell(cell, run, watching, here, dataset, prepared)


def _adapt(path: Path, dataset: Path | None, workers: int) -> None:
    """A run may go on elsewhere: where stand-in data lie and how many cores there are is this machine's to say."""
    config = json.loads(path.read_text())
    config["run"] |= {"workers": workers, "devices": ALL}
    config["choice"]["dataset"] = None if dataset is None else str(dataset)
    write_atomically(path, json.dumps(config, indent=2) + "\n")


def _provenance(experiment: Prepared) -> dict[str, Any]:
    """The dataset by name and checksum, without the place where this machine keeps it."""
    source = Path(experiment.data.source)
    name = source.relative_to(data_root()) if source.is_relative_to(data_root()) else Path(source.name)
    facts: dict[str, Any] = {}
    if (manifest := source.parent / MANIFEST).is_file():
        found = json.loads(manifest.read_text())
        facts = {key: found[key] for key in TOLD if key in found}
    elif source.is_file():
        facts = {"sha256": digest(source), "transitions": len(experiment.data)}
    return {"dataset": name.as_posix(), "manifest": facts}


def _stop_without(parent: int) -> None:
    """A cell whose matrix was killed would go on unseen: it asks itself to stop at the next checkpoint."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
