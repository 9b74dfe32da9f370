"""Formats of logged data: one file each, and by entry points `calql.formats` those of other packages.

Where two know a file, the first does: what is particular stands before what is general.
"""

from __future__ import annotations

from collections.abc import Mapping

from calql.data.formats import arrow, csv, hdf5, lerobot, minari, npz, parquet, rlds, robomimic, zarr
from calql.data.formats.base import Format
from calql.system.registry import Registry


def _own() -> Mapping[str, Format]:
    return {
        "npz": npz.FORMAT,
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
