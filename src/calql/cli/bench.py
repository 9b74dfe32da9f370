"""calql bench."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax

from calql.bench.environments import distinct, measure_env
from calql.bench.growth import AXES, draw_growth, measure_growth
from calql.bench.products import measure_products
from calql.bench.scaling import measure_scaling
from calql.bench.soak import in_a_line, measure_soak
from calql.bench.start import measure_start, start_in_words
from calql.bench.stream import measure_stream
from calql.bench.updates import Shapes, measure_updates
from calql.bench.whole import measure_run
from calql.cli.given import method_kinds, options_given
from calql.cli.help import Group, show_help
from calql.cli.parse import made, read_words
from calql.domains.registry import all_tasks, get_task
from calql.engine.devices import devices_used, require_devices
from calql.methods import DEFAULT_METHOD, able
from calql.runs import record, request
from calql.runs.request import Choice
from calql.system.errors import UserError, unknown
from calql.system.options import FROM_ONE, Checked, Count, Devices, NotNegative, Positive, Range

MEASURED = "point-maze-narrow"  # where no task is named: its networks are small


@dataclass(frozen=True)
class BenchOptions(Checked):
    """What to measure: updates/s of one method, or what one of the flags says. Prints JSON."""

    task: str = MEASURED
    """Task whose shapes and options are measured."""
    method: str = DEFAULT_METHOD
    """Method to measure."""
    preset: str = "paper"
    """Options as a named source has them."""
    seeds: Annotated[tuple[int, ...], FROM_ONE] = (1, 4)
    """Numbers of seeds to train at once; --soak takes the last."""
    observation: Count | None = None
    """Observation size (default: the task's)."""
    action: Count | None = None
    """Action size (default: the task's)."""
    devices: Devices = 1
    """Devices that the seeds are shared out over; --growth follows this by itself, where there are several."""
    transitions: Count = 100_000
    """Logged transitions on the device."""
    seconds: Positive = 5.0
    """Time given to each measurement."""
    methods: bool = False
    """Updates/s of every method on the task."""
    starts: tuple[str, ...] = ()
    """Time to the first update on the task of these methods, or of all: compiling, and of a second run of the kind."""
    envs: bool = False
    """Environment steps/s of every task on one core."""
    scaling: bool = False
    """Environment steps/s of the task in one process, in two, and so on up to one for each core."""
    growth: bool = False
    """Time per update against seeds, batch, critics, update ratio, logged transitions and devices."""
    products: bool = False
    """An update beside its matrix products alone."""
    run: NotNegative = 0.0
    """Train on the task for this many minutes: updates/s, steps/s and the share of time that the device waits."""
    soak: NotNegative = 0.0
    """Train on the task for this many minutes: does memory grow, and is that the replay buffer? (Linux)"""
    stream: bool = False
    """Updates/s with logged rows in memory and streamed from disk, in turns, and the memory that the host takes."""
    camera: Annotated[int, Range(8.0, 4096.0, also=0.0)] = 0
    """With --stream, images of so many pixels a side in the place of vectors."""
    set: tuple[str, ...] = ()
    """Options of the engine for --run and --soak, as NAME=VALUE, for example lag=1."""
    dataset: str | None = None
    """Data for --run and --soak in the place of the task's own."""
    keep: str | None = None
    """Keep the folder of --run or --soak here; a run that is there already is gone on with. Of --stream, the data."""
    axes: tuple[str, ...] = tuple(AXES)
    """What --growth follows."""
    out: str | None = None
    """Also write the JSON to this file (and a picture of the growth next to it)."""


def run(command: str, words: Sequence[str]) -> int:
    typed = read_words([BenchOptions, *method_kinds()], words, command=command)
    asks_help = typed.pop("help", False)
    options = made(BenchOptions, typed, command=command)
    choice = Choice(task=options.task, method=options.method, preset=options.preset)
    given = options_given(typed, options.method, apart=[BenchOptions])
    found = request.resolve(choice, get_task(options.task), given)
    if asks_help:
        learner = Group(options.method, type(found.options), values=vars(found.options), origins=found.origins)
        show_help([Group("", BenchOptions), learner], command, str(BenchOptions.__doc__))
    results = _chosen(options)(options, found.options)
    versions = record.versions()
    answer = {"command": shlex.join(["calql", "bench", *_without_out(words)]), "versions": versions, "results": results}
    text = json.dumps(_spelled(answer), indent=2, allow_nan=False)
    print(text)
    if options.out is not None:
        Path(options.out).write_text(text + "\n")
        if options.growth:
            title = f"{options.method} on {versions['device']} (dotted: in proportion)"
            draw_growth(results, Path(options.out).with_suffix(".png"), title)
    return 0


def _spelled(value: Any) -> Any:
    """JSON has no infinity: as text."""
    if isinstance(value, Mapping):
        return {name: _spelled(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _without_out(words: Sequence[str]) -> list[str]:
    """The command as others would give it: where this machine wrote its answer is nobody's concern."""
    kept, skip = [], False
    for word in words:
        if not skip and word != "--out" and not word.startswith("--out="):
            kept.append(word)
        skip = word == "--out"
    return kept


Measure = Callable[[BenchOptions, Any], list[dict[str, Any]]]


def _chosen(options: BenchOptions) -> Measure:
    """What the flags ask for; one thing at a time."""
    subjects: Mapping[str, Measure] = {
        "methods": _methods,
        "starts": _starts,
        "envs": _environments,
        "scaling": _scaling,
        "growth": _growth,
        "products": _products,
        "run": _whole_run,
        "soak": _soak,
        "stream": _stream,
    }
    asked = [name for name in subjects if getattr(options, name)]
    if len(asked) > 1:
        raise UserError(f"--{asked[0]} and --{asked[1]} exclude each other", mend="measure one after the other")
    if options.dataset is not None and not (options.run or options.soak):
        raise UserError("--dataset is for a whole run", mend="add --run MINUTES, or --soak MINUTES")
    if options.set and not (options.run or options.soak):
        mend = "options of the engine matter to a whole run: add --run MINUTES, or --soak MINUTES"
        raise UserError("--set without --run", mend=mend)
    if options.camera and not options.stream:
        raise UserError("--camera without --stream", mend="images are measured with --stream, or of a task with --run")
    if options.keep is not None and not (options.soak or options.stream or (options.run and len(options.seeds) == 1)):
        mend = "add --run MINUTES and one number of --seeds, or --soak MINUTES"
        raise UserError("--keep is for one run", mend=mend)
    require_devices(options.devices)
    if any(count < 1 for count in options.seeds):
        raise UserError(f"--seeds is {min(options.seeds)}", mend="it must be at least 1")
    return subjects[asked[0]] if asked else _updates


def _shapes(options: BenchOptions, seeds: int) -> Shapes:
    env = get_task(options.task).make_env()
    observation, action = env.observation_space.shape, env.action_space.shape
    env.close()
    if options.observation is None and (observation is None or len(observation) != 1):
        raise UserError(f"the task '{options.task}' has images", mend="give --observation, or measure it with --run")
    if options.action is None and not action:
        raise UserError(f"the task '{options.task}' has discrete actions", mend="measure it with --run")
    return Shapes(
        options.observation or int(observation[0]),  # type: ignore[index]
        options.action or int(action[0]),  # type: ignore[index]
        options.transitions,
        seeds=seeds,
        devices=devices_used(options.devices, seeds, jax.local_device_count()),
    )


def _updates(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    rows = []
    for seeds in options.seeds:
        shapes = _shapes(options, seeds)
        measured = measure_updates(options.method, learner, shapes, seconds=options.seconds)
        rows.append({**dataclasses.asdict(shapes), "options": dataclasses.asdict(learner), **measured})
    return rows


def _methods(options: BenchOptions, _: Any) -> list[dict[str, Any]]:
    """Every method with its own options on the task."""
    rows = []
    for name in able(False):
        _, learner = request.defaults(Choice(task=options.task, method=name), get_task(options.task))
        rows += [measure_updates(name, learner, _shapes(options, n), seconds=options.seconds) for n in options.seeds]
    return rows


def _starts(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    """Methods with their own options on the task; --method with those that were given."""
    rows = []
    for name in able(get_task(options.task).discrete) if options.starts == ("all",) else options.starts:
        changes = _set_by_hand(options, learner) if name == options.method else {}
        rows.append(measure_start(options.task, name, options.seeds[-1], changes))
        _tell(f"{name}: {start_in_words(rows[-1])}")
    return rows


def _environments(options: BenchOptions, _: Any) -> list[dict[str, Any]]:
    return [measure_env(task, seconds=options.seconds) for task in distinct(all_tasks().values())]


def _scaling(options: BenchOptions, _: Any) -> list[dict[str, Any]]:
    return [measure_scaling(get_task(options.task), seconds=options.seconds)]


def _growth(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    shapes = _shapes(options, options.seeds[0])
    return measure_growth(options.method, learner, shapes, options.axes, seconds=options.seconds, tell=_tell)


def _tell(text: str) -> None:
    """Progress, beside the JSON."""
    print(text, file=sys.stderr, flush=True)


def _products(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    return [
        measure_products(options.method, learner, _shapes(options, seeds), seconds=options.seconds)
        for seeds in options.seeds
    ]


def _whole_run(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    changes = _changes(options, learner)
    return [
        measure_run(
            options.task,
            options.method,
            {**changes, "seeds": seeds},
            minutes=options.run,
            keep=_kept(options),
            dataset=options.dataset,
        )
        for seeds in options.seeds
    ]


def _soak(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    changes = {**_changes(options, learner), "seeds": options.seeds[-1]}
    where = {"keep": _kept(options), "dataset": options.dataset}
    found = measure_soak(options.task, options.method, changes, minutes=options.soak, **where)  # type: ignore[arg-type]
    _tell(in_a_line(found))
    return [found]


def _stream(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    measure = partial(measure_stream, pixels=options.camera, seconds=options.seconds, keep=_kept(options))
    return [measure(options.method, learner, _shapes(options, seeds)) for seeds in options.seeds]


def _changes(options: BenchOptions, learner: Any) -> dict[str, Any]:
    """The learner's options, and those of the engine that --set names."""
    choice = Choice(task=options.task, method=options.method, preset=options.preset)
    usual = vars(request.defaults(choice, get_task(options.task))[0])
    changes = dataclasses.asdict(learner)
    for name, text in request.read_changes(options.set).items():
        if name not in usual:
            raise unknown("option of the engine", name, usual, where="--set")
        changes[name] = request.value_like(usual[name], name, text)
    return changes


def _set_by_hand(options: BenchOptions, learner: Any) -> dict[str, Any]:
    """Options of the method that are not those of the task."""
    choice = Choice(task=options.task, method=options.method)
    usual = vars(request.defaults(choice, get_task(options.task))[1])
    return {name: value for name, value in vars(learner).items() if value != usual[name]}


def _kept(options: BenchOptions) -> Path | None:
    return None if options.keep is None else Path(options.keep)
