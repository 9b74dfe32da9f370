"""What a format of logged data is: something that knows its own files, reads them, and may write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calql.data.columns import OnProblem
from calql.data.dataset import Dataset
from calql.data.reading import Reading

Sniff = Callable[[Path], bool]
Read = Callable[[Path, Reading, OnProblem], Dataset]
Write = Callable[[Dataset, Path], object]


@dataclass(frozen=True)
class Format:
    """One format. A file is known by what is in it; its name only says whose error a damaged one gets."""

    summary: str
    sniff: Sniff  # by content: never raises, needs no extra package, reads little
    read: Read  # what no dataset can be made of is a UserError; values that are not finite go to the third argument
    write: Write | None = None
    suffixes: tuple[str, ...] = ()  # as its files are named
    masks: bool = False  # keeps which actions were allowed, where the dataset says so
    general: bool = False  # knows every file of a kind, whatever is in it, and is asked after those that know more


def begins(path: Path, count: int) -> bytes:
    """The first bytes of a file; none of a folder or of what cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""
