"""Formats of logged data: one file each, and by entry points `calql.formats` those of other packages.

What is particular is asked before what is general: a layout of HDF5 before any HDF5 file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from calql.data.formats import arrow, column_folder, csv, hdf5, lerobot, minari, npz, parquet, rlds, robomimic, zarr
from calql.data.formats.base import Format
from calql.system.registry import Registry


def _own() -> Mapping[str, Format]:
    return {
        "npz": npz.FORMAT,
        "columns": column_folder.FORMAT,
        "robomimic": robomimic.FORMAT,
        "hdf5": hdf5.FORMAT,
        "minari": minari.FORMAT,
        "lerobot": lerobot.FORMAT,
        "rlds": rlds.FORMAT,
        "zarr": zarr.FORMAT,
        "parquet": parquet.FORMAT,
        "arrow": arrow.FORMAT,
        "csv": csv.FORMAT,
    }


FORMATS: Registry[Format] = Registry("format", "calql.formats", Format, _own)


def known_formats() -> Iterator[Format]:
    """All that can be loaded, in the order in which they are asked: one that cannot harms nobody else's."""
    yield from sorted(FORMATS.loadable().values(), key=lambda each: each.general)
