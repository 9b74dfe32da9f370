"""Train, resume, evaluate: the run folder and the life of a run in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
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
from calql.results.metrics import read_rows
from calql.runs.changes import changed, elsewhere, grows, noted, of_the_code
from calql.runs.folder import (
    CONFIG,
    METRICS,
    clean,
    default_folder,
    discard,
    finished,
    has_checkpoint,
    make_folder,
    refuse_existing,
    require_begun,
    write_json,
    write_status,
)
from calql.runs.lock import owned
from calql.runs.stops import Cause, Stops
from calql.tasks.own import MakeEnv

OWN = ("episode_limit", "reward_scale", "reward_shift", "score")  # options that describe a task
STOPPED = "stopped: go on with --resume"


@dataclass(frozen=True)
class Outcome:
    """Where a run is and whether it came to its end."""

    folder: Path
    finished: bool
    reason: str
    stopped_by: Cause | None = None
    diverged: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # seed -> update and env_steps then

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
    stops: Stops | None = None  # where the command listens itself, in place of `max_minutes`


def train(
    task: str | None = None,
    *,
    dataset: str | Path | Dataset | None = None,
    env: str | MakeEnv | None = None,
    method: str = "cal-ql",
    preset: str = "default",
    out: str | Path | None = None,
    watching: Watching = Watching(),
    probe: bool = True,
    **options: Any,
) -> Outcome:
    """Pre-train on logged data, then fine-tune online.

    Name a task, or give a dataset (file or `Dataset`) and an environment (Gymnasium name or a function
    that makes one). Further keywords are options of the run or of the method, by their names.
    Unless `probe` is off, an environment of your own is first tried out with random actions.
    """
    refuse_existing(out)
    _require_kinds(dataset, env)
    data = dataset if isinstance(dataset, Dataset) else None
    own = {name: options.pop(name) for name in OWN if name in options}
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
    if env is not None and probe and not run.real:
        watching.display.message(experiments.PROBE)
    experiment = experiments.make_experiment(choice, resolved, data, run, settings, notes, probe=probe)
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
    """A new run in a new folder, which this process makes and owns; gone again if the run cannot begin."""
    keep_compiled()
    with _stops(watching) as stops:
        stops.check()
        place = make_folder(out, default_folder(experiment.task.name, experiment.choice.method))
        with owned(place), stops.telling(partial(_note_end, place)):
            try:
                config = experiments.describe(experiment, command)
                write_json(place / CONFIG, config)
                plan = experiments.plan(experiment)
                if plan.notes:
                    config |= {"fits": list(plan.notes)}
                    write_json(place / CONFIG, config)
                stops.check()
                sinks = make_sinks(place, watching.tensorboard, watching.wandb, config)
                run = Run(plan, place, watching.display, sinks, stops)
            except BaseException as error:
                discard(place)
                raise _mendable(error, place) from error
            for note in (*experiment.notes, *plan.notes):
                watching.display.message(f"note: {note}")
            return _execute(run, place, stops)


def resume(
    folder: str | Path, watching: Watching = Watching(), *, accept_changes: bool = False, **changes: Any
) -> Outcome:
    """Go on from the last checkpoint of a run; on a CPU the results are those of a run never interrupted.

    `changes` are options that may differ from now on, such as more `online_steps`, which also a finished run takes.
    A task whose code has changed since is refused, unless `accept_changes` says that the run may go on with it.
    """
    keep_compiled()
    folder = Path(folder)
    require_begun(folder)
    with _stops(watching) as stops, owned(folder), stops.telling(partial(_note_end, folder)):
        if finished(folder) and not _goes_on(folder, changes):
            watching.display.message("the run is finished: nothing is left to do (more --online-steps extend it)")
            return Outcome(folder, finished=True, reason="finished")
        clean(folder)
        experiment, config = experiments.from_config(folder, changes, limit_of_code=True)
        now = json.loads(json.dumps(experiments.describe(experiment, config.get("command", "")), default=str))
        _require_same_task(folder, of_the_code(config, now), accept_changes)
        if note := elsewhere(config, now):
            watching.display.message(f"note: {note}")
        stops.check()
        sinks = make_sinks(folder, watching.tensorboard, watching.wandb, config)
        try:
            run = Run(experiments.plan(experiment), folder, watching.display, sinks, stops)
        except OSError as error:
            raise as_disk_error(error, folder) from error
        _take_up(run, folder, watching.display)
        write_status(folder, finished=False, reason="running")
        write_json(folder / CONFIG, noted(config, now))
        return _execute(run, folder, stops)


def _require_same_task(folder: Path, differences: list[str], accepted: bool) -> None:
    if differences and not accepted:
        raise UserError(
            f"the task is no longer the one that the run was begun with: {'; '.join(differences)}",
            where=str(folder),
            mend="put the code back, or go on all the same with --accept-changes",
        )


def _goes_on(folder: Path, changes: Mapping[str, Any]) -> bool:
    """Whether a finished run is extended, which needs its last checkpoint."""
    config = experiments.read_config(folder)
    changed(experiments.recorded_options(config, folder)[0], changes, str(folder))
    if not grows(config, changes):
        return False
    if not has_checkpoint(folder):
        raise UserError(
            "is finished and its checkpoints are gone, so it cannot be extended",
            where=str(folder),
            mend="put the folder 'checkpoints' back, or start a new run; nothing was changed",
        )
    return True


def _take_up(run: Run, folder: Path, display: Display) -> None:
    """From the newest checkpoint; from the beginning, where none was written yet."""
    if run.checkpoints.latest is not None:
        run.restore()
        if run.online and run.options.offline_updates > experiments.read_config(folder)["run"]["offline_updates"]:
            raise UserError(
                "more --offline-updates come too late: the run has gone online",
                where=str(folder),
                mend="extend it with --online-steps",
            )
        run.output.metrics.truncate(run.output.rows_written)
        return
    if any(row.get("phase") == "online" for row in read_rows(folder / METRICS)):
        raise UserError(
            "has results of its online phase, and its checkpoints are gone",
            where=str(folder),
            mend="put the folder 'checkpoints' back; to train anew, start another run",
        )
    run.output.metrics.truncate(0)
    display.message("no checkpoint was written yet: starting from the beginning")


def evaluate(folder: str | Path, episodes: int, start: int = 0) -> dict[str, Any]:
    """Score of each seed's last checkpoint over fresh episodes, with the deterministic policy."""
    if episodes < 1 or start < 0:
        raise UserError(f"{episodes} episodes from number {start}", mend="ask for at least 1, from at least 0")
    keep_compiled()
    folder = Path(folder)
    experiment, config = experiments.from_config(folder)
    with Stops():  # a signal ends it, and environments are let go of
        run = Run(experiments.plan(experiment), folder, Silent())
        try:
            run.restore()
            scores = run.evaluate_afresh(episodes, start)
        finally:
            run.close()
    return {"run": str(folder), "task": config["task"], "method": config["method"], "episodes": episodes, **scores}


