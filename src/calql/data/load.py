"""Logged data from wherever it is: a file or a folder, known by what is in it, or a Minari dataset by name."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset
from calql.data.findings import without_bad_episodes
from calql.data.formats import FORMATS, known_formats
from calql.data.formats.base import Format
from calql.data.formats.minari import MINARI, read_stored
from calql.data.reading import AS_IT_IS, Reading
from calql.data.reward_map import by_function, is_function
from calql.system.errors import UserError


def load(source: str | Path, reading: Reading = AS_IT_IS, *, on_problem: OnProblem = stop) -> Dataset:
    """Read a file or a folder of any known format, `minari:ID` or `minari:ID#OBSERVATION_KEY`.

    `reading` says which columns are what, what the reward is, and whether bad episodes are left out. Values that are
    not finite stop the reading, unless `on_problem` takes the error instead.
    """
    if reading.drop_bad_episodes:
        on_problem = _left_to_dropping
    if str(source).startswith(MINARI):
        dataset = read_stored(str(source).removeprefix(MINARI), reading, on_problem)
    else:
        path = Path(source).expanduser()
        dataset = format_of(path).read(path, reading, on_problem)
    if is_function(reading.reward):
        dataset = by_function(dataset, str(reading.reward))
    return without_bad_episodes(dataset) if reading.drop_bad_episodes else dataset


def _left_to_dropping(problem: UserError) -> None:
    """Values that are not finite make an episode bad, and bad ones are dropped once all are there."""


def format_of(path: Path) -> Format:
    """The format that knows what lies there; where none does, the one whose name it bears tells what is wrong."""
    _require_readable(path)
    for each in known_formats():
        if each.sniff(path):
            return each
    named = by_suffix(path)
    if named is not None and path.is_file():
        return named
    raise UserError(
        "is a folder that no format knows" if path.is_dir() else "is a file that no format knows",
        where=str(path),
        mend=f"known are {', '.join(FORMATS)}",
    )


def by_suffix(path: Path) -> Format | None:
    """The format whose files are named so."""
    return next((each for each in known_formats() if path.suffix.lower() in each.suffixes), None)


def is_file_name(name: str) -> bool:
    """Whether it can only be the name of a file."""
    return name.startswith(MINARI) or by_suffix(Path(name)) is not None


def _require_readable(path: Path) -> None:
    if path.exists():
        if not os.access(path, os.R_OK):
            raise UserError("may not be read", where=str(path), mend="change its permissions")
        return
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1)
    mend = f"did you mean '{path.parent / close[0]}'?" if close else "check the path"
    raise UserError("no such file", where=str(path), mend=mend)
