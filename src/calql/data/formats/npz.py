"""Arrays of a plain `.npz` archive; pickled objects are never loaded."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from calql.data.columns import KNOWN, OnProblem, require_keys, stop
from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Dataset
from calql.system.archives import AGAIN, read_archive
from calql.system.errors import UserError


def read_npz(path: Path, *, on_problem: OnProblem = stop) -> Dataset:
    """A dataset under D4RL's key names; ends may also be given as `episode_lengths`."""
    arrays = read_npz_arrays(path, KNOWN)
    return from_d4rl_arrays(arrays, str(path), on_problem=on_problem)


def read_npz_arrays(path: Path, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The named arrays (all of them without names); with names, the required ones must be there."""
    if not zipfile.is_zipfile(path):
        raise UserError("is not a whole .npz archive", where=str(path), mend=AGAIN)

    def chosen(names: list[str]) -> list[str]:
        if keys is not None:
            require_keys(names, str(path))
        return [name for name in names if keys is None or name in keys]

    return read_archive(path, chosen)
