"""A folder of columns, each one .npy file: what training reads from disk as it goes.

`frames.npy` holds observations once: those of an episode in their order, then the observation after its last step. Row
and next observation are neighbours in it, so that an image lies on the disk once and both are one read.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import uuid4

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calql.data.columns import OnProblem, check_finite, flag_column, stop
from calql.data.dataset import MASKS, Bools, Dataset, Ints, Part
from calql.data.findings import row_sums
from calql.data.flat import wanted
from calql.data.folders import read_json, require_plain
from calql.data.formats.base import Format
from calql.data.npy_rows import NpyRows
from calql.data.reading import AS_IT_IS, Reading
from calql.data.reward_map import is_function
from calql.data.stored import Stored
from calql.system.archives import AGAIN
from calql.system.errors import UserError
from calql.system.layout import Layout
from calql.system.walk import chunks

ABOUT = "columns.json"
KIND, VERSION = "calql columns", 1
FRAMES, APART = "frames", "next_apart"  # observations; [row]: whether the next one is a frame of its own
SMALL = {"actions": "fi", "rewards": "f", "terminals": "b", "truncated": "b"}  # and the kind of their numbers


def write_columns(dataset: Dataset, path: Path) -> Path:
    """Chunk by chunk, so that no more of a stored dataset is in memory; there whole or not at all."""
    with _whole_folder(path) as folder:
        with (folder / f"{FRAMES}.npy").open("xb") as file:
            apart, facts = _write_frames(dataset, file)
        columns: dict[str, Any] = {name: getattr(dataset, name) for name in SMALL}
        for name, column in (columns | dataset.masks | {APART: apart}).items():
            np.save(folder / f"{name}.npy", column)
        about = {
            "format": KIND,
            "version": VERSION,
            "rows": len(dataset),
            "episodes": len(dataset.episode_ends),
            "masks": list(dataset.masks),
            "parts": [list(part) for part in dataset.parts],
            "camera": dataset.camera,
            "layout": None if dataset.layout is None else dataset.layout.in_words(),
            "source": dataset.source,
            "notes": list(dataset.notes),
            "facts": facts,
        }
        (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    return path


def _write_frames(dataset: Dataset, file: BinaryIO) -> tuple[Bools, dict[str, Any]]:
    """Every observation, and the next one behind it where the following row's is not the same to the bit."""
    seen, after = dataset.observations, dataset.next_observations
    apart, sums = np.zeros(len(dataset), np.bool_), np.zeros(len(dataset), np.uint64)
    crc, frames = 0, 0
    _header(file, (0, *seen.shape[1:]), seen.dtype)
    for rows in chunks(seen):
        now = np.ascontiguousarray(seen[rows.start : min(rows.stop + 1, len(seen))])
        following, here = np.ascontiguousarray(after[rows]), now[: rows.stop - rows.start]
        apart[rows] = _differ(following, now[1:])
        sums[rows] = row_sums(here, dataset.actions[rows], dataset.rewards[rows])
        crc = zlib.crc32(here.data, crc)
        made = _interleaved(here, following, apart[rows])
        file.write(made.data)
        frames += len(made)
    file.seek(0)
    _header(file, (frames, *seen.shape[1:]), seen.dtype)  # of the same length: NumPy leaves room for the number
    return apart, {"crc32": crc, "repeated_rows": len(sums) - len(np.unique(sums))}


def _header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})


def _differ(after: NDArray[Any], following: NDArray[Any]) -> Bools:
    """[row]: whether the two are not the same bytes; also where nothing follows."""
    found = np.ones(len(after), np.bool_)
    count = len(following)
    one, other = (np.ascontiguousarray(a).reshape(count, -1).view(np.uint8) for a in (after[:count], following))
    found[:count] = (one != other).any(axis=1)
    return found


def _interleaved(seen: NDArray[Any], after: NDArray[Any], apart: Bools) -> NDArray[Any]:
    places = np.arange(len(seen)) + np.cumsum(apart) - apart
    made = np.empty((len(seen) + int(apart.sum()), *seen.shape[1:]), seen.dtype)
    made[places] = seen
    made[places[apart] + 1] = after[apart]
    return made


