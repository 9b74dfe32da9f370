"""Arrays of a plain `.npz` archive; pickled objects are never loaded."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import KNOWN, OnProblem, require_keys, stop
from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Dataset
from calql.errors import UserError


def read_npz(path: Path, *, on_problem: OnProblem = stop) -> Dataset:
    """A dataset under D4RL's key names; ends may also be given as `episode_lengths`."""
    arrays = read_npz_arrays(path, KNOWN)
    return from_d4rl_arrays(arrays, str(path), on_problem=on_problem)


def read_npz_arrays(path: Path, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The named arrays (all of them without names); with names, the required ones must be there."""
    if not zipfile.is_zipfile(path):
        raise UserError("is not a whole .npz archive", where=str(path), mend="copy or download it again")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if keys is not None:
                require_keys(archive.files, str(path))
            wanted = [name for name in archive.files if keys is None or name in keys]
            return {name: _array(archive, name, path) for name in wanted}
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(f"cannot be read ({error})", where=str(path), mend="copy or download it again") from error


def _array(archive: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        return np.asarray(archive[name])
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise UserError(
                f"'{name}' is damaged ({error})", where=str(path), mend="copy or download it again"
            ) from error
        raise UserError(
            f"'{name}' holds pickled Python objects, which are never loaded",
            where=str(path),
            mend="save it as a plain numeric array",
        ) from error
    except (EOFError, zlib.error) as error:
        raise UserError(f"'{name}' is cut short", where=str(path), mend="copy or download it again") from error
