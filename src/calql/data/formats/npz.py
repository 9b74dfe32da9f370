"""Arrays of a plain `.npz` archive; pickled objects are never loaded."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from calql.data.assemble import assemble
from calql.data.columns import KNOWN, OnProblem, require_keys, stop
from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Dataset
from calql.data.flat import flat_recording, group_of, wanted
from calql.data.formats.base import Format, begins
from calql.data.reading import AS_IT_IS, Reading
from calql.data.sources import stays, unpacked
from calql.data.write import write_npz
from calql.system.archives import AGAIN, DAMAGE, Elsewhere, read_archive
from calql.system.errors import UserError

SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")  # of a ZIP archive, and of an empty one
OTHERS = (".zgroup", "zarr.json")  # what a zipped Zarr store holds


def read_npz(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """A dataset under D4RL's key names, by D4RL's rules; with columns of the user's choice, as a table.

    Arrays `observations/NAME` are the parts of dictionary observations.
    """
    if not reading.chooses and not group_of(_names(path)):
        return from_d4rl_arrays(read_npz_arrays(path, KNOWN, reading), str(path), on_problem=on_problem)
    _require_archive(path)
    arrays = read_archive(path, lambda names: wanted(names, reading, str(path)), elsewhere=_elsewhere(reading))
    return assemble(flat_recording(arrays, reading, str(path)), reading, str(path), on_problem)


def read_npz_arrays(
    path: Path, keys: Collection[str] | None = None, reading: Reading = AS_IT_IS
) -> dict[str, NDArray[Any]]:
    """The named arrays (all of them without names); with names, the required ones must be there."""
    _require_archive(path)

    def chosen(names: list[str]) -> list[str]:
        if keys is not None:
            require_keys(names, str(path))
        return [name for name in names if keys is None or name in keys]

    return read_archive(path, chosen, elsewhere=_elsewhere(reading))


def _elsewhere(reading: Reading) -> Elsewhere | None:
    """Large arrays are unpacked to the disk where there is a folder for it."""
    if reading.scratch is None:
        return None
    return lambda size, content: cast(Any, unpacked(content, reading)) if stays(size, reading) else None


def _names(path: Path) -> list[str]:
    """Of the arrays; none where the archive is damaged, which whoever reads it tells."""
    with contextlib.suppress(*DAMAGE), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]
    return []


def _require_archive(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        raise UserError("is not a whole .npz archive", where=str(path), mend=AGAIN)
    with contextlib.suppress(*DAMAGE), zipfile.ZipFile(path) as archive:  # whoever reads it tells of damage
        if any(name.rpartition("/")[2] in OTHERS for name in archive.namelist()):
            raise UserError("is a Zarr store in a ZIP archive", where=str(path), mend="unpack it and name the folder")


FORMAT = Format(
    summary="NumPy archive (.npz) under D4RL's names",
    sniff=lambda path: begins(path, 4) in SIGNATURES,
    read=read_npz,
    write=write_npz,
    suffixes=(".npz",),
    masks=True,
    general=True,
)
