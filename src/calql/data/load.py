"""Logged data from wherever it is: a D4RL HDF5 file, an .npz archive, or a Minari dataset by name."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset
from calql.data.formats.hdf5 import read_hdf5
from calql.data.formats.minari import read_minari
from calql.data.formats.npz import read_npz
from calql.system.errors import UserError

READERS: dict[str, Callable[..., Dataset]] = {".hdf5": read_hdf5, ".h5": read_hdf5, ".npz": read_npz}
MINARI = "minari:"


def load(source: str | Path, *, on_problem: OnProblem = stop) -> Dataset:
    """Read `FILE.hdf5`, `FILE.h5`, `FILE.npz`, `minari:ID` or `minari:ID#OBSERVATION_KEY`.

    Values that are not finite stop the reading, unless `on_problem` takes the error instead.
    """
    if str(source).startswith(MINARI):
        name, _, key = str(source).removeprefix(MINARI).partition("#")
        return read_minari(name, observation_key=key or None, on_problem=on_problem)
    path = Path(source).expanduser()
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(
            f"no reader for '{path.suffix}' files" if path.suffix else "names no kind of data file",
            where=str(source),
            mend=f"give a file that ends in {', '.join(READERS)}, or 'minari:ID'",
        )
    _require_file(path)
    return reader(path, on_problem=on_problem)


def _require_file(path: Path) -> None:
    if path.is_file() and os.access(path, os.R_OK):
        return
    if path.is_file():
        raise UserError("may not be read", where=str(path), mend="change its permissions")
    if path.exists():
        raise UserError("is a folder, not a file", where=str(path), mend="name the data file inside it")
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1)
    mend = f"did you mean '{path.parent / close[0]}'?" if close else "check the path"
    raise UserError("no such file", where=str(path), mend=mend)
