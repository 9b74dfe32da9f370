"""Where the value of every option comes from: tables in layers, of which the highest that names an option wins."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calql.domains.registry import DOMAINS, Task
from calql.engine.options import RunOptions
from calql.methods import method_entry, preset
from calql.runs.tables import check_method, check_places, check_preset, check_task

DEFAULT = "default"
YOU = "you"
RESUMED = "you (on resuming)"


@dataclass(frozen=True)
class Layer:
    """Options that one source sets, and its name in words."""

    origin: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Resolved:
    """The options of a run and of its method, with the origin of each."""

    run: RunOptions
    options: Any  # the method's options dataclass
    origins: Mapping[str, str]

    @property
    def values(self) -> dict[str, Any]:
        return {**vars(self.run), **vars(self.options)}


def resolve(method: str, preset_name: str, task: Task | None, given: Mapping[str, Any] | None = None) -> Resolved:
    """Default < task < method < method on the domain < method on the task < machine < preset < you."""
    entry, chosen = method_entry(method), preset(preset_name, method)
    check_method(method)
    check_places(method)
    check_preset(preset_name)
    above = [
        Layer(f"method {method}", entry.sets),
        *_of_method_on(method, task),
        *_of_machine(task),
        Layer(f"preset {preset_name}", chosen),
    ]
    below: list[Layer] = []
    if task is not None:
        check_task(task)
        below = _in_two(task, _of_run)
        above = [*_in_two(task, lambda each: each.options), *above]
    usual, _ = _applied(entry.options(), above)
    if not entry.make(usual).uses_reference:
        below.append(Layer(f"method {method}", {"reference": "none"}))
    yours = Layer(YOU, {} if given is None else given)
    run, of_run = _applied(RunOptions(), [*below, *above, yours])
    options, of_options = _applied(entry.options(), [*above, yours])
    return Resolved(run, options, {**of_run, **of_options})


def origins_of(usual: Resolved, run: RunOptions, options: Any, given: Iterable[str] = ()) -> dict[str, str]:
    """The origins of options as a run has them: what was given, or is not as it would be, is yours."""
    named, before, now = set(given), usual.values, {**vars(run), **vars(options)}
    return {
        name: YOU if name in named or now[name] != before.get(name) else origin
        for name, origin in usual.origins.items()
        if name in now
    }


def resumed(origins: Mapping[str, str], changed: Iterable[str]) -> dict[str, str]:
    """The origins that a run recorded, after it was gone on with."""
    return {**origins, **dict.fromkeys(changed, RESUMED)}


def _of_run(task: Task) -> Mapping[str, Any]:
    """What a task says of the run; a reference value where it is not the usual one."""
    usual = task.reference == RunOptions().reference
    return {**dataclasses.asdict(task.protocol), **({} if usual else {"reference": task.reference})}


def _in_two(task: Task, table: Any) -> list[Layer]:
    """A table of a task as two: what all tasks of its domain have alike is the domain's, the rest its own."""
    own = table(task)
    fellows = DOMAINS[task.domain].tasks.values() if task.domain in DOMAINS else ()
    tables = [table(fellow) for fellow in fellows]
    shared = {name for name, value in own.items() if all(other.get(name) == value for other in tables)}
    return [
        Layer(f"domain {task.domain}", {name: own[name] for name in own if name in shared}),
        Layer(f"task {task.name}", {name: own[name] for name in own if name not in shared}),
    ]


def _of_method_on(method: str, task: Task | None) -> list[Layer]:
    places = () if task is None else (task.domain, task.name)
    tables = method_entry(method).on
    return [Layer(f"method {method} on {place}", tables.get(place, {})) for place in places]


def _of_machine(task: Task | None) -> list[Layer]:
    return [] if task is None or not task.fitted else [Layer(f"machine with {task.machine}", task.fitted)]


def _applied(target: Any, layers: Iterable[Layer]) -> tuple[Any, dict[str, str]]:
    """A copy with those fields set that it has, and where each of its fields is from."""
    origins = dict.fromkeys((field.name for field in dataclasses.fields(target)), DEFAULT)
    values: dict[str, Any] = {}
    for layer in layers:
        named = {name: value for name, value in layer.options.items() if name in origins}
        values |= named
        origins |= dict.fromkeys(named, layer.origin)
    return dataclasses.replace(target, **values), origins
