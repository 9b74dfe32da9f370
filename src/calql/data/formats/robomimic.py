"""robomimic's HDF5: every demonstration is a group `data/demo_N` with a dictionary of observations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from calql.data.assemble import assemble
from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset
from calql.data.formats.base import Format
from calql.data.formats.hdf5 import DAMAGE, opened, own_array, own_group
from calql.data.reading import AS_IT_IS, Reading
from calql.data.recording import Column, Recording, is_image, joined
from calql.data.sources import Sliced, stays
from calql.data.stored import Stored
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError

DEMO = re.compile(r"demo_?(\d+)")
OBSERVED, FOLLOWING = "obs", "next_obs"
DONE = "dones"
SUCCESS = "done with a reward"

Nodes = dict[str, h5py.Dataset]  # the arrays of one demonstration


def read_robomimic(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """A step is terminal where it is done and earns a reward: `dones` are also set where recordings just stop."""
    with opened(path, keep=reading.scratch is not None) as file:
        demos = own_group(file, "data", path)
        names = sorted((name for name in demos if DEMO.fullmatch(name)), key=_number)
        if not names:
            raise UserError("its group 'data' holds no demonstration", where=str(path), mend=AGAIN)
        nodes = [_arrays(own_group(demos, name, path), path) for name in names]
        return assemble(_recording(nodes, names, path, reading), reading, str(path), on_problem)


def _recording(nodes: Sequence[Nodes], names: Sequence[str], path: Path, reading: Reading) -> Recording:
    shared = [name for name in nodes[0] if all(name in each for each in nodes) and nodes[0][name].ndim > 0]
    lengths, troubles = joined([{name: len(each[name]) for name in shared} for each in nodes])
    columns = {name: _column(nodes, name, lengths, path, reading) for name in shared}
    following = {
        name.replace(FOLLOWING, OBSERVED, 1): column
        for name, column in columns.items()
        if name.startswith(f"{FOLLOWING}/")
    }
    columns = {name: column for name, column in columns.items() if not name.startswith(f"{FOLLOWING}/")}
    roles: dict[str, str] = {}
    if DONE in columns and "rewards" in columns:
        columns[SUCCESS] = Column((), _successes(columns))
        roles["terminal"] = SUCCESS
    return Recording(columns, lengths, roles, following, f"{OBSERVED}/", names, troubles)


def _successes(columns: Mapping[str, Column]) -> Any:
    done, reward = columns[DONE].load, columns["rewards"].load
    return lambda: (done() != 0) & (reward() > 0)


def _arrays(demo: h5py.Group, path: Path) -> Nodes:
    """Its arrays by name, observations with their group; what it points to elsewhere is refused."""
    found: Nodes = {}
    for name in demo:
        if name in (OBSERVED, FOLLOWING):
            inner = own_group(demo, name, path)
            found |= {f"{name}/{part}": own_array(inner, part, path) for part in inner if _is_array(inner, part)}
        elif _is_array(demo, name):
            found[name] = own_array(demo, name, path)
    if "actions" not in found:
        raise UserError(f"'{demo.name}' has no 'actions'", where=str(path), mend="every demonstration needs them")
    return found


def _is_array(group: h5py.Group, name: str) -> bool:
    """Links count, so that they are refused by name."""
    hard = isinstance(group.get(name, getlink=True), h5py.HardLink)
    return not hard or group.get(name, getclass=True) is h5py.Dataset


def _column(nodes: Sequence[Nodes], name: str, lengths: NDArray[np.int64], path: Path, reading: Reading) -> Column:
    first = nodes[0][name]

    def load() -> Any:
        size = sum(int(each[name].nbytes) for each in nodes)
        require_room(0 if stays(size, reading, numbers=first.ndim < 2) else size, path)
        other = [each[name].shape[1:] for each in nodes if each[name].shape[1:] != first.shape[1:]]
        if other:
            raise UserError(
                f"'{name}' has shape {first.shape[1:]} in one demonstration and {other[0]} in another",
                where=str(path),
                mend="choose other observations",
            )
        if stays(size, reading, numbers=first.ndim < 2):
            return Stored(Sliced([each[name] for each in nodes], lengths.tolist(), str(path)))
        return np.concatenate([each[name][:rows] for each, rows in zip(nodes, lengths, strict=True)])

    return Column(tuple(first.shape[1:]), load, is_image(first.dtype, tuple(first.shape[1:])))


def _number(name: str) -> int:
    return int(name.removeprefix("demo").removeprefix("_"))


def _sniff(path: Path) -> bool:
    if not h5py.is_hdf5(path):
        return False
    try:
        with h5py.File(path, "r") as file:
            if not isinstance(file.get("data", getlink=True), h5py.HardLink):
                return False
            return any(DEMO.fullmatch(name) for name in file["data"])
    except DAMAGE:
        return False


FORMAT = Format(summary="robomimic HDF5 file: demonstrations as groups", sniff=_sniff, read=read_robomimic)