def _execute(run: Run, folder: Path, stops: Stops) -> Outcome:
    write_status(folder, finished=False, reason="running")
    with stops.running():
        try:
            came_to_its_end = run.execute(stops.asked)
        except BaseException as error:
            with suppress(OSError, UserError):  # the disk may be what failed
                write_status(folder, finished=False, reason=_in_words(error), **_seeds_lost(run))
            raise _mendable(error, folder) from error
        finally:
            run.close()
        reason = "finished" if came_to_its_end else STOPPED
        write_status(folder, finished=came_to_its_end, reason=reason, **_seeds_lost(run))
    return Outcome(folder, came_to_its_end, reason, None if came_to_its_end else stops.cause, run.lost)


def _seeds_lost(run: Run) -> dict[str, Any]:
    """Which seeds have diverged or run away, for the status."""
    found: dict[str, Any] = {}
    if run.lost:
        found["diverged"] = [{"seed": seed, **where} for seed, where in sorted(run.lost.items())]
    if run.output.watch.alarms:
        found["running_away"] = [asdict(alarm) for _, alarm in sorted(run.output.watch.alarms.items())]
    return found


def _note_end(folder: Path, reason: str) -> None:
    """The process is being ended where it is."""
    if (folder / CONFIG).exists():
        write_status(folder, finished=False, reason=reason)


def _in_words(error: BaseException) -> str:
    if isinstance(error, Diverged):
        return "diverged"
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def _mendable(error: BaseException, folder: Path) -> BaseException:
    return as_disk_error(error, folder) if isinstance(error, Exception) else error


@contextmanager
def _stops(watching: Watching) -> Iterator[Stops]:
    """Those of the command, or of this call."""
    if watching.stops is not None:
        yield watching.stops
        return
    with Stops(watching.max_minutes) as stops:
        yield stops
