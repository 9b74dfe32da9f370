"""Checkpoints: arrays by name, written whole or not at all, the newest few kept."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from numpy.typing import NDArray

from calql.errors import UserError

KEPT = 2
M_MMAP_THRESHOLD = -3  # of mallopt
LATER_S = 1.0  # after a checkpoint, memory is given back once more: its writers free some of it when it is done
MAPPED = 2**20  # bytes from which on an array is mapped for itself, and goes back to the system when it is freed
Arrays = dict[str, NDArray[Any]]

logging.getLogger("absl").setLevel(logging.ERROR)


class Checkpoints:
    """Numbered checkpoints in a folder. A half-written one has a temporary name and is never read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        _of_c("mallopt", M_MMAP_THRESHOLD, MAPPED)  # else glibc raises it with each large array that is freed
        options = ocp.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=False)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    @property
    def latest(self) -> int | None:
        return self._manager.latest_step()

    def save(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        number = 0 if self.latest is None else self.latest + 1
        try:
            self._manager.save(number, args=ocp.args.StandardSave(dict(arrays)))
            self._manager.wait_until_finished()
        except (OSError, ValueError) as error:
            raise as_disk_error(error, self._folder) from error
        gc.collect()  # Orbax leaves arrays in cycles, which Python may not look for until much later
        self._give_back()
        later = threading.Timer(LATER_S, self._give_back)
        later.daemon = True
        later.start()

    @staticmethod
    def _give_back() -> None:
        """To the system, what is free."""
        _of_c("malloc_trim", 0)

    def load(self) -> Arrays:
        """The newest complete checkpoint."""
        if self.latest is None:
            raise UserError(
                "holds no complete checkpoint", where=str(self._folder), mend="start the run again without --resume"
            )
        return dict(self._manager.restore(self.latest, args=ocp.args.StandardRestore()))

    def close(self) -> None:
        self._manager.close()


def _of_c(function: str, *arguments: int) -> None:
    """Call a function of glibc; of another C library, none."""
    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL("libc.so.6"), function)(*arguments)


def as_disk_error(error: Exception, where: Path) -> Exception:
    """A full disk as something a user can mend; anything else as it is."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or "No space left" in str(error) or "RESOURCE_EXHAUSTED" in str(error):
        return UserError(
            "the disk is full",
            where=str(where),
            mend="free some space, then go on from the last checkpoint with --resume",
        )
    return error


def pack(name: str, tree: Any) -> Arrays:
    """The leaves of a pytree as named arrays on the host; empty ones hold nothing to save."""
    leaves = jax.device_get(jax.tree.leaves(tree))
    return {f"{name}/{index:04d}": np.asarray(leaf) for index, leaf in enumerate(leaves) if np.size(leaf)}


def unpack(name: str, arrays: Mapping[str, NDArray[Any]], like: Any) -> Any:
    """The pytree `like` with its leaves from named arrays of the same shapes."""
    leaves, structure = jax.tree.flatten(like)
    found = [
        arrays.get(f"{name}/{index:04d}") if leaf.size else np.zeros(leaf.shape, leaf.dtype)
        for index, leaf in enumerate(leaves)
    ]
    for index, (array, leaf) in enumerate(zip(found, leaves, strict=True)):
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise UserError(
                f"'{name}' does not fit this version of the method (leaf {index})",
                where="checkpoint",
                mend="resume with the version of calql that wrote it",
            )
    return jax.tree.unflatten(structure, [jax.numpy.asarray(array) for array in found])
