"""Arrays of a D4RL HDF5 file. What it points to outside itself is never read: the file may be a stranger's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from calql.data.assemble import assemble
from calql.data.columns import KNOWN, OnProblem, require_keys, stop
from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Dataset
from calql.data.flat import flat_recording, group_of, wanted
from calql.data.formats.base import Format, begins
from calql.data.reading import AS_IT_IS, Reading
from calql.data.sources import Sliced, stays
from calql.data.stored import Stored
from calql.data.write import d4rl_columns, written
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError

# What the HDF5 library raises for damage, wherever in a file it is.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, AttributeError, NotImplementedError)


DEEPEST = 3  # groups within groups that are looked into
SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_hdf5(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """A D4RL file, read without D4RL; with columns of the user's choice, or observations in a group, as a table."""
    table = reading.chooses or _has_group(path)
    arrays = read_hdf5_arrays(path, reading, table=table)
    if not table:
        return from_d4rl_arrays(arrays, str(path), on_problem=on_problem)
    return assemble(flat_recording(arrays, reading, str(path)), reading, str(path), on_problem)


def write_hdf5(dataset: Dataset, path: Path) -> Path:
    """Under D4RL's names, with next observations; there whole or not at all."""
    with written(path) as file, h5py.File(file, "w") as made:
        for name, column in d4rl_columns(dataset).items():
            made.create_dataset(name, data=column)  # 'observations/NAME' makes a group
    return path


def read_hdf5_arrays(path: Path, reading: Reading = AS_IT_IS, *, table: bool = False) -> dict[str, NDArray[Any]]:
    """The columns of the file, as stored: those of D4RL's layout, or of a `table` those that a user names."""
    with opened(path, keep=reading.scratch is not None) as file:
        names = list(file.keys())
        _refuse_minari(names, path)
        if table:
            names = wanted(_arrays(file), reading, str(path))
        else:
            require_keys(names, str(path))
        found = {name: own_array(file, name, path) for name in names if table or name in KNOWN}
        require_room(sum(int(node.nbytes) for node in found.values() if not _stays(node, reading)), path)
        return {name: _column(node, path, reading) for name, node in found.items()}


def _column(node: h5py.Dataset, path: Path, reading: Reading) -> Any:
    """Its numbers, or where they are."""
    return Stored(Sliced([node], [len(node)], str(path))) if _stays(node, reading) else np.asarray(node[()])


def _stays(node: h5py.Dataset, reading: Reading) -> bool:
    return stays(node.nbytes, reading, numbers=node.ndim < 2)


def _arrays(group: h5py.Group, depth: int = DEEPEST) -> list[str]:
    """All names of arrays, those in groups with their path; a link is named, and refused when it is read."""
    found = []
    for name in group:
        hard = isinstance(group.get(name, getlink=True), h5py.HardLink)
        if depth and hard and group.get(name, getclass=True) is h5py.Group:
            found += [f"{name}/{inner}" for inner in _arrays(group[name], depth - 1)]
        else:
            found.append(name)
    return found


def _has_group(path: Path) -> bool:
    """Whether observations are a dictionary."""
    with opened(path) as file:
        return bool(group_of(_arrays(file)))


@contextmanager
def opened(path: Path, *, keep: bool = False) -> Iterator[h5py.File]:
    """An HDF5 file to read; whatever its damage makes the library raise is told in one line.

    With `keep` it stays open for as long as somebody has one of its arrays.
    """
    try:
        file = h5py.File(path, "r")
        with nullcontext(file) if keep else file:
            yield file
    except DAMAGE as error:
        raise UserError(f"is not a whole HDF5 file ({error})", where=str(path), mend=AGAIN) from error


def own_array(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """An array of the file whose bytes are in the file: no link, no outside storage, no view of other files."""
    link = file.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        target = f" to {link.filename}" if isinstance(link, h5py.ExternalLink) else ""
        raise _elsewhere(f"'{name}' is a link{target}", path)
    node = file[name]
    if not isinstance(node, h5py.Dataset):
        raise UserError(
            f"'{name}' is a group of {', '.join(list(node)[:8])}",
            where=str(path),
            mend=f"store '{name}' as one array, [row, ...]",
        )
    if node.external:
        raise _elsewhere(f"the numbers of '{name}' lie in another file ({node.external[0][0]})", path)
    if node.is_virtual:
        raise _elsewhere(f"'{name}' is a view of other arrays", path)
    return node


def own_group(parent: h5py.Group, name: str, path: Path) -> h5py.Group:
    """A group that lies in the file itself."""
    if not isinstance(parent.get(name, getlink=True), h5py.HardLink):
        raise _elsewhere(f"'{name}' is a link", path)
    found = parent[name]
    if not isinstance(found, h5py.Group):
        raise UserError(f"'{name}' is an array, not a group", where=str(path), mend="write the file again")
    return found


def require_own(path: Path) -> None:
    """Refuse a file of any layout that points outside itself, or that unpacks to more than there is room for."""
    with opened(path) as file:
        waiting, seen, total = ["/"], set[int](), 0
        while waiting:
            group = file[waiting.pop()]
            address = h5py.h5o.get_info(group.id).addr
            if address in seen:  # hard links may go round in a circle
                continue
            seen.add(address)
            for name in (f"{group.name.rstrip('/')}/{part}" for part in group):
                hard = isinstance(file.get(name, getlink=True), h5py.HardLink)
                if hard and file.get(name, getclass=True) is h5py.Group:
                    waiting.append(name)
                else:
                    total += int(own_array(file, name, path).nbytes)
        require_room(total, path)


def _elsewhere(what: str, path: Path) -> UserError:
    return UserError(f"{what}, which is not followed", where=str(path), mend="store the array itself in the file")


def _refuse_minari(names: list[str], path: Path) -> None:
    if names and all(name.startswith("episode_") for name in names):
        raise UserError(
            "is the inside of a Minari dataset", where=str(path), mend="load it by its name, as 'minari:ID'"
        )


FORMAT = Format(
    summary="HDF5 file under D4RL's names",
    sniff=lambda path: begins(path, len(SIGNATURE)) == SIGNATURE,
    read=read_hdf5,
    write=write_hdf5,
    suffixes=(".hdf5", ".h5"),
    masks=True,
    general=True,
)
