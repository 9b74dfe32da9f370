"""A dataset as one file that is there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Dataset
from calql.system.errors import UserError
from calql.system.files import written_whole


def write_npz(dataset: Dataset, path: str | Path) -> Path:
    """Write under D4RL's key names; reading it back gives the same arrays, row by row."""
    target = Path(path).expanduser()
    if target.suffix != ".npz":
        raise UserError("a written dataset is an .npz file", where=str(target), mend="end its name in .npz")
    with written(target) as file:
        np.savez(file, **d4rl_columns(dataset))  # type: ignore[arg-type]
    return target


def d4rl_columns(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """All columns under D4RL's names; those of dictionary observations as `observations/NAME`."""
    return {
        **by_part(dataset, "observations"),
        "actions": dataset.actions,
        "rewards": dataset.rewards,
        **by_part(dataset, "next_observations"),
        "terminals": dataset.terminals,
        "timeouts": dataset.truncated,
        **dataset.masks,
    }


def by_part(dataset: Dataset, column: str, name: str = "") -> dict[str, NDArray[Any]]:
    """A column of observations: as it is under its name, or its parts as NAME/PART where it is packed."""
    values, name = getattr(dataset, column), name or column
    if dataset.layout is None:
        return {name: values}
    return {f"{name}/{part}": each for part, each in dataset.layout.apart(values).items()}


@contextmanager
def written(target: Path) -> Iterator[BinaryIO]:
    """The file to write; its folder is made, and what the disk refuses is told in one line."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(target) as file:
            yield file
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror or error})",
            where=str(target),
            mend="free some space or choose another folder",
        ) from error
