"""Tasks by name. A new domain is one file and one name in `DOMAINS`."""

from __future__ import annotations

import importlib
from functools import cache

from calql.errors import unknown
from calql.tasks.base import Task

DOMAINS = ("point_maze", "antmaze", "kitchen", "adroit", "pick_place", "locomotion")
DEFAULT = "point-maze-narrow"


@cache
def all_tasks() -> dict[str, Task]:
    """Every task, in the order of the domains."""
    found: dict[str, Task] = {}
    for domain in DOMAINS:
        for task in importlib.import_module(f"calql.tasks.{domain}").TASKS:
            found[task.name] = task
    return found


def get_task(name: str) -> Task:
    if name not in all_tasks():
        raise unknown("task", name, all_tasks())
    return all_tasks()[name]


__all__ = ["DEFAULT", "DOMAINS", "Task", "all_tasks", "get_task"]
