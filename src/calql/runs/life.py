"""Start, resume and extend runs."""

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
from calql.methods import DEFAULT_METHOD
from calql.results import Display, Progress, Silent, make_sinks
from calql.results.arms import Member, by_member, named
from calql.results.metrics import read_rows
from calql.runs import given, preparation, record, request
from calql.runs.changes import changed, elsewhere, grows, noted, of_the_code
from calql.runs.folder import (
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
from calql.runs.policy_folder import write_policies
from calql.runs.preparation import Prepared
from calql.runs.request import Choice
from calql.runs.scores import evaluate as evaluate
from calql.runs.stops import Cause, Stops
from calql.runs.sweep import Vary, as_text
from calql.runs.trust import remember, trust_run
from calql.system.compiled import keep_compiled
from calql.system.errors import Diverged, UserError
from calql.system.options import Checked, Positive
from calql.system.run_files import CONFIG, METRICS, POLICY, POLICY_AT_SWITCH, PROJECT

OWN = (  # options that describe a task and its data
    "episode_limit", "reward_scale", "reward_shift", "score", "offline", "action_low", "action_high",
    "columns", "observations", "reward", "drop_bad_episodes",
)  # fmt: skip
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


def train(
    task: str | None = None,
    *,
    dataset: str | Path | Dataset | None = None,
    env: str | MakeEnv | None = None,
    method: str = DEFAULT_METHOD,
    preset: str = "default",
    out: str | Path | None = None,
    watching: Watching | None = None,
    progress: bool = True,
    probe: bool = True,
    vary: Vary | None = None,
    keep_data: bool | None = None,
    **options: Any,
) -> Outcome:
    """Pre-train on logged data, then fine-tune online, in a new run folder (`out`).

    Name a task, or give a dataset (file or `Dataset`) and an environment (Gymnasium name or a function
    that makes one), or a dataset and `offline=True` where there is no environment. Further keywords are options of the
    run or of the method, by their names.
    Unless `probe` is off, an environment of your own is first tried out with random actions.
    `vary={"calibrate": (True, False)}` trains every seed once for each value, all of them as one program.

    A `Dataset` is kept in the run folder, so that the run can be resumed; one of more than 1 GiB only if `keep_data` is
    True. With False it has to be given again. A function at the top of a module is found again by its name; any other
    has to be given again to `resume` and `evaluate`.

    In a terminal or a notebook it shows how far it is, unless `progress` is off; `watching` says it in detail instead.
    """
    refuse_existing(out)
    watching = watching or watched(progress)
    return start(
        make_ready(
            task, dataset=dataset, env=env, method=method, preset=preset, display=watching.display, probe=probe,
            vary=vary, keep_data=keep_data, **options,
        ),
        out, watching, command="calql.train(...)",
    )  # fmt: skip


@dataclass(frozen=True)
class Ready:
    """What a call comes to before anything is written."""

    experiment: Prepared
    kept: Dataset | None = None  # data that the run folder is to keep
    note: Mapping[str, Any] = field(default_factory=dict)  # what config.json is to say of objects that were given


def make_ready(
    task: str | None,
    *,
    dataset: str | Path | Dataset | None,
    env: str | MakeEnv | None,
    method: str,
    preset: str,
    display: Display,
    probe: bool,
    vary: Vary | None,
    keep_data: bool | None,
    **options: Any,
) -> Ready:
    """Resolve and check what `train` was called with."""
    _require_kinds(dataset, env)
    data = dataset if isinstance(dataset, Dataset) else None
    kept = given.to_keep(data, keep_data)
    note = given.noted(data, kept, env)
    own = {name: options.pop(name) for name in OWN if name in options}
    choice = Choice(
        task=task,
        method=method,
        preset=preset,
        dataset=None if dataset is None or data is not None else str(dataset),
        env=env if isinstance(env, str) else None,
        vary=as_text(vary),
        **own,
    )
    resolved, data, notes = request.resolve_task(choice, env, data)
    run, settings = request.defaults(choice, resolved)
    run, settings = request.set_options(run, settings, options, method)
    if env is not None and probe and not run.real:
        display.message(preparation.PROBE)
    experiment = preparation.prepare(choice, resolved, data, run, settings, notes, probe=probe, given=options)
    remember(note.get(given.GIVEN, {}).get("env"))
    return Ready(experiment, kept, note)


def watched(progress: bool) -> Watching:
    """A display where there is somebody to look at it."""
    shown = Progress()
    return Watching(shown if progress and shown.seen else Silent())


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


def start(ready: Ready, out: str | Path | None, watching: Watching, command: str) -> Outcome:
    """A new run in a new folder, which this process makes and owns; gone again if the run cannot begin.

    The logged data are let go of once their rows are on the device. So who calls this should not hold them either, nor
    what is `ready`: they would be in memory twice.
    """
    keep_compiled()
    experiment, kept, note = ready.experiment, ready.kept, ready.note
    del ready
    require_devices(experiment.run.devices)
    with _stops(watching) as stops:
        stops.check()
        place = make_folder(out, default_folder(experiment.task.name, experiment.choice.method))
        with owned(place), stops.telling(partial(_note_end, place)):
            try:
                if kept is not None:
                    given.keep(kept, place)  # before config.json: who finds that finds these
                config = record.describe(experiment, command) | {"origins": record.origins(experiment)} | dict(note)
                write_json(place / CONFIG, config)
                plan = preparation.plan(experiment)
                if plan.notes:
                    config |= {"fits": list(plan.notes)}
                    write_json(place / CONFIG, config)
                stops.check()
                _tell(watching, place)
                sinks = make_sinks(place, watching.tensorboard, watching.wandb, config)
                run = Run(plan, place, watching.display, sinks, stops, *_policies_to(place, experiment, plan))
            except BaseException as error:
                discard(place)
                raise _mendable(error, place) from error
            for text in (*experiment.notes, *plan.notes):
                watching.display.message(f"note: {text}")
            del experiment, kept
            return _execute(run, place, stops)


def start_or_resume(folder: Path, watching: Watching, begin: Callable[[], Outcome]) -> Outcome:
    """Go on with the run in a folder; `begin` it where there is none, or none that had begun when it was ended."""
    if (folder / CONFIG).exists():
        return resume(folder, watching)
    discard(folder)
    return begin()


def _policies_to(folder: Path, experiment: Prepared, plan: Plan) -> Iterator[Callable[[Saved], None]]:
    """What writes `policy/` with each checkpoint, and what writes `policy-at-switch/` at the switch."""
    described = record.describe_policies(experiment, plan)

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
    _require_kinds(dataset, env)
    if trust:
        trust_run(folder)
    with _stops(watching) as stops, owned(folder), stops.telling(partial(_note_end, folder)):
        if finished(folder) and not _goes_on(folder, changes, played=handed_in is None):
            watching.display.message(f"the run is finished: nothing is left to do (more {_longer(folder)} extend it)")
            return Outcome(folder, finished=True, reason="finished")
        clean(folder)
        experiment, config = record.from_config(
            folder, changes, limit_of_code=True, env=env, dataset=dataset, handed_in=handed_in is not None
        )
        if "devices" in changes:  # else a run that was begun with more than are here goes on with these
            require_devices(experiment.run.devices)
        now = json.loads(json.dumps(record.describe(experiment, config.get("command", "")), default=str))
        _require_same_task(folder, of_the_code(config, now), accept_changes)
        if note := elsewhere(config, now):
            watching.display.message(f"note: {note}")
        stops.check()
        _tell(watching, folder)
        sinks = make_sinks(folder, watching.tensorboard, watching.wandb, config)
        plan = preparation.plan(experiment, handed_in)
        try:
            run = Run(plan, folder, watching.display, sinks, stops, *_policies_to(folder, experiment, plan))
        except OSError as error:
            raise as_disk_error(error, folder) from error
        _take_up(run, folder, watching.display)
        write_status(folder, finished=False, reason="running")
        write_json(folder / CONFIG, noted(config, now))
        del experiment
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


def _goes_on(folder: Path, changes: Mapping[str, Any], *, played: bool) -> bool:
    """Whether a finished run is extended, which needs its last checkpoint; a round takes its episodes from files."""
    config = record.read_config(folder)
    changed(record.recorded_options(config, folder)[0], changes, str(folder))
    if not grows(config, changes):
        return False
    if played and (folder.resolve().parent.parent / PROJECT).is_file():
        raise UserError(
            "is a round of a project, which later rounds go on from as it is",
            where=str(folder),
            mend="give the project more episodes: calql round add, then calql round train",
        )
    if changes.get("offline_updates", 0) > config["run"]["offline_updates"] and not _of_logs_alone(config):
        raise _too_late(folder)
    if not has_checkpoint(folder):
        raise UserError(
            "is finished and its checkpoints are gone, so it cannot be extended",
            where=str(folder),
            mend="put the folder 'checkpoints' back, or start a new run; nothing was changed",
        )
    return True


def _of_logs_alone(config: Mapping[str, Any]) -> bool:
    return bool(config["choice"].get("offline"))


def _longer(folder: Path) -> str:
    """What a finished run is extended by."""
    return "--offline-updates" if _of_logs_alone(record.read_config(folder)) else "--online-steps"


def _too_late(folder: Path) -> UserError:
    return UserError(
        "more --offline-updates come too late: the run has gone online",
        where=str(folder),
        mend="extend it with --online-steps",
    )


def _take_up(run: Run, folder: Path, display: Display) -> None:
    """From the newest checkpoint; from the beginning, where none was written yet."""
    if run.checkpoints.latest is not None:
        run.restore()
        if run.online and run.options.offline_updates > record.read_config(folder)["run"]["offline_updates"]:
            raise _too_late(folder)
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
