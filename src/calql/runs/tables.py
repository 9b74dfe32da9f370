"""Names in the tables of options, checked when the tables are read.

A task, a method and a preset each set options of the run or of a method by name. What a table may name for all methods
need not be an option of every one, so a name that fits nowhere would set nothing and say nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from calql.domains.own import NAME as OWN
from calql.domains.registry import DOMAINS, Task, all_tasks
from calql.engine.options import RunOptions
from calql.methods import METHODS, PRESETS
from calql.system.errors import unknown
from calql.system.options import ranges_of, require_same


def check_method(name: str) -> None:
    """What a method sets must be options of the run or its own."""
    entry, known = METHODS[name], _of_run() | _names(METHODS[name].options)
    require_same(ranges_of(RunOptions), ranges_of(entry.options), f"the method '{name}'")
    _require(entry.sets, known, f"what the method '{name}' sets")
    _require(entry.original, known, f"preset 'original' of the method '{name}'")
    _require(entry.small, known, f"the method '{name}' at the scale 'small'")
    _require(entry.smoke, known, f"the method '{name}' at the scale 'smoke'")
    _require({} if entry.compared is None else entry.compared.options, known, f"the method '{name}' in calql compare")
    for where, options in entry.on.items():
        _require(options, known, f"the method '{name}' on {where}")


def check_preset(name: str) -> None:
    """What a preset for all methods sets must be options of the run or of some method."""
    _require(PRESETS.get(name, {}), _of_run() | _of_any_method(), f"preset '{name}'")


def check_task(task: Task) -> None:
    """What a task sets must be options of the run or of some method."""
    where = f"task '{task.name}'"
    _require({**task.options, **task.fitted}, _of_run() | _of_any_method(), f"{where}, options")
    _require(dataclasses.asdict(task.protocol), _of_run(), f"{where}, protocol")


def check_places(method: str) -> None:
    """Where a method has something otherwise must be a domain or a task that is there."""
    entry = METHODS[method]
    places = {*entry.on, *entry.rewards, *entry.largest_return} - {*DOMAINS, OWN}
    tasks = all_tasks() if places else {}
    for place in sorted(places - set(tasks)):
        left_out = DOMAINS.left_out()
        raise unknown(
            "domain or task", place, {*DOMAINS, OWN, *tasks}, where=f"the method '{method}'", left_out=left_out
        )


def _require(options: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    names = set(known)
    for name in options:
        if name not in names:
            raise unknown("option", name, names, where=where)


def _of_run() -> set[str]:
    return _names(RunOptions)


def _of_any_method() -> set[str]:
    return {option for _, names in METHODS.each(lambda entry: _names(entry.options)) for option in names}


def _names(options: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(options)}
