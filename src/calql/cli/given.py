"""Options of methods on the command line: all are known there, and those of the method that is chosen apply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calql.cli.parse import Words, values
from calql.methods import METHODS, method_entry
from calql.system.errors import UserError
from calql.system.options import hints_of


def method_kinds() -> list[type[Any]]:
    """The options of every method."""
    return list(dict.fromkeys(entry.options for entry in METHODS.loadable().values()))


def options_given(words: Words, method: str, *others: type[Any], apart: Iterable[type[Any]] = ()) -> dict[str, Any]:
    """The values typed for a method and for `others`; `apart` are the dataclasses that are read elsewhere."""
    kinds = (*others, method_entry(method).options)
    known = {name for kind in (*kinds, *apart) for name in hints_of(kind)}
    for name in words:
        if name not in known:
            raise _of_others(name, method)
    return {name: value for kind in kinds for name, value in values(kind, words).items()}


def _of_others(name: str, method: str) -> UserError:
    having = [each for each, entry in METHODS.loadable().items() if name in hints_of(entry.options)]
    return UserError(
        f"--{name.replace('_', '-')} is no option of the method '{method}'",
        mend=f"leave it out, or choose a method that has it: {', '.join(having)}",
    )
