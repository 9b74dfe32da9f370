"""Domains and their tasks by name: every folder beside this file with a `DOMAIN` is one.

A domain of another package comes by an entry point of the group `calql.domains`, or by `calql.register`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from calql import domains
from calql.data.store import Recipe
from calql.domains.base import Domain, Task
from calql.domains.scene import Scene
from calql.system.errors import unknown
from calql.system.registry import Registry

DEFAULT = "point-maze-quick"
COMPARED = "calibrate=true,false"  # with the default task, where no method is named either: Cal-QL and CQL


def _own() -> Mapping[str, Domain]:
    """Those of this package."""
    folders = [f"{domains.__name__}.{module.name}" for module in pkgutil.iter_modules(domains.__path__) if module.ispkg]
    found = [getattr(importlib.import_module(folder), "DOMAIN", None) for folder in folders]
    return {domain.name: domain for domain in found if domain is not None}


DOMAINS: Registry[Domain] = Registry("domain", "calql.domains", Domain, _own)


def all_tasks() -> dict[str, Task]:
    """Every task, in the order of the domains."""
    return {name: task for domain in DOMAINS.values() for name, task in domain.tasks.items()}


def get_task(name: str) -> Task:
    for domain in DOMAINS.values():
        if name in domain.tasks:
            return domain.tasks[name]
    raise unknown("task", name, all_tasks())


def all_recipes() -> dict[str, Recipe]:
    """How every dataset of the domains is made."""
    return {name: made for domain in DOMAINS.values() for name, made in domain.recipes.items()}


def get_scene(task: str) -> Scene:
    """What a page about the data of a task can show of it; of an unknown task nothing."""
    for domain in DOMAINS.values():
        if task in domain.tasks:
            return domain.scenes.get(task, Scene())
    return Scene()


__all__ = ["COMPARED", "DEFAULT", "DOMAINS", "Domain", "Task", "all_recipes", "all_tasks", "get_scene", "get_task"]
