"""Actors by name. A new actor is one file and one line in `ACTORS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
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

ACTORS: dict[str, type[Actor]] = {
    "tanh-gaussian": TanhGaussianActor,
    "gaussian": GaussianActor,
    "deterministic": DeterministicActor,
}
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
    return [name for name, kind in ACTORS.items() if kind.gives.issuperset(needs)]


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
