"""A dataset as one `.npz` file that is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calql.data.dataset import Dataset
from calql.system.errors import UserError
from calql.system.files import written_whole


def write_npz(dataset: Dataset, path: str | Path) -> Path:
    """Write under D4RL's key names; reading it back gives the same arrays, row by row."""
    target = Path(path).expanduser()
    if target.suffix != ".npz":
        raise UserError("a written dataset is an .npz file", where=str(target), mend="end its name in .npz")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(target) as file:
            np.savez(
                file,
                observations=dataset.observations,
                actions=dataset.actions,
                rewards=dataset.rewards,
                next_observations=dataset.next_observations,
                terminals=dataset.terminals,
                timeouts=dataset.truncated,
                **dataset.masks,
            )
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror or error})",
            where=str(target),
            mend="free some space or choose another folder",
        ) from error
    return target
