"""How long a run takes to its first update: in a first process, which compiles, and in a second of the same kind.

Each is a process of its own, as a user's is, and both share a cache of compiled programs that nobody else has. Beside
the clock stands the time of the processor, which says more where other work goes on. Processes that play the first
evaluation meanwhile are not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from calql.domains.registry import DOMAINS, Task, get_task
from calql.experiments.cells import Cell
from calql.experiments.standin import stand_in
from calql.experiments.training import options_of, train_cell
from calql.methods import make_method
from calql.results import Silent
from calql.runs.life import Watching
from calql.runs.stops import process_start
from calql.system.compiled import VARIABLE
from calql.system.errors import UserError

SHORT = {"online_steps": 0, "evaluation_episodes": 1, "block": 1}


def measure_start(task: str, method: str, seeds: int, changes: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Seconds to the first update, of a first and of a second process; with the task's own options but for `changes`.

    Data that stand in for the task's are made before: a user has theirs.
    """
    _data(get_task(task))
    words = [task, method, str(seeds), json.dumps(dict(changes))]
    with tempfile.TemporaryDirectory() as cache:
        first, second = (_in_a_process(words, Path(cache)) for _ in range(2))
    return {
        "task": task,
        "method": method,
        "seeds": seeds,
        **({"changes": dict(changes)} if changes else {}),
        "first": first,
        "second": second,
    }


def start_in_words(row: Mapping[str, Any]) -> str:
    """Seconds of the processor, without the work of the first update itself."""
    first, second = (row[name]["cpu_s"] - row[name]["update_cpu_s"] for name in ("first", "second"))
    return f"{first:.1f} s of the processor, then {second:.1f}; an update {row['second']['update_cpu_s']:.1f}"


def _in_a_process(words: Sequence[str], cache: Path) -> dict[str, Any]:
    variables = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    command = [sys.executable, "-m", "calql.bench.start", *words]
    ended = subprocess.run(command, env={**variables, VARIABLE: str(cache)}, capture_output=True, text=True)
    if ended.returncode:
        said = (ended.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise UserError(f"the run ended before its first update ({said})", where=" ".join(words), mend="train it alone")
    return json.loads(ended.stdout.splitlines()[-1])


def _data(task: Task) -> Path | None:
    """What stands in for the data of a task whose own take long to make."""
    return None if DOMAINS[task.domain].quick_data else stand_in(task)


class Known(Exception):
    """All is known: the rest of the run is not waited for."""


class UntilTheFirstUpdate(Silent):
    """Notes when that is, in seconds since the process began, and what the next update takes: it only works."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def advance(self, updates: int, env_steps: int, updates_per_s: float, env_steps_per_s: float) -> None:
        if not self.found:
            self.found = {"wall_s": time.monotonic() - process_start(), "cpu_s": time.process_time()}
        elif "update_cpu_s" not in self.found:
            self.found["update_cpu_s"] = time.process_time() - self.found["cpu_s"]
            raise Known


def main(words: Sequence[str]) -> None:
    """In the process that is measured."""
    task, method, seeds = get_task(words[0]), words[1], int(words[2])
    changes = SHORT | json.loads(words[3])
    usual = options_of(Cell(task.name, method, "start", seeds, changes))[1]
    two = 2 * make_method(method, usual, discrete=task.discrete).minibatches
    noted, cell = UntilTheFirstUpdate(), Cell(task.name, method, "start", seeds, {**changes, "offline_updates": two})
    with tempfile.TemporaryDirectory() as place, suppress(Known):
        train_cell(cell, Path(place) / "run", Watching(noted), dataset=_data(task))
    print(json.dumps(noted.found))


if __name__ == "__main__":
    main(sys.argv[1:])
