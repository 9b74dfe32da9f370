"""Train, resume, evaluate: the run folder and the life of a run in it."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calql import experiment as experiments
from calql.compiled import keep_compiled
from calql.data import Dataset
from calql.engine.checkpoint import as_disk_error
from calql.engine.run import Run
from calql.errors import Diverged, UserError
from calql.experiment import Choice, Experiment
from calql.options import Checked
from calql.results import Display, Silent, make_sinks
from calql.results.metrics import read_rows, write_atomically
from calql.tasks.own import MakeEnv

MARGIN_S = 10.0  # kept back from --max-minutes for the last checkpoint


@dataclass(frozen=True)
class Outcome:
    """Where a run is and whether it came to its end."""

    folder: Path
    finished: bool
    reason: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every evaluation of every seed."""
        return read_rows(self.folder / "metrics.jsonl")


@dataclass(frozen=True)
class Watching(Checked):
    """How a run is followed; none of it changes a result."""

    display: Display = Silent()
    tensorboard: bool = False
    wandb: bool = False
    max_minutes: float | None = None


def train(
    task: str | None = None,
    *,
    dataset: str | Path | Dataset | None = None,
    env: str | MakeEnv | None = None,
    method: str = "cal-ql",
    preset: str = "paper",
    out: str | Path | None = None,
    watching: Watching = Watching(),
    **options: Any,
) -> Outcome:
    """Pre-train on logged data, then fine-tune online.

    Name a task, or give a dataset (file or `Dataset`) and an environment (Gymnasium name or a function
    that makes one). Further keywords are options of the run or of the method, by their names.
    """
    _require_kinds(dataset, env)
    data = dataset if isinstance(dataset, Dataset) else None
    own = {name: options.pop(name) for name in ("episode_limit", "reward_scale", "reward_shift") if name in options}
    choice = Choice(
        task=task,
        method=method,
        preset=preset,
        dataset=None if dataset is None or data is not None else str(dataset),
        env=env if isinstance(env, str) else None,
        **own,
    )
    resolved, data, notes = experiments.resolve_task(choice, env, data)
    run, settings = experiments.defaults(choice, resolved)
    run, settings = experiments.set_options(run, settings, options, method)
    experiment = experiments.make_experiment(choice, resolved, data, run, settings, notes)
    return start(experiment, out, watching, command="calql.train(...)")


def _require_kinds(dataset: Any, env: Any) -> None:
    """What Python lets through and no file or command line would."""
    if dataset is not None and not isinstance(dataset, str | Path | Dataset):
        raise UserError(
            f"the dataset is a {type(dataset).__name__}",
            mend="give a file's name, or a calql.data.Dataset; calql.data.from_d4rl_arrays makes one of arrays by name",
        )
    if env is not None and not isinstance(env, str) and not callable(env):
        raise UserError(
            f"the environment is a {type(env).__name__}",
            mend="give its Gymnasium name, or a function without arguments that makes one",
        )


def start(experiment: Experiment, out: str | Path | None, watching: Watching, command: str) -> Outcome:
    """A new run in a new folder; the folder appears once everything about the run has been checked."""
    keep_compiled()
    folder = Path(out) if out is not None else default_folder(experiment)
    if folder.exists():
        raise UserError(
            "exists already", where=str(folder), mend=f"choose another --out, or go on with --resume {folder}"
        )
    plan = experiments.plan(experiment)
    config = experiments.describe(experiment, command)
    try:
        folder.mkdir(parents=True)
        write_atomically(folder / "config.json", json.dumps(config, indent=2, default=str) + "\n")
        run = Run(plan, folder, watching.display, make_sinks(folder, watching.tensorboard, watching.wandb, config))
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _mendable(error, folder) from error
    for note in experiment.notes:
        watching.display.message(f"note: {note}")
    return _execute(run, folder, watching)


def resume(folder: str | Path, watching: Watching) -> Outcome:
    """Go on from the last checkpoint of a run; on a CPU the results are those of a run never interrupted."""
    keep_compiled()
    folder = Path(folder)
    experiment, config = experiments.from_config(folder)
    sinks = make_sinks(folder, watching.tensorboard, watching.wandb, config)
    try:
        run = Run(experiments.plan(experiment), folder, watching.display, sinks)
    except OSError as error:
        raise as_disk_error(error, folder) from error
    if run.checkpoints.latest is None:
        run.output.metrics.truncate(0)
        watching.display.message("no checkpoint was written yet: starting from the beginning")
    else:
        run.restore()
        run.output.metrics.truncate(run.output.rows_written)
    return _execute(run, folder, watching)


def evaluate(folder: str | Path, episodes: int, start: int = 0) -> dict[str, Any]:
    """Score of each seed's last checkpoint over fresh episodes, with the deterministic policy."""
    if episodes < 1 or start < 0:
        raise UserError(f"{episodes} episodes from number {start}", mend="ask for at least 1, from at least 0")
    keep_compiled()
    folder = Path(folder)
    experiment, config = experiments.from_config(folder)
    run = Run(experiments.plan(experiment), folder, Silent())
    try:
        run.restore()
        scores = run.evaluate_afresh(episodes, start)
    finally:
        run.close()
    return {"run": str(folder), "task": config["task"], "method": config["method"], "episodes": episodes, **scores}


def default_folder(experiment: Experiment) -> Path:
    name = f"{experiment.task.name}-{experiment.choice.method}".replace("/", "-").replace(":", "-")
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _execute(run: Run, folder: Path, watching: Watching) -> Outcome:
    deadline = None if watching.max_minutes is None else time.monotonic() + 60.0 * watching.max_minutes - MARGIN_S
    _write_status(folder, finished=False, reason="running")
    try:
        with _stop_signals() as signalled:

            def should_stop() -> bool:
                return signalled() or (deadline is not None and time.monotonic() >= deadline)

            finished = run.execute(should_stop)
    except BaseException as error:
        reason = "diverged" if isinstance(error, Diverged) else f"{type(error).__name__}: {error}"
        with suppress(OSError, UserError):  # the disk may be what failed
            _write_status(folder, finished=False, reason=reason)
        if run.checkpoints.latest is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise _mendable(error, folder) from error
    finally:
        run.close()
    reason = "finished" if finished else "stopped: go on with --resume"
    _write_status(folder, finished=finished, reason=reason)
    return Outcome(folder, finished, reason)


def _write_status(folder: Path, *, finished: bool, reason: str) -> None:
    try:
        write_atomically(folder / "status.json", json.dumps({"finished": finished, "reason": reason}) + "\n")
    except OSError as error:
        raise as_disk_error(error, folder) from error


def _mendable(error: BaseException, folder: Path) -> BaseException:
    return as_disk_error(error, folder) if isinstance(error, Exception) else error


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """SIGTERM and Ctrl-C ask for a checkpoint and a clean end; a second Ctrl-C ends at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, _: Any) -> None:
        if asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
