"""Domains and their tasks by name: every folder beside this file with a `DOMAIN` is one.

A domain of another package comes by an entry point of the group `calql.domains`, or by `calql.register`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import TypeVar

from calql import domains
from calql.data.store import Recipe
from calql.domains.base import Domain, Task
from calql.domains.scene import Scene
from calql.system.errors import unknown
from calql.system.registry import Registry

Offer = TypeVar("Offer")


def _own() -> Mapping[str, Domain]:
    """Those of this package."""
    folders = [f"{domains.__name__}.{module.name}" for module in pkgutil.iter_modules(domains.__path__) if module.ispkg]
    found = [getattr(importlib.import_module(folder), "DOMAIN", None) for folder in folders]
    return {domain.name: domain for domain in found if domain is not None}


DOMAINS: Registry[Domain] = Registry("domain", "calql.domains", Domain, _own)


def all_tasks() -> dict[str, Task]:
    """Every task, in the order of the domains."""
    return offered(lambda domain: domain.tasks)


def get_task(name: str) -> Task:
    return find("task", name, lambda domain: domain.tasks)


def all_recipes() -> dict[str, Recipe]:
    """How every dataset of the domains is made."""
    return offered(lambda domain: domain.recipes)


def get_scene(task: str) -> Scene:
    """What a page about the data of a task can show of it; of an unknown task nothing."""
    return offered(lambda domain: domain.scenes).get(task, Scene())


def offered(part: Callable[[Domain], Mapping[str, Offer]]) -> dict[str, Offer]:
    """What all domains offer of a kind; one of another package that cannot be loaded offers nothing."""
    return {name: thing for _, things in DOMAINS.each(part) for name, thing in things.items()}


def find(kind: str, name: str, part: Callable[[Domain], Mapping[str, Offer]]) -> Offer:
    """What the domains offer by a name, of which no more are loaded than it takes."""
    for _, things in DOMAINS.each(part):
        if name in things:
            return things[name]
    raise unknown(kind, name, offered(part), left_out=DOMAINS.left_out())


__all__ = [
    "DOMAINS",
    "Domain",
    "Task",
    "all_recipes",
    "all_tasks",
    "find",
    "get_scene",
    "get_task",
    "offered",
]
