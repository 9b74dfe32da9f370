"""Methods by name: every file of this folder may offer `METHODS`, a mapping from name to `Entry`.

A method of another package comes by an entry point of the group `calql.methods`, or by `calql.register`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from calql.methods import wsrl
from calql.methods.base import Method
from calql.methods.entry import Entry
from calql.system.errors import UserError, unknown
from calql.system.options import POOLED
from calql.system.registry import Registry

DEFAULT_METHOD = "cal-ql"
ORIGINAL = "original"  # the preset of a method's own code, where the paper's baseline was another program


def _own() -> Mapping[str, Entry]:
    """Those of this folder, in their order for lists."""
    found: dict[str, Entry] = {}
    for module in pkgutil.iter_modules(__path__):
        found |= getattr(importlib.import_module(f"{__name__}.{module.name}"), "METHODS", {})
    return dict(sorted(found.items(), key=lambda item: item[1].place))


METHODS: Registry[Entry] = Registry("method", "calql.methods", Entry, _own)

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


def same_method(name: str, changes: Mapping[str, Any]) -> str | None:
    """The method that this one is with some options changed, if it has a name: CQL is Cal-QL with calibrate=False."""
    entry = method_entry(name)
    wanted = {**vars(entry.options()), **changes}
    made = METHODS.each(lambda each: (each.make, each.sets, vars(each.options())))
    return next((other for other, each in made if each == (entry.make, entry.sets, wanted)), None)


def title_of(name: str) -> str:
    """What papers call it."""
    return method_entry(name).title or name


def make_method(name: str, options: Any, *, discrete: bool = False) -> Method:
    """The method for continuous or for discrete actions; refused where it has no such form."""
    entry = method_entry(name)
    if discrete and entry.discrete is not None:
        return entry.discrete(options)
    if not discrete and entry.continuous:
        return entry.make(options)
    kind = "discrete" if discrete else "continuous"
    others = ", ".join(able(discrete))
    raise UserError(f"the method '{name}' cannot learn {kind} actions", mend=f"these can, with --method: {others}")


def able(discrete: bool) -> list[str]:
    """Names of the methods that learn discrete actions, or continuous ones."""
    forms = METHODS.each(lambda entry: entry.discrete is not None if discrete else entry.continuous)
    return [name for name, form in forms if form]


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


__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "PRESETS",
    "Entry",
    "Method",
    "able",
    "check_combination",
    "make_method",
    "method_entry",
    "preset",
    "same_method",
    "title_of",
]
