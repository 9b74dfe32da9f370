"""Zarr stores (version 2 and 3): a folder with arrays `data/*` and `meta/episode_ends`, or with arrays by name.

What a store says about itself is looked at before the library is asked: only arrays of numbers, packed in ways that
run nothing, and no chunk that unpacks to more than a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.assemble import assemble
from calql.data.columns import OnProblem, scalar_column, stop
from calql.data.dataset import Dataset, Ints
from calql.data.flat import flat_recording, wanted
from calql.data.folders import read_json, require_plain
from calql.data.formats.base import Format
from calql.data.packed_chunks import unpacked_size
from calql.data.reading import AS_IT_IS, Reading
from calql.data.recording import Column, Recording
from calql.data.sources import Sliced, stays
from calql.data.stored import Stored
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError
from calql.system.extras import extra

ENDS = "meta/episode_ends"
DATA = "data/"
MARK = "observed/"  # what could be observed: all data that have no role of their own
NAMED = ("action", "reward", "terminal", "timeout", "success", "time")
UNCLEAR = ("done", "dones")  # of the task or of the recording? the user has to say
PACKED = {"blosc", "zstd", "zlib", "gzip", "lz4"}  # ways of packing that a store may use
PLAIN = {"bytes", "transpose", "crc32c"}  # codecs of version 3 that pack nothing


def read_zarr(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """The layout of diffusion policy's replay buffers, or flat columns with flags or numbers of episodes."""
    size = require_plain(path)
    arrays = {name: _described(place, name) for name, place in _arrays(path)}
    if not arrays:
        raise UserError("holds no arrays", where=str(path), mend=AGAIN)
    load = partial(_load, path, arrays, size, reading)
    if ENDS in arrays:
        return assemble(_replay_buffer(arrays, load, path), reading, str(path), on_problem)
    flat = {name: load(name) for name in wanted(list(arrays), reading, str(path))}
    return assemble(flat_recording(flat, reading, str(path)), reading, str(path), on_problem)


def _replay_buffer(arrays: Mapping[str, dict[str, Any]], load: Any, path: Path) -> Recording:
    ends = scalar_column(load(ENDS), ENDS, str(path)).astype(np.int64)
    names = [name for name in arrays if name.startswith(DATA)]
    rows = int(ends[-1]) if len(ends) else 0
    wrong = [name for name in names if arrays[name]["shape"][:1] != (rows,)]
    if (np.diff(np.append(0, ends)) < 0).any() or wrong or not rows:
        listed = ", ".join(f"'{name}' {arrays[name]['shape'][:1]}" for name in wrong[:6])
        raise UserError(
            f"'{ENDS}' goes to row {rows}, by its last number, and arrays do not ({listed or 'ends fall'})",
            where=str(path),
            mend="write it again",
        )
    columns = {name.removeprefix(DATA): _column(arrays[name], partial(load, name)) for name in names}
    return Recording(_marked(columns), _lengths(ends), _roles(columns), {}, MARK)


def _marked(columns: Mapping[str, Column]) -> dict[str, Column]:
    named = {*_roles(columns).values(), *UNCLEAR}
    return {name if name in named else f"{MARK}{name}": column for name, column in columns.items()}


def _roles(columns: Mapping[str, Column]) -> dict[str, str]:
    return {role: name for role in NAMED for name in (role, f"{role}s") if name in columns}


def _lengths(ends: Ints) -> Ints:
    return np.diff(np.append(0, ends)).astype(np.int64)


def _column(described: Mapping[str, Any], load: Any) -> Column:
    shape = described["shape"][1:]
    image = len(shape) == 3 and shape[-1] in (1, 3)
    return Column(shape, partial(_pictures, load) if image else load, image)


def _pictures(load: Any) -> NDArray[Any]:
    """Colours of 8 bits, also where they were stored as floats."""
    values = load()
    if values.dtype == np.uint8:
        return values
    values = np.asarray(values)
    if values.min() < 0 or values.max() > 255 or (values != np.round(values)).any():
        raise UserError("a camera's pictures are no whole numbers from 0 to 255", mend="store them as uint8")
    return values.astype(np.uint8)


def _arrays(path: Path) -> Iterator[tuple[str, Path]]:
    """Every array below the folder, by its path."""
    for found in sorted((*path.rglob(".zarray"), *path.rglob("zarr.json"))):
        described = read_json(found)
        if found.name == ".zarray" or described.get("node_type") == "array":
            yield found.parent.relative_to(path).as_posix(), found


