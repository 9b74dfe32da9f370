"""Names in the tables of options, checked when the tables are read.

A task, a method and a preset each set options of the run or of a method by name. What a table may name for all methods
need not be an option of every one, so a name that fits nowhere would set nothing and say nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from calql.engine.options import RunOptions
from calql.errors import unknown
from calql.methods import METHODS, PRESETS
from calql.tasks.base import Task

ALL_METHODS = "*"


def check_method(name: str) -> None:
    """What a method sets must be options of the run or its own."""
    entry, known = METHODS[name], _of_run() | _of_method(name)
    _require(entry.sets, known, f"what the method '{name}' sets")
    _require(entry.original, known, f"preset 'original' of the method '{name}'")


def check_preset(name: str) -> None:
    """What a preset for all methods sets must be options of the run or of some method."""
    _require(PRESETS.get(name, {}), _of_run() | _of_any_method(), f"preset '{name}'")


def check_task(task: Task) -> None:
    """What a task says about methods must name methods, and options that they have."""
    where = f"task '{task.name}'"
    for name in {*task.options, *task.method_rewards} - {ALL_METHODS}:
        if name not in METHODS:
            raise unknown("method", name, METHODS, where=where)
    for name, options in task.options.items():
        own = _of_any_method() if name == ALL_METHODS else _of_method(name)
        _require(options, _of_run() | own, f"{where}, options of {name}")
    _require(dataclasses.asdict(task.protocol), _of_run(), f"{where}, protocol")


def _require(options: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    names = set(known)
    for name in options:
        if name not in names:
            raise unknown("option", name, names, where=where)


def _of_run() -> set[str]:
    return {field.name for field in dataclasses.fields(RunOptions)}


def _of_method(name: str) -> set[str]:
    return {field.name for field in dataclasses.fields(METHODS[name].options)}


def _of_any_method() -> set[str]:
    return {option for name in METHODS for option in _of_method(name)}
