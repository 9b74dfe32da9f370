"""What every option may be: its type and its range, both in its annotation, checked the same from wherever.

The command line, Python and config files all end in a frozen dataclass of options. It checks itself as it is made, so
that no way in is laxer than another. A range belongs to a name: a class that gives the option another default, without
a range, keeps the one it had, and no class gives it another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
import math
import operator
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal

from calql.system.errors import UserError

POOLED = -1.0  # of --mixing: draw from logged and collected data as from one pool
MOST = 2**31 - 1  # of whole numbers: steps and updates are counted in 32 bits on the device


@dataclass(frozen=True)
class Range:
    """The numbers that an option may be, each of them where it is a tuple."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # `low` itself is too low
    below: bool = False  # `high` itself is too high
    also: float | None = None  # one number outside that has a meaning of its own
    nonzero: bool = False
    infinite: bool = False  # infinity is meant where it is given
    ordered: bool = False  # a tuple whose numbers rise

    def holds(self, value: float) -> bool:
        if math.isnan(value) or (math.isinf(value) and not self.infinite):
            return False
        if value == self.also:
            return True
        low = value > self.low if self.above else value >= self.low
        high = value < self.high if self.below else value <= self.high
        return low and high and not (self.nonzero and value == 0)

    def __str__(self) -> str:
        """In words, after "it must be"."""
        words = "" if self.also is None else f", or {self.also:g}"
        if math.isfinite(self.low) and math.isfinite(self.high) and not (self.above or self.below):
            return f"in [{self.low:g}, {self.high:g}]{words}"
        parts = [f"{'above' if self.above else 'at least'} {self.low:g}"] if math.isfinite(self.low) else []
        parts += [f"{'below' if self.below else 'at most'} {self.high:g}"] if math.isfinite(self.high) else []
        parts += ["other than 0"] if self.nonzero else []
        return (" and ".join(parts) or "a finite number") + words


ANY = Range()
POSITIVE = Range(0.0, above=True)
NOT_NEGATIVE = Range(0.0)
FROM_ONE = Range(1.0)
SHARE = Range(0.0, 1.0)
SHARE_BELOW_ONE = Range(0.0, 1.0, below=True)
KEPT_IF_MINUS_ONE = Range(0.0, also=-1.0)  # -1 after the switch keeps what was before it

Finite = Annotated[float, ANY]
Positive = Annotated[float, POSITIVE]
NotNegative = Annotated[float, NOT_NEGATIVE]
Share = Annotated[float, SHARE]
ShareBelowOne = Annotated[float, SHARE_BELOW_ONE]
ShareAboveZero = Annotated[float, Range(0.0, 1.0, above=True)]
OpenShare = Annotated[float, Range(0.0, 1.0, above=True, below=True)]
NotZero = Annotated[float, Range(nonzero=True)]
KeptIfMinusOne = Annotated[float, KEPT_IF_MINUS_ONE]
Count = Annotated[int, FROM_ONE]
CountOrZero = Annotated[int, NOT_NEGATIVE]
Devices = Annotated[int, Range(0.0, 1024.0)]
Processes = Annotated[int, Range(1.0, 1024.0)]
Port = Annotated[int, Range(0.0, 65535.0)]


class Checked:
    """A dataclass of options that refuses what no option of that name may be. Conditions between options come after."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        hints, ranges = _hints(kind), ranges_of(kind)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # what derives from it is a dataclass
            name = field.name
            object.__setattr__(self, name, checked(name, getattr(self, name), hints[name], ranges.get(name, ANY)))


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def ranges_of(kind: Any) -> Mapping[str, Range]:
    """The range of every option of a dataclass that has one, from it or from a class that it derives from."""
    return _ranges(kind)


@cache
def _ranges(kind: type[Any]) -> Mapping[str, Range]:
    found: dict[str, Range] = {}
    for each in reversed(kind.__mro__):
        hints = typing.get_type_hints(each, include_extras=True)
        own = {name: _range_in(hints[name]) for name in inspect.get_annotations(each)}
        require_same(found, {name: allowed for name, allowed in own.items() if allowed is not None}, each.__name__)
        found |= {name: allowed for name, allowed in own.items() if allowed is not None}
    return found


def require_same(ranges: Mapping[str, Range], others: Mapping[str, Range], whose: str) -> None:
    """Refuse options that have one name and not one range: a name means one thing."""
    for name in ranges.keys() & others.keys():
        if ranges[name] != others[name]:
            raise UserError(
                f"--{name.replace('_', '-')} must be {others[name]} by {whose}, and {ranges[name]} elsewhere",
                mend="give the option another name, or the same range",
            )


def _range_in(hint: Any) -> Range | None:
    return next((mark for mark in bare(hint)[1] if isinstance(mark, Range)), None)


def checked(name: str, value: Any, hint: Any, allowed: Range = ANY) -> Any:
    """The value as the option holds it: numbers of any library as Python's, lists as tuples; else an error."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        plain = next(kind for kind in inner if kind is not type(None))
        return None if value is None else checked(name, value, plain, allowed)
    if origin is Literal:
        return _choice(name, value, inner)
    if origin is tuple:
        return _tuple(name, value, inner, allowed)
    if hint in (int, float):
        return _number(name, value, hint, allowed)
    if hint is bool:
        require(isinstance(value, bool) or type(value).__name__ == "bool", name, value, "true or false")
        return bool(value)
    if hint is str:
        require(isinstance(value, str) and value != "", name, value, "a text")
    return value