@contextmanager
def _whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write into. It takes its name when it is complete; an error leaves nothing of it."""
    aside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        aside.mkdir(parents=True)
        yield aside
        for file in aside.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        os.replace(aside, path)
    except OSError as error:
        told = f"cannot be written ({error.strerror or error})"
        raise UserError(told, where=str(path), mend="free some space or choose another folder") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def read_columns(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """Observations stay in their file; everything else is small and comes into memory."""
    require_plain(path)
    about = read_json(path / ABOUT)
    if about.get("version") != VERSION:
        raise UserError(f"is of version {str(about.get('version'))[:20]}", where=str(path), mend="update calql")
    _refuse_choices(reading, path)
    masks = [name for name in MASKS if name in _listed(about, "masks", path)]
    small = {name: _array(path, name) for name in (*SMALL, APART, *masks)}
    places = _places(small, path)
    frames = NpyRows(path / f"{FRAMES}.npy")
    _require_sound(small, frames, places, path)
    facts = about.get("facts") if isinstance(about.get("facts"), dict) else {}
    seen, after = Stored(frames, places, cast(dict[str, Any], facts)), Stored(frames, places + 1)
    for name, column in (("observations", seen), ("actions", small["actions"]), ("rewards", small["rewards"])):
        check_finite(column, name, str(path), on_problem)
    layout = _layout(about, frames, path)
    terminals, truncated = (flag_column(small[name], name, str(path)) for name in ("terminals", "truncated"))
    return Dataset(
        cast(Any, seen), small["actions"], small["rewards"], cast(Any, after), terminals, truncated,
        source=str(path), notes=tuple(map(str, _listed(about, "notes", path))), parts=_parts(about, path),
        layout=layout, camera=str(about.get("camera", "")),
        **{name: _flags(small[name], name, path) for name in masks},
    )  # fmt: skip


def _flags(values: NDArray[Any], name: str, path: Path) -> Any:
    if values.dtype != np.bool_ or values.ndim != 2:
        raise UserError(f"'{name}' is {values.dtype} {values.shape}", where=str(path), mend=AGAIN)
    return values


def _refuse_choices(reading: Reading, path: Path) -> None:
    """What is a column was decided when the folder was written; a function may still give rewards."""
    if not (reading.columns or reading.observations or (reading.reward and not is_function(reading.reward))):
        return
    wanted(["observations", "next_observations", *SMALL], reading, str(path))
    raise UserError(
        "has had its columns chosen when it was written", where=str(path),
        mend="say so to calql data convert, of the data that it was made from",
    )  # fmt: skip


def _array(path: Path, name: str) -> NDArray[Any]:
    return np.asarray(Stored(NpyRows(path / f"{name}.npy")))


def _places(small: Mapping[str, NDArray[Any]], path: Path) -> Ints:
    """The frame of each row: one further for every next observation before it that has a frame of its own."""
    apart = flag_column(small[APART], APART, str(path))
    if not apart[-1]:
        raise UserError(f"'{APART}' gives the last row no next observation", where=str(path), mend=AGAIN)
    return np.arange(len(apart)) + np.cumsum(apart) - apart


def _require_sound(small: Mapping[str, NDArray[Any]], frames: NpyRows, places: Ints, path: Path) -> None:
    wrong = [name for name, column in small.items() if len(column) != len(places)]
    strange = [name for name, kinds in SMALL.items() if small[name].dtype.kind not in kinds]
    if small["rewards"].ndim != 1 or small["actions"].dtype not in (np.float32, np.int64):
        strange.append("rewards or actions")
    if small["actions"].ndim != (2 if small["actions"].dtype == np.float32 else 1):
        strange.append("actions")
    if frames.dtype not in (np.float32, np.uint8) or len(frames.shape) < 2:
        strange.append(FRAMES)
    if wrong or strange or frames.shape[0] != int(places[-1]) + 2:
        listed = ", ".join(f"'{name}'" for name in (*wrong, *strange)) or f"'{FRAMES}'"
        raise UserError(f"{listed} does not go with the rest", where=str(path), mend=AGAIN)


def _listed(about: Mapping[str, Any], name: str, path: Path) -> list[Any]:
    found = about.get(name, [])
    if not isinstance(found, list):
        raise UserError(f"'{name}' is no list", where=str(path / ABOUT), mend=AGAIN)
    return found


def _parts(about: Mapping[str, Any], path: Path) -> tuple[Part, ...]:
    try:
        return tuple(Part(str(name), int(first), int(last)) for name, first, last in _listed(about, "parts", path))
    except (TypeError, ValueError):
        raise UserError("'parts' makes no sense", where=str(path / ABOUT), mend=AGAIN) from None


def _layout(about: Mapping[str, Any], frames: NpyRows, path: Path) -> Layout | None:
    """Of rows that are packed from cameras and vectors."""
    found = about.get("layout")
    if found is None:
        return None
    try:
        layout = Layout.from_words(found)
    except (KeyError, TypeError, ValueError):
        raise UserError("'layout' makes no sense", where=str(path / ABOUT), mend=AGAIN) from None
    if (frames.shape[1:], str(frames.dtype)) != (layout.row_shape, layout.row_dtype):
        raise UserError(f"'{FRAMES}' has other rows than 'layout' says", where=str(path), mend=AGAIN)
    return layout


def _sniff(path: Path) -> bool:
    try:
        return f'"{KIND}"' in (path / ABOUT).read_text("utf-8")[:200]
    except (OSError, ValueError):
        return False


FORMAT = Format(
    summary="folder of columns for data larger than memory",
    sniff=_sniff,
    read=read_columns,
    write=write_columns,
    suffixes=(".columns",),
    masks=True,
)
