"""What a reader found in a file: named columns of all episodes one after the other, before anything is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Ints
from calql.data.hints import table_example
from calql.data.reading import ROLES, SEVERAL, Reading
from calql.system.errors import UserError, unknown


class Column(NamedTuple):
    """A column that is read when it is wanted: images of a camera that nobody chose are never decoded."""

    shape: tuple[int, ...]  # of one row
    load: Callable[[], NDArray[Any]]  # [row, ...]
    image: bool = False

    @classmethod
    def of(cls, values: NDArray[Any]) -> Column:
        return cls(values.shape[1:], lambda: values, is_image(values.dtype, values.shape[1:]))


class Trouble(NamedTuple):
    """What is wrong with one episode of the recording."""

    episode: int
    what: str


@dataclass(frozen=True)
class Recording:
    """One row a step. Without `following`, the observation after a row is that of the next row of its episode."""

    columns: Mapping[str, Column]
    lengths: Ints  # rows of each episode
    roles: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)  # what the format says columns are
    following: Mapping[str, Column] = field(default_factory=dict)  # by the observation that they come after
    prefix: str = ""  # of the names of observations; names are understood with it and without
    names: Sequence[str] = ()  # what the file calls its episodes; else they are counted from 0
    troubles: Sequence[Trouble] = ()  # a list may grow while columns are read
    notes: tuple[str, ...] = ()

    def name(self, episode: int) -> str:
        return self.names[episode] if len(self.names) else str(episode)

    def observed(self) -> list[str]:
        """Names of all that could be observed, where the format says which those are by a prefix."""
        return [name for name in self.columns if self.prefix and name.startswith(self.prefix)]

    def chosen(self, role: str, reading: Reading, source: str) -> tuple[str, ...]:
        """The columns of a role: as the user says, else as the format does, else by their names."""
        asked = reading.observations if role == "observation" and reading.observations else reading.roles.get(role, ())
        found = _matching(asked, self.columns, self.prefix, source) if asked else self._known(role)
        if len(found) > 1 and role not in SEVERAL:
            raise UserError(
                f"{role} is {len(found)} columns ({', '.join(found[:8])})", where=source, mend="name one of them"
            )
        return found

    def chosen_name(self, pattern: str, source: str) -> str:
        """The one column that a name means."""
        found = _matching((pattern,), self.columns, self.prefix, source)
        if len(found) > 1:
            raise UserError(f"'{pattern}' is {len(found)} columns", where=source, mend="name one of them")
        return found[0]

    def _known(self, role: str) -> tuple[str, ...]:
        said = self.roles.get(role, ())
        if said:
            return (said,) if isinstance(said, str) else said
        return tuple(name for name in ROLES[role] if name in self.columns)[:1]


def _matching(patterns: Iterable[str], names: Mapping[str, Any], prefix: str, source: str) -> tuple[str, ...]:
    """Columns in the order of the patterns, and of the file within one; a pattern that matches nothing is refused."""
    found: list[str] = []
    for pattern in patterns:
        new = [
            name
            for name in names
            if pattern in (name, name.removeprefix(prefix))
            or fnmatchcase(name, pattern)
            or (name.startswith(prefix) and fnmatchcase(name.removeprefix(prefix), pattern))
        ]
        if not new:
            raise unknown("column", pattern, [name.removeprefix(prefix) for name in names], where=source)
        found += [name for name in new if name not in found]
    return tuple(found)


def no_role(role: str, names: Iterable[str], reading: Reading, source: str) -> UserError:
    """No column is known for it; which there are, and how one is named."""
    held = list(names)
    listed = ", ".join(held[:12]) + (", ..." if len(held) > 12 else "")
    mend = table_example(held, reading.columns)
    return UserError(f"no column says that it is the {role} (there are {listed})", where=source, mend=mend)


def is_image(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Colours of 8 bits; anything else that is no vector is numbers."""
    return dtype == np.uint8 and len(shape) > 1


def joined(parts: Sequence[Mapping[str, int]]) -> tuple[Ints, tuple[Trouble, ...]]:
    """Rows of each episode from the lengths of its columns: the fewest, where they disagree, which is a trouble."""
    lengths, troubles = [], []
    for episode, columns in enumerate(parts):
        rows = min(columns.values())
        lengths.append(rows)
        if rows != max(columns.values()):
            listed = ", ".join(f"'{name}' {length}" for name, length in list(columns.items())[:6])
            troubles.append(Trouble(episode, f"columns of different lengths ({listed})"))
    return np.asarray(lengths, np.int64), tuple(troubles)
