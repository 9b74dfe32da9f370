"""Arrays of a D4RL HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from calql.data.columns import KNOWN, OnProblem, require_keys, stop
from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Dataset
from calql.errors import UserError


def read_hdf5(path: Path, *, on_problem: OnProblem = stop) -> Dataset:
    """A D4RL dataset file, read without D4RL."""
    return from_d4rl_arrays(read_hdf5_arrays(path), str(path), on_problem=on_problem)


def read_hdf5_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of the file, as stored; `infos`, `metadata` and the like are not read."""
    try:
        with h5py.File(path, "r") as file:
            names = list(file.keys())
            _refuse_minari(names, path)
            require_keys(names, str(path))
            return {name: _array(file[name], name, path) for name in names if name in KNOWN}
    except OSError as error:
        raise UserError(
            f"is not a whole HDF5 file ({error})", where=str(path), mend="copy or download it again"
        ) from error


def _array(node: Any, name: str, path: Path) -> NDArray[Any]:
    if not isinstance(node, h5py.Dataset):
        raise UserError(
            f"'{name}' is a group of {', '.join(list(node)[:8])}",
            where=str(path),
            mend=f"store '{name}' as one array, [row, ...]",
        )
    return np.asarray(node[()])


def _refuse_minari(names: list[str], path: Path) -> None:
    if names and all(name.startswith("episode_") for name in names):
        raise UserError(
            "is the inside of a Minari dataset", where=str(path), mend="load it by its name, as 'minari:ID'"
        )
