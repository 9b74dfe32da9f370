"""What every option may be: its type from the dataclass, its range from one table, checked the same from wherever.

The command line, Python and config files all end in a frozen dataclass of options. It checks itself as it is made, so
that no way in is laxer than another. A range belongs to a name: one name means one thing in the whole package.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import operator
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal

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

RANGES: Mapping[str, Range] = {
    # How long a run is, and what it draws from
    "seeds": FROM_ONE,
    "first_seed": NOT_NEGATIVE,
    "offline_updates": NOT_NEGATIVE,
    "online_steps": NOT_NEGATIVE,
    "update_ratio": FROM_ONE,
    "updates_per_episode": NOT_NEGATIVE,
    "trajectories": FROM_ONE,
    "warmup_steps": NOT_NEGATIVE,
    "mixing": Range(0.0, 1.0, also=POOLED),
    "reference_updates": FROM_ONE,
    "capacity": FROM_ONE,
    "keep_episodes": NOT_NEGATIVE,
    "evaluate_offline_every": FROM_ONE,
    "evaluate_online_every": FROM_ONE,
    "evaluation_episodes": FROM_ONE,
    "hold_out": SHARE_BELOW_ONE,
    "fqe_updates": FROM_ONE,
    "action_low": ANY,
    "action_high": ANY,
    "block": FROM_ONE,
    "devices": Range(0.0, 1024.0),
    "workers": Range(-1.0, 1024.0),
    "checkpoint_minutes": NOT_NEGATIVE,
    "step_timeout": NOT_NEGATIVE,
    "action_limit": Range(0.0, 1.0, above=True, below=True),
    "episode_limit": FROM_ONE,
    "reward_scale": Range(nonzero=True),  # below 0 where costs were recorded
    "reward_shift": ANY,
    "max_minutes": POSITIVE,
    "films": Range(0.0, 12.0),
    # Networks
    "policy_widths": FROM_ONE,
    "critic_widths": FROM_ONE,
    "critics": FROM_ONE,
    "target_subset": NOT_NEGATIVE,
    "penalised_critics": NOT_NEGATIVE,
    "output_gain": NOT_NEGATIVE,
    "last_hidden_gain": NOT_NEGATIVE,
    "log_std_offset": ANY,
    "log_std_range": Range(ordered=True),
    "width": FROM_ONE,
    "layers": FROM_ONE,
    "heads": FROM_ONE,
    "dropout": SHARE_BELOW_ONE,
    "policy_dropout": SHARE_BELOW_ONE,
    "training_context": FROM_ONE,
    "acting_context": FROM_ONE,
    "order_steps": FROM_ONE,
    # Optimisation
    "batch_size": FROM_ONE,
    "batch_size_online": NOT_NEGATIVE,
    "discount": SHARE_BELOW_ONE,
    "policy_rate": POSITIVE,
    "critic_rate": POSITIVE,
    "temperature_rate": POSITIVE,
    "target_rate": Range(0.0, 1.0, above=True),
    "critic_steps": FROM_ONE,
    "critic_steps_online": NOT_NEGATIVE,
    "policy_delay": FROM_ONE,
    "policy_decay_updates": NOT_NEGATIVE,
    "weight_decay": NOT_NEGATIVE,
    "warmup_updates": FROM_ONE,
    "gradient_clip": POSITIVE,
    # What is learnt
    "target_entropy": ANY,
    "entropy_scale": NOT_NEGATIVE,
    "entropy_share": SHARE,
    "epsilon": SHARE,
    "temperature_start": POSITIVE,
    "backup_actions": FROM_ONE,
    "backup_actions_online": NOT_NEGATIVE,
    "conservative_weight": NOT_NEGATIVE,
    "conservative_weight_online": KEPT_IF_MINUS_ONE,
    "sampled_actions": FROM_ONE,
    "gap": ANY,
    "dual_start": ANY,
    "soft_maximum_temperature": POSITIVE,
    "difference_clip": Range(infinite=True, ordered=True),
    "weight_cap": POSITIVE,
    "advantage_cap": Range(0.0, infinite=True),
    "q_ceiling": Range(infinite=True),
    "policy_std": NOT_NEGATIVE,
    "expectile": Range(0.0, 1.0, above=True, below=True),
    "temperature": NOT_NEGATIVE,
    "temperature_online": KEPT_IF_MINUS_ONE,
    "ascent_weight": NOT_NEGATIVE,
    "ascent_weight_online": KEPT_IF_MINUS_ONE,
    "target_noise": NOT_NEGATIVE,
    "target_noise_clip": NOT_NEGATIVE,
    "exploration_noise": NOT_NEGATIVE,
    "policy_penalty": NOT_NEGATIVE,
    "target_penalty": NOT_NEGATIVE,
    "target_penalty_online": NOT_NEGATIVE,
    "final_penalty": SHARE,
    "penalty_updates": FROM_ONE,
    "candidates": FROM_ONE,
    "candidate_noise": NOT_NEGATIVE,
    "optimism": ANY,
    "evaluation_return": ANY,
    "exploration_return": ANY,
    "return_scale": POSITIVE,
    # Other commands
    "updates": FROM_ONE,
    "episodes": FROM_ONE,
    "start": NOT_NEGATIVE,
    "seed": NOT_NEGATIVE,
    "size": FROM_ONE,
    "policies": NOT_NEGATIVE,
    "pixels": Range(480.0, 2160.0),
    "camera": Range(8.0, 4096.0, also=0.0),
    "processes": Range(1.0, 1024.0),
    "jobs": Range(1.0, 1024.0),
    "port": Range(0.0, 65535.0),
    "retries": NOT_NEGATIVE,
    "price": NOT_NEGATIVE,
    "cpus": POSITIVE,
    "gpus": NOT_NEGATIVE,
    "observation": FROM_ONE,
    "action": FROM_ONE,
    "transitions": FROM_ONE,
    "seconds": POSITIVE,
    "run": NOT_NEGATIVE,  # minutes that `calql bench` trains for
    "soak": NOT_NEGATIVE,  # likewise
}


class Checked:
    """A dataclass of options that refuses what no option of that name may be. Conditions between options come after."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        hints = _hints(kind)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # what derives from it is a dataclass
            value = checked(field.name, getattr(self, field.name), hints[field.name])
            object.__setattr__(self, field.name, value)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def checked(name: str, value: Any, hint: Any) -> Any:
    """The value as the option holds it: numbers of any library as Python's, lists as tuples; else an error."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else checked(name, value, next(kind for kind in inner if kind is not type(None)))
    if origin is Literal:
        return _choice(name, value, inner)
    if origin is tuple:
        return _tuple(name, value, inner)
    if hint in (int, float):
        return _number(name, value, hint)
    if hint is bool:
        require(isinstance(value, bool) or type(value).__name__ == "bool", name, value, "true or false")
        return bool(value)
    if hint is str:
        require(isinstance(value, str) and value != "", name, value, "a text")
    return value


def read(name: str, words: Any, hint: Any) -> Any:
    """The value that words of a command line stand for, checked like any other; a flag comes as what it is."""
    plain, _ = bare(hint)
    if isinstance(words, bool):
        return words
    if typing.get_origin(plain) is tuple:
        return checked(name, [_read(name, word, typing.get_args(plain)[0]) for word in words], plain)
    return checked(name, _read(name, words[0], plain), plain)


def _read(name: str, word: str, hint: Any) -> Any:
    if typing.get_origin(hint) is Literal:
        return next((choice for choice in typing.get_args(hint) if str(choice) == word), word)
    if hint not in (int, float):
        return word
    for kind in (hint, float):  # a number that is not whole is refused as such
        with contextlib.suppress(ValueError):
            return kind(word)
    what = f"--{name.replace('_', '-')} is '{word[:80]}', which is not a number"
    raise UserError(what, mend=f"it must be {_kind_in_words(name, hint)}")


def _kind_in_words(name: str, kind: type[Any]) -> str:
    allowed = RANGES.get(name, ANY)
    return f"a {'whole number' if kind is int else 'number'}" + ("" if allowed == ANY else f", {allowed}")


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The type of every option of a dataclass, as it is annotated."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its notes and without None, and the notes."""
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is typing.Annotated:
        hint, *notes = typing.get_args(hint)
        marks = tuple(notes)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))
    return hint, marks


def _number(name: str, value: Any, kind: type[Any]) -> int | float:
    """One number in the option's range, which a name without one leaves open."""
    whole, allowed = kind is int, RANGES.get(name, ANY)
    fits = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    require(fits, name, value, _kind_in_words(name, kind))
    number = operator.index(value) if whole else float(value)
    require(allowed.holds(number), name, value, str(allowed))
    require(not whole or abs(number) <= MOST, name, value, f"at most {MOST}")
    return number


def _tuple(name: str, value: Any, inner: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers or names in a row: as many as the type says, in order where the range says so."""
    require(isinstance(value, Sequence) and not isinstance(value, str), name, value, "several values in a row")
    count = None if inner[-1] is Ellipsis else len(inner)
    require(count is None or len(value) == count, name, value, f"{count} values")
    found = tuple(checked(name, part, inner[0]) for part in value)
    require(bool(found) or inner[0] is not int, name, value, "at least one whole number")
    ordered = RANGES.get(name, ANY).ordered
    require(not ordered or list(found) == sorted(found), name, value, "the lower bound first")
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
