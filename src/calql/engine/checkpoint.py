"""Checkpoints: arrays by name in a file, written whole or not at all, the newest few kept."""

from __future__ import annotations

import contextlib
import ctypes
import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from calql.system.archives import read_archive
from calql.system.errors import UserError, of_system
from calql.system.files import written_whole
from calql.system.run_files import PARTIAL

KEPT = 2
WHOLE = ".npz"
M_MMAP_THRESHOLD = -3  # of mallopt
MAPPED = 2**20  # bytes from which on an array is mapped for itself, and goes back to the system when it is freed
Arrays = dict[str, NDArray[Any]]


class Saved(NamedTuple):
    """What whoever follows a run is told when a checkpoint has been written."""

    policies: Any  # [seed, ...], on the host
    online: bool
    updates: list[int]  # of each seed
    env_steps: list[int]


class Checkpoints:
    """Numbered files of NumPy's format in a folder. A half-written one has another name and is never read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if any(path.is_dir() and path.name.isdigit() for path in folder.iterdir()):
            raise UserError(
                "holds checkpoints of an older version, which wrote a folder for each",
                where=str(folder),
                mend="go on with the version of calql that began the run (config.json names it), or start it again",
            )
        _of_c("mallopt", M_MMAP_THRESHOLD, MAPPED)  # else glibc raises it with each large array that is freed

    @property
    def latest(self) -> int | None:
        return max((int(path.stem) for path in whole(self._folder)), default=None)

    def save(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        number = 0 if self.latest is None else self.latest + 1
        path = self._folder / f"{number}{WHOLE}"
        try:
            with written_whole(path, aside=path.with_suffix(PARTIAL)) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub has allow_pickle among the arrays
        except OSError as error:
            raise as_disk_error(error, self._folder) from error
        for old in whole(self._folder):
            if int(old.stem) <= number - KEPT:
                old.unlink(missing_ok=True)
        _of_c("malloc_trim", 0)

    def load(self) -> Arrays:
        """The newest complete checkpoint."""
        if self.latest is None:
            raise UserError(
                "holds no complete checkpoint", where=str(self._folder), mend="start the run again without --resume"
            )
        path = self._folder / f"{self.latest}{WHOLE}"
        return read_archive(path, mend="delete it: the run goes on from the one before it")


def whole(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, which need not exist."""
    return [path for path in folder.glob(f"*{WHOLE}") if path.stem.isdigit()]


def _of_c(function: str, *arguments: int) -> None:
    """Call a function of glibc; of another C library, none."""
    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL("libc.so.6"), function)(*arguments)


def as_disk_error(error: Exception, where: Path) -> Exception:
    """A full disk, or a path that may not be written, as something a user can mend; anything else as it is."""
    if "No space left" in str(error):
        error = OSError(errno.ENOSPC, str(error))
    if isinstance(error, OSError) and (error.filename or error.errno in (errno.ENOSPC, errno.EDQUOT)):
        return of_system(error, str(where))
    return error


def pack(name: str, tree: Any) -> Arrays:
    """The leaves of a pytree as named arrays on the host; empty ones hold nothing to save."""
    leaves = jax.device_get(jax.tree.leaves(tree))
    return {f"{name}/{index:04d}": np.asarray(leaf) for index, leaf in enumerate(leaves) if np.size(leaf)}


def unpack(
    name: str, arrays: Mapping[str, NDArray[Any]], like: Any, place: Callable[[Any], Any] = jax.numpy.asarray
) -> Any:
    """The pytree `like` with its leaves from named arrays of the same shapes, each put in its `place`."""
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
    return jax.tree.unflatten(structure, [place(array) for array in found])
