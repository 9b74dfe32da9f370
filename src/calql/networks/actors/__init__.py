"""Actors by name: every file of this folder may offer `ACTORS`, a mapping from name to class.

An actor of another package comes by an entry point of the group `calql.actors`, or by `calql.register`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from calql.networks.actors.base import (
    CHOICES,
    DENSITY,
    GRADIENTS,
    ActionDistribution,
    Actor,
    log_density,
    sample_with_density,
)
from calql.networks.actors.categorical import Categorical, CategoricalActor
from calql.networks.actors.deterministic import Deterministic, DeterministicActor
from calql.networks.actors.gaussian import Gaussian, GaussianActor, LogStdForm
from calql.networks.actors.tanh_gaussian import TanhGaussian, TanhGaussianActor
from calql.networks.mlp import Style
from calql.system.errors import UserError, unknown
from calql.system.registry import Registry


def _own() -> Mapping[str, type[Actor]]:
    """Those of this folder, in their order for lists."""
    found: dict[str, type[Actor]] = {}
    for module in pkgutil.iter_modules(__path__):
        found |= getattr(importlib.import_module(f"{__name__}.{module.name}"), "ACTORS", {})
    return dict(sorted(found.items(), key=lambda item: item[1].place))


ACTORS: Registry[type[Actor]] = Registry("actor", "calql.actors", Actor, _own, classes=True)
DISCRETE = "categorical"  # the one of discrete spaces: no choice for users, so not among the others
GIVEN = frozenset({"key", "style"})  # keywords of every actor; the others are its settings


def actor_kind(name: str) -> type[Actor]:
    if name == DISCRETE:
        raise UserError(f"--actor is '{DISCRETE}'", mend="leave it out: with a Discrete action space there is no other")
    if name not in ACTORS:
        raise unknown("actor", name, ACTORS)
    return ACTORS[name]


def settings_of(kind: type[Actor]) -> frozenset[str]:
    """Names of the options that mean something to an actor."""
    parameters = inspect.signature(kind).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY) - GIVEN


def actors_that_give(needs: Iterable[str]) -> list[str]:
    wanted = frozenset(needs)
    return [name for name, gives in ACTORS.each(lambda kind: kind.gives) if gives >= wanted]


def make_actor(
    name: str,
    encoder: Callable[[jax.Array], jax.Array],
    features: int,
    action_dim: int,
    widths: Sequence[int],
    *,
    key: jax.Array,
    style: Style,
    options: Any,
) -> Any:
    """An actor by its name, with those of a learner's options that are settings of it; the rest keep its defaults."""
    kind: Any = CategoricalActor if name == DISCRETE else actor_kind(name)
    settings = {setting: getattr(options, setting) for setting in settings_of(kind) if hasattr(options, setting)}
    return kind(encoder, features, action_dim, widths, key=key, style=style, **settings)


__all__ = [
    "ACTORS",
    "CHOICES",
    "DENSITY",
    "DISCRETE",
    "GRADIENTS",
    "ActionDistribution",
    "Actor",
    "Categorical",
    "CategoricalActor",
    "Deterministic",
    "DeterministicActor",
    "Gaussian",
    "GaussianActor",
    "LogStdForm",
    "TanhGaussian",
    "TanhGaussianActor",
    "actor_kind",
    "actors_that_give",
    "log_density",
    "make_actor",
    "sample_with_density",
    "settings_of",
]