def read(name: str, words: Any, hint: Any, allowed: Range = ANY) -> Any:
    """The value that words of a command line stand for, checked like any other; a flag comes as what it is."""
    plain, _ = bare(hint)
    if isinstance(words, bool):
        return words
    if typing.get_origin(plain) is tuple:
        each = typing.get_args(plain)[0]
        return checked(name, [_read(name, word, each, allowed) for word in words], plain, allowed)
    return checked(name, _read(name, words[0], plain, allowed), plain, allowed)


def _read(name: str, word: str, hint: Any, allowed: Range) -> Any:
    if typing.get_origin(hint) is Literal:
        return next((choice for choice in typing.get_args(hint) if str(choice) == word), word)
    if hint not in (int, float):
        return word
    for kind in (hint, float):  # a number that is not whole is refused as such
        with contextlib.suppress(ValueError):
            return kind(word)
    what = f"--{name.replace('_', '-')} is '{word[:80]}', which is not a number"
    raise UserError(what, mend=f"it must be {_kind_in_words(hint, allowed)}")


def _kind_in_words(kind: type[Any], allowed: Range) -> str:
    return f"a {'whole number' if kind is int else 'number'}" + ("" if allowed == ANY else f", {allowed}")


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The type of every option of a dataclass, as it is annotated."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its notes and without None, and the notes."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        plain, marks = bare(inner[0])
        return plain, (*marks, *inner[1:])
    if origin in (types.UnionType, typing.Union):
        return bare(next(kind for kind in inner if kind is not type(None)))
    return hint, ()


def _number(name: str, value: Any, kind: type[Any], allowed: Range) -> int | float:
    """One number in the option's range, which an option without one leaves open."""
    whole = kind is int
    fits = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    require(fits, name, value, _kind_in_words(kind, allowed))
    number = operator.index(value) if whole else float(value)
    require(allowed.holds(number), name, value, str(allowed))
    require(not whole or abs(number) <= MOST, name, value, f"at most {MOST}")
    return number


def _tuple(name: str, value: Any, inner: tuple[Any, ...], allowed: Range) -> tuple[Any, ...]:
    """Numbers or names in a row: as many as the type says, in order where the range says so."""
    require(isinstance(value, Sequence) and not isinstance(value, str), name, value, "several values in a row")
    count = None if inner[-1] is Ellipsis else len(inner)
    require(count is None or len(value) == count, name, value, f"{count} values")
    found = tuple(checked(name, part, inner[0], allowed) for part in value)
    require(bool(found) or inner[0] is not int, name, value, "at least one whole number")
    require(not allowed.ordered or list(found) == sorted(found), name, value, "the lower bound first")
    return found


def _choice(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if value == choice and isinstance(value, bool) == isinstance(choice, bool):
            return choice
    close = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1)
    listed = " or ".join(map(str, choices)) if len(choices) == 2 else f"one of {', '.join(map(str, choices))}"
    guess = f" (did you mean '{close[0]}'?)" if close else ""
    raise refused(name, value, f"{listed}{guess}")


def require(condition: bool, name: str, value: object, allowed: str) -> None:
    """Refuse an option by its name on the command line."""
    if not condition:
        raise refused(name, value, allowed)


def refused(name: str, value: object, allowed: str) -> UserError:
    shown = repr(value) if isinstance(value, str) or not isinstance(value, Real | Sequence) else str(value)
    return UserError(f"--{name.replace('_', '-')} is {shown[:80]}", mend=f"it must be {allowed}")
