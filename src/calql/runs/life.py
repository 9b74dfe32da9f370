"""Start and resume runs, each in its folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from calql.data import Dataset
from calql.domains.own.tasks import MakeEnv
from calql.engine.checkpoint import Saved, as_disk_error
from calql.engine.devices import require_devices
from calql.engine.handed_in import Recorded
from calql.engine.plan import Plan
from calql.engine.run import Run
from calql.results import Display, Progress, Silent, make_sinks
from calql.results.arms import Member, by_member, named
from calql.results.metrics import read_rows
from calql.runs import given, preparation, record
from calql.runs.changes import elsewhere, noted, of_the_code
from calql.runs.extension import extends, longer, too_late
from calql.runs.folder import (
    clean,
    default_folder,
    discard,
    finished,
    make_folder,
    require_begun,
    write_json,
    write_status,
)
from calql.runs.lock import owned
from calql.runs.policy_folder import write_policies
from calql.runs.preparation import Prepared
from calql.runs.stops import Cause, Stops
from calql.runs.trust import trust_run
from calql.system.compiled import keep_compiled
from calql.system.errors import Diverged, UserError
from calql.system.options import Checked, Positive
from calql.system.run_files import CHECKPOINTS, CONFIG, METRICS, POLICY, POLICY_AT_SWITCH

STOPPED = "stopped: go on with --resume"


@dataclass(frozen=True)
class Outcome:
    """The result of a run: its folder, whether it finished or why not, which seeds diverged, and its evaluations."""

    folder: Path
    finished: bool
    reason: str
    stopped_by: Cause | None = None
    diverged: Mapping[Member, Mapping[str, int]] = field(default_factory=dict)  # seed -> update and env_steps then

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every evaluation of every seed."""
        return read_rows(self.folder / METRICS)


@dataclass(frozen=True)
class Watching(Checked):
    """How a run shows its progress (terminal, TensorBoard, W&B) and when it stops; no field changes a result."""

    display: Display = Silent()
    tensorboard: bool = False
    wandb: bool = False
    max_minutes: Positive | None = None
    stops: Stops | None = None  # where the command listens itself, in place of `max_minutes`
    begun: Callable[[Path], object] | None = None  # told where the run folder is, once it is there


@dataclass(frozen=True)
class Ready:
    """What a call comes to before anything is written."""

    prepared: Prepared
    kept: Dataset | None = None  # data that the run folder is to keep
    note: Mapping[str, Any] = field(default_factory=dict)  # what config.json is to say of objects that were given


def watched(progress: bool) -> Watching:
    """A display where there is somebody to look at it."""
    shown = Progress()
    return Watching(shown if progress and shown.seen else Silent())


def start(ready: Ready, out: str | Path | None, watching: Watching, command: str) -> Outcome:
    """A new run in a new folder, which this process makes and owns; gone again if the run cannot begin.

    The logged data are let go of once their rows are on the device. So who calls this should not hold them either, nor
    what is `ready`: they would be in memory twice.
    """
    keep_compiled()
    prepared, kept, note = ready.prepared, ready.kept, ready.note
    del ready
    require_devices(prepared.run.devices)
    with _stops(watching) as stops:
        stops.check()
        place = make_folder(out, default_folder(prepared.task.name, prepared.choice.method))
        with owned(place), stops.telling(partial(_note_end, place)):
            try:
                if kept is not None:
                    given.keep(kept, place)  # before config.json: who finds that finds these
                config = record.describe(prepared, command) | {"origins": record.origins(prepared)} | dict(note)
                write_json(place / CONFIG, config)
                plan = preparation.plan(prepared)
                if plan.notes:
                    config |= {"fits": list(plan.notes)}
                    write_json(place / CONFIG, config)
                stops.check()
                _tell(watching, place)
                sinks = make_sinks(place, watching.tensorboard, watching.wandb, config)
                run = Run(plan, place, watching.display, sinks, stops, *_policies_to(place, prepared, plan))
            except BaseException as error:
                discard(place)
                raise _mendable(error, place) from error
            for text in (*prepared.notes, *plan.notes):
                watching.display.message(f"note: {text}")
            del prepared, kept
            return _execute(run, place, stops)


def start_or_resume(folder: Path, watching: Watching, begin: Callable[[], Outcome]) -> Outcome:
    """Go on with the run in a folder; `begin` it where there is none, or none that had begun when it was ended."""
    if (folder / CONFIG).exists():
        return resume(folder, watching)
    discard(folder)
    return begin()


