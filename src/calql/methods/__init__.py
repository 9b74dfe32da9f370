"""Methods by name. A new method is one file and one line in `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calql.errors import unknown
from calql.methods.base import Method
from calql.methods.cal_ql import CQL, CalQL
from calql.methods.learner import ActorCritic


@dataclass(frozen=True)
class Entry:
    """A method: its options, how it is made from them, and what it changes in the run."""

    summary: str
    options: type[Any]
    make: Callable[[Any], Method]
    run: Mapping[str, Any] = field(default_factory=dict)  # run options that belong to the method


METHODS: dict[str, Entry] = {
    "cal-ql": Entry("CQL, calibrated: Q is never pushed below the reference value", CalQL, ActorCritic),
    "cql": Entry("conservative Q-learning: the same learner with calibration off", CQL, ActorCritic),
}

PRESETS: dict[str, Mapping[str, Any]] = {
    "paper": {},
    "corl": {
        "calibrate_online": False,
        "output_gain": 2.0**0.5,
        "policy_widths": (256, 256, 256),
        "critic_widths": (256, 256, 256, 256, 256),
        "difference_clip": (-200.0, float("inf")),
    },
    "wsrl": {
        "output_gain": 2.0**0.5,
        "dual_form": "softplus",
        "conservative_weight": 1.0,
        "log_std_offset": 0.0,
        "temperature_states": "next",
    },
}


def method_entry(name: str) -> Entry:
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def preset(name: str) -> Mapping[str, Any]:
    """Options as a named source has them; `paper` is the authors' code, which the defaults are already."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


__all__ = ["METHODS", "PRESETS", "Entry", "Method", "method_entry", "preset"]