def _described(place: Path, name: str) -> dict[str, Any]:
    """Shape, chunk and packing of an array; anything that might run code or read elsewhere is refused."""
    said = read_json(place)
    try:
        return _version_2(said, place) if place.name == ".zarray" else _version_3(said, place)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"the description of '{name}' makes no sense", where=str(place), mend=AGAIN) from None


def _version_2(said: Mapping[str, Any], place: Path) -> dict[str, Any]:
    if not isinstance(said["dtype"], str) or np.dtype(said["dtype"]).kind not in "fiub":
        raise _refused(place, f"holds {said['dtype']!r}, not numbers")
    filters = said.get("filters") or []
    packing = (said.get("compressor") or {}).get("id")
    if filters or packing not in (*PACKED, None):
        raise _refused(place, f"is packed with {packing or [f.get('id') for f in filters]}, which is not unpacked")
    return _sound(said["shape"], said["chunks"], np.dtype(said["dtype"]), packing, place)


def _version_3(said: Mapping[str, Any], place: Path) -> dict[str, Any]:
    if not isinstance(said["data_type"], str) or np.dtype(said["data_type"]).kind not in "fiub":
        raise _refused(place, f"holds {said['data_type']!r}, not numbers")
    codecs = [codec["name"] for codec in said["codecs"]]
    strange = [name for name in codecs if name not in PACKED | PLAIN]
    packing = [name for name in codecs if name in PACKED]
    summed = packing and "crc32c" in codecs  # of packed bytes: where those end could not be told
    if strange or len(packing) > 1 or summed or said.get("storage_transformers"):
        raise _refused(place, f"is packed with {', '.join(strange or codecs)}, which is not unpacked")
    chunks = said["chunk_grid"]["configuration"]["chunk_shape"]
    checksum = 4 * codecs.count("crc32c")
    found = _sound(said["shape"], chunks, np.dtype(said["data_type"]), packing[0] if packing else None, place)
    return {**found, "chunk_bytes": found["chunk_bytes"] + checksum}


def _refused(place: Path, what: str) -> UserError:
    ways = ", ".join(sorted(PACKED))
    return UserError(what, where=str(place.parent), mend=f"store plain numbers, packed with {ways} or not at all")


def _sound(shape: Any, chunks: Any, dtype: np.dtype[Any], packing: str | None, place: Path) -> dict[str, Any]:
    sides = [int(side) for side in (*shape, *chunks)]
    if len(shape) != len(chunks) or any(side < 0 for side in sides) or any(int(side) < 1 for side in chunks):
        raise ValueError(shape)
    size = dtype.itemsize * int(np.prod([int(side) for side in chunks], dtype=np.float64))
    total = dtype.itemsize * int(np.prod([int(side) for side in shape], dtype=np.float64))
    return {
        "shape": tuple(int(side) for side in shape),
        "bytes": total,
        "chunk_bytes": size,
        "packing": packing,
        "place": place,
    }


def _load(path: Path, arrays: Mapping[str, dict[str, Any]], size: int, reading: Reading, name: str) -> Any:
    """One array, once it is known that it fits and that none of its chunks is more than a chunk."""
    described = arrays[name]
    left = stays(described["bytes"], reading, numbers=len(described["shape"]) < 2)
    require_room(described["chunk_bytes"] if left else max(described["bytes"], described["chunk_bytes"]), path, size)
    for chunk in described["place"].parent.rglob("*"):
        if chunk.is_file() and chunk.name not in ("zarr.json", ".zarray", ".zattrs"):
            unpacked = unpacked_size(chunk, described["packing"], described["chunk_bytes"])
            if unpacked is None or unpacked > described["chunk_bytes"]:
                raise UserError("is damaged, or unpacks to more than a chunk", where=str(chunk), mend=AGAIN)
    zarr = extra("zarr", "a Zarr store")
    version = 2 if described["place"].name == ".zarray" else 3
    try:
        store = zarr.storage.LocalStore(path, read_only=True)
        array = zarr.open_array(store, path=name, mode="r", zarr_format=version)
        return Stored(Sliced([array], [array.shape[0]], str(path))) if left else np.asarray(array[...])
    except Exception as error:  # whatever the library and its codecs make of damage
        text = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise UserError(f"'{name}' cannot be read ({text})", where=str(path), mend=AGAIN) from None


def _sniff(path: Path) -> bool:
    return path.is_dir() and any((path / name).is_file() for name in (".zgroup", "zarr.json"))


FORMAT = Format(summary="Zarr store: a folder", sniff=_sniff, read=read_zarr, suffixes=(".zarr",), general=True)