def _policies_to(folder: Path, prepared: Prepared, plan: Plan) -> Iterator[Callable[[Saved], None]]:
    """What writes `policy/` with each checkpoint, and what writes `policy-at-switch/` at the switch."""
    described = record.describe_policies(prepared, plan)

    def write(name: str, saved: Saved) -> None:
        write_policies(folder / name, {**described, **record.standing(saved)}, saved.policies)

    return (partial(write, name) for name in (POLICY, POLICY_AT_SWITCH))


def resume(
    folder: str | Path,
    watching: Watching | None = None,
    *,
    env: MakeEnv | None = None,
    dataset: str | Path | Dataset | None = None,
    progress: bool = True,
    trust: bool = False,
    accept_changes: bool = False,
    handed_in: Recorded | None = None,
    **changes: Any,
) -> Outcome:
    """Go on from the last checkpoint of a run; on a CPU the results are those of a run never interrupted.

    `changes` are options that may differ from now on, such as more `online_steps`, which also a finished run takes.
    A task whose code has changed since is refused, unless `accept_changes` says that the run may go on with it.

    `env` and `dataset` are for a run that was given a function which cannot be imported, or data which it did not keep.
    `trust` says that the module may be imported which the run names for its environment. `handed_in` are episodes which
    the run goes on with in the place of those that it would play (docs/rounds.md).
    """
    keep_compiled()
    folder, watching = Path(folder), watching or watched(progress)
    require_begun(folder)
    given.require_kinds(dataset, env)
    if trust:
        trust_run(folder)
    with _stops(watching) as stops, owned(folder), stops.telling(partial(_note_end, folder)):
        if finished(folder) and not extends(folder, changes, played=handed_in is None):
            watching.display.message(f"the run is finished: nothing is left to do (more {longer(folder)} extend it)")
            return Outcome(folder, finished=True, reason="finished")
        clean(folder)
        prepared, config = record.from_config(
            folder, changes, limit_of_code=True, env=env, dataset=dataset, handed_in=handed_in is not None
        )
        if "devices" in changes:  # else a run that was begun with more than are here goes on with these
            require_devices(prepared.run.devices)
        now = json.loads(json.dumps(record.describe(prepared, config.get("command", "")), default=str))
        _require_same_task(folder, of_the_code(config, now), accept_changes)
        if note := elsewhere(config, now):
            watching.display.message(f"note: {note}")
        stops.check()
        _tell(watching, folder)
        sinks = make_sinks(folder, watching.tensorboard, watching.wandb, config)
        plan = preparation.plan(prepared, handed_in)
        try:
            run = Run(plan, folder, watching.display, sinks, stops, *_policies_to(folder, prepared, plan))
        except OSError as error:
            raise as_disk_error(error, folder) from error
        _take_up(run, folder, watching.display)
        write_status(folder, finished=False, reason="running")
        write_json(folder / CONFIG, noted(config, now))
        del prepared
        return _execute(run, folder, stops)


def _tell(watching: Watching, folder: Path) -> None:
    if watching.begun is not None:
        watching.begun(folder)


def _require_same_task(folder: Path, differences: list[str], accepted: bool) -> None:
    if differences and not accepted:
        raise UserError(
            f"the task is no longer the one that the run was begun with: {'; '.join(differences)}",
            where=str(folder),
            mend="put the code back, or go on all the same with --accept-changes",
        )


def _take_up(run: Run, folder: Path, display: Display) -> None:
    """From the newest checkpoint; from the beginning, where none was written yet."""
    if run.checkpoints.latest is not None:
        run.restore()
        if run.online and run.options.offline_updates > record.read_config(folder)["run"]["offline_updates"]:
            raise too_late(folder)
        run.output.metrics.truncate(run.output.rows_written)
        return
    if any(row.get("phase") == "online" for row in read_rows(folder / METRICS)):
        raise UserError(
            "has results of its online phase, and its checkpoints are gone",
            where=str(folder),
            mend=f"put the folder '{CHECKPOINTS}' back; to train anew, start another run",
        )
    run.output.metrics.truncate(0)
    display.message("no checkpoint was written yet: starting from the beginning")


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
        found["diverged"] = [{**named(member), **where} for member, where in by_member(run.lost)]
    if run.output.watch.alarms:
        found["running_away"] = [alarm.as_dict() for _, alarm in by_member(run.output.watch.alarms)]
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
