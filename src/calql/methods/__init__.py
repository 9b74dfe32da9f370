"""Methods by name. A new method is one file and one line in `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calql.errors import UserError, unknown
from calql.methods import awac, bc, iql, o3f, odt, rebrac, rlpd, sac, td3_bc, wsrl
from calql.methods.awac import AWAC, AWACOptions
from calql.methods.base import Method
from calql.methods.bc import BC, BCOptions
from calql.methods.cal_ql import CQL, HIGH_RATIO_SETS, CalQL, CalQLHighRatio, CQLThenSAC
from calql.methods.iql import IQL, IQLOptions
from calql.methods.learner import ActorCritic
from calql.methods.o3f import O3F, O3FOptions
from calql.methods.odt import ODT, ODTOptions
from calql.methods.rebrac import ReBRAC, ReBRACOptions
from calql.methods.rlpd import RLPD
from calql.methods.sac import SAC
from calql.methods.td3_bc import TD3BC, TD3BCOptions
from calql.methods.wsrl import WSRL

ORIGINAL = "original"  # the preset of a method's own code, where the paper's baseline was another program
POOLED = -1.0  # the mixing that draws from all data alike


@dataclass(frozen=True)
class Entry:
    """A method: its options, how it is made from them, and what it changes in the run."""

    summary: str
    options: type[Any]
    make: Callable[[Any], Method]
    sets: Mapping[str, Any] = field(default_factory=dict)  # options of the run or the method, above a task's for all
    original: Mapping[str, Any] = field(default_factory=dict)  # preset `original`, where the paper ran another program


METHODS: dict[str, Entry] = {
    "cal-ql": Entry("CQL, calibrated: Q is never pushed below the reference value", CalQL, ActorCritic),
    "cal-ql-utd20": Entry(
        "Cal-QL with RLPD's critics, 20 updates a step", CalQLHighRatio, ActorCritic, HIGH_RATIO_SETS
    ),
    "cql": Entry("conservative Q-learning: the same learner with calibration off", CQL, ActorCritic),
    "cql-sac": Entry("CQL offline, SAC online on the same mixture", CQLThenSAC, ActorCritic),
    "sac": Entry("SAC from scratch, on what it collects alone", SAC, ActorCritic, sac.ONLINE_ONLY),
    "sac-offline": Entry("SAC from scratch, offline data pooled in", SAC, ActorCritic, sac.POOLED),
    "hybrid": Entry("SAC from scratch, a fixed share of offline data", SAC, ActorCritic, sac.FIXED_SHARE),
    "rlpd": Entry("SAC from scratch, ten critics, half offline data, 20 updates a step", RLPD, ActorCritic, rlpd.SETS),
    "iql": Entry("expectile values, advantage-weighted cloning", IQLOptions, IQL, iql.SETS, iql.ORIGINAL),
    "awac": Entry("critic of the policy, advantage-weighted cloning", AWACOptions, AWAC, awac.SETS, awac.ORIGINAL),
    "td3-bc": Entry("TD3 with a policy kept near the data", TD3BCOptions, TD3BC, td3_bc.SETS),
    "o3f": Entry("TD3+BC that collects with optimistic actions", O3FOptions, O3F, o3f.SETS),
    "odt": Entry("online decision transformer: actions given the return to come", ODTOptions, ODT, odt.SETS),
    "bc": Entry("behaviour cloning", BCOptions, BC, bc.SETS),
    "wsrl": Entry("Cal-QL, warm-up, then SAC without the offline data", WSRL, ActorCritic, wsrl.SETS),
    "rebrac": Entry(
        "TD3 with penalties on distance to the data in policy and target", ReBRACOptions, ReBRAC, rebrac.SETS
    ),
}

PRESETS: dict[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {"target_bounds": False, "action_limit": 0.99999},
    "corl": {
        "target_bounds": True,
        "calibrate_online": False,
        "output_gain": 2.0**0.5,
        "policy_widths": (256, 256, 256),
        "critic_widths": (256, 256, 256, 256, 256),
        "difference_clip": (-200.0, float("inf")),
        "update_schedule": "step",
        "split_at_jumps": True,
        "failure_test": "last",
    },
    "wsrl": {"target_bounds": True, **wsrl.PORT},
}


def method_entry(name: str) -> Entry:
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def check_combination(
    name: str, method: Method, *, reference: str = "none", mixing: float = POOLED, image: bool = False
) -> None:
    """Refuse what a method cannot do, before anything starts."""
    if image and not method.supports_images:
        raise UserError(f"the method '{name}' cannot take images", mend="choose another with --method")
    if reference != "none" and not method.uses_reference:
        raise UserError(
            f"the method '{name}' takes no reference value, and --reference is {reference}",
            mend="leave --reference out, or choose cal-ql",
        )
    if mixing != POOLED and method.sampling == "sequence":
        raise UserError(
            f"the method '{name}' draws whole stretches from one pool, and --mixing is {mixing:g}",
            mend="leave --mixing out",
        )


def preset(name: str, method: str) -> Mapping[str, Any]:
    """Options as a named source has them.

    `default` is the paper's programs on the paper's tasks; on data of one's own TD targets are bounded too. `paper` is
    the paper's programs everywhere, `original` a method's own code where the paper ran another program.
    """
    entry = method_entry(method)
    known = {**PRESETS, ORIGINAL: entry.original} if entry.original else PRESETS
    if name not in known:
        where = f"method {method}, whose defaults are its authors' own" if name == ORIGINAL else ""
        raise unknown("preset", name, known, where=where)
    return known[name]


__all__ = ["METHODS", "PRESETS", "Entry", "Method", "check_combination", "method_entry", "preset"]
