"""Arms of a sweep as rows, config.json and reports name them.

A run with `--vary calibrate=true,false` trains every seed once for each value. The values are its arms, and the rows of
an arm carry its name beside the seed. Runs without `--vary` have no arms and their rows no such column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from calql.system.errors import UserError

ARM = "arm"  # the column
Member = int | tuple[str, int]  # one seed of a run; in a sweep, one seed of an arm
Value = TypeVar("Value")
KNOWN_AS = "known_as"  # in config.json: what papers call an arm that is a method of its own, by the arm's name


def split_vary(text: str) -> tuple[str, list[str]]:
    """The option that `NAME=a,b,c` names, and its values as they were written."""
    name, equals, values = (part.strip() for part in text.partition("="))
    texts = [value.strip() for value in values.split(",")]
    if not name or not equals or not all(texts):
        raise UserError(f"--vary {text}", mend="give one option and its values, for example calibrate=true,false")
    return name.replace("-", "_"), texts


def arms_of(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options that each arm of the run sets, by the arm's name and in their order; none for a run without arms."""
    choice = config.get("choice")
    text = choice.get("vary") if isinstance(choice, dict) else None
    if not isinstance(text, str):
        return {}
    name, values = split_vary(text)
    return {arm_name(name, value): {name: _value(value)} for value in values}


def place_of_arm(names: Sequence[str], arm: str | None, where: str) -> int:
    """The arm's number among those of the run; 0 where it has none and none is named."""
    if arm in names:
        return names.index(arm)
    if not names and arm is None:
        return 0
    what = "the run is a sweep" if arm is None else f"the run has no arm '{arm}'"
    raise UserError(what, where=where, mend=f"name one of its arms: {', '.join(names)}" if names else "name none")


def arm_name(option: str, value: str) -> str:
    return f"{option}={value}"


def known_as(config: Mapping[str, Any], arm: str) -> str:
    """The method of a run, or what a reader of papers calls an arm of it; else the two names."""
    method = str(config.get("method", "unnamed method"))
    titles = config.get(KNOWN_AS)
    title = titles.get(arm) if isinstance(titles, dict) else None
    return str(title or f"{method}, {arm}") if arm else method


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower())
    except ValueError:
        return text


def member_of(row: Mapping[str, Any]) -> Member:
    """Whose row it is."""
    return (str(row[ARM]), int(row["seed"])) if ARM in row else int(row["seed"])


def named(member: Member) -> dict[str, Any]:
    """The columns that say whose row it is."""
    return {"seed": member} if isinstance(member, int) else {"seed": member[1], ARM: member[0]}


def by_member(found: Mapping[Member, Value]) -> list[tuple[Member, Value]]:
    """Arm by arm, then by seed."""
    return sorted(found.items(), key=lambda item: tuple(named(item[0]).values())[::-1])


def in_words(member: Member) -> str:
    return f"seed {member}" if isinstance(member, int) else f"seed {member[1]} of {member[0]}"
