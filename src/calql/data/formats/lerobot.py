"""LeRobot datasets, version 3: a folder of Parquet tables and MP4 videos, described in `meta/`; without torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.arrow_tables import column_values
from calql.data.assemble import assemble
from calql.data.columns import OnProblem, scalar_column, stop
from calql.data.dataset import Dataset, Ints
from calql.data.folders import read_json, require_plain
from calql.data.formats.base import Format
from calql.data.formats.parquet import batches, read_columns
from calql.data.pictures import Packed, decoded
from calql.data.reading import AS_IT_IS, Reading
from calql.data.recording import Column, Recording, Trouble
from calql.data.sources import Canvas, stays
from calql.data.stored import Stored, picked
from calql.data.videos import Clip, frames
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError

INFO = Path("meta", "info.json")
EPISODES = Path("meta", "episodes")
PREFIX = "observation."
CAMERAS = ("image", "video")
AT_ONCE = 64  # pictures that are unpacked at a time
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
PLAIN_KEY = re.compile(r"[\w.-]+")  # names that are a folder's; no path
ROLES = {"action": "action", "reward": "next.reward", "success": "next.success", "terminal": "next.success"}

Arrays = dict[str, NDArray[Any]]


def read_lerobot(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """A step that succeeds is terminal; `next.done` alone does not say whether the task ended or the recording."""
    require_plain(path)
    info = _info(path)
    features = _features(info, path)
    numbers = [name for name, kind in features.items() if kind["dtype"] not in (*CAMERAS, "string", "language")]
    files = sorted((path / "data").glob("*/*.parquet"))
    if not files:
        raise UserError("has no tables in its folder 'data'", where=str(path), mend=AGAIN)
    arrays, order = _tables(files, numbers, features)
    lengths, names, troubles = _episodes(arrays, _described(path, features), path)
    columns = {name: Column.of(values) for name, values in arrays.items()}
    for name in (name for name, kind in features.items() if kind["dtype"] in CAMERAS):
        columns[name] = _camera(path, name, features[name], info, arrays, files, order, troubles, reading)
    roles = {role: name for role, name in ROLES.items() if name in columns}
    time = {"time": "timestamp"} if "timestamp" in columns else {}
    recording = Recording(columns, lengths, {**roles, **time}, {}, PREFIX, names, troubles)
    return assemble(recording, reading, str(path), on_problem)


def _info(path: Path) -> dict[str, Any]:
    info = read_json(path / INFO)
    version = str(info.get("codebase_version", "unknown"))
    if not version.startswith("v3"):
        raise UserError(
            f"is a LeRobot dataset of version {version[:20]}",
            where=str(path),
            mend="convert it to version 3 with LeRobot's own converter",
        )
    return info


def _features(info: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """What each column is; a name that is a path, or a shape that is none, is refused."""
    features = info.get("features")
    if not isinstance(features, dict):
        raise UserError("names no features", where=str(path / INFO), mend=AGAIN)
    for name, kind in features.items():
        shape = kind.get("shape") if isinstance(kind, dict) else None
        sound = isinstance(shape, list) and all(isinstance(side, int) and side > 0 for side in shape)
        if not PLAIN_KEY.fullmatch(name) or ".." in name or not sound or not isinstance(kind.get("dtype"), str):
            raise UserError(
                f"describes a feature '{name[:40]}' that makes no sense", where=str(path / INFO), mend=AGAIN
            )
    return features


def _tables(files: Sequence[Path], names: list[str], features: Mapping[str, Any]) -> tuple[Arrays, Ints]:
    """The columns of numbers of all files, by frame; and the order in which the frames of the files are that."""
    parts = [_table(file, names, features) for file in files]
    shared = [name for name in names if all(name in part for part in parts)]
    if "episode_index" not in shared:
        raise UserError("has no column 'episode_index'", where=str(files[0]), mend=AGAIN)
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in shared}
    order = np.argsort(arrays["index"], kind="stable") if "index" in arrays else np.arange(len(arrays["episode_index"]))
    return {name: values[order] for name, values in arrays.items()}, order


def _table(file: Path, names: list[str], features: Mapping[str, Any]) -> Arrays:
    table = read_columns(file, lambda held: [name for name in names if name in held])
    return {
        name: column_values(table.column(name), name, str(file), features[name]["shape"]) for name in table.column_names
    }


def _described(path: Path, features: Mapping[str, Any]) -> dict[int, dict[str, float]]:
    """Of each episode: its length, and where its videos are."""
    videos = [name for name, kind in features.items() if kind["dtype"] == "video"]
    wanted = ["episode_index", "length"]
    wanted += [f"videos/{name}/{what}" for name in videos for what in ("chunk_index", "file_index", "from_timestamp")]
    found: dict[int, dict[str, float]] = {}
    for file in sorted((path / EPISODES).glob("*/*.parquet")):
        table = read_columns(file, lambda held: [name for name in wanted if name in held])
        columns = {name: _numbers(table, name, file) for name in table.column_names}
        if "episode_index" not in columns:
            raise UserError("has no column 'episode_index'", where=str(file), mend=AGAIN)
        for row, episode in enumerate(columns["episode_index"]):
            found[int(episode)] = {name: float(values[row]) for name, values in columns.items()}
    return found


def _numbers(table: Any, name: str, file: Path) -> NDArray[np.float64]:
    values = scalar_column(column_values(table.column(name), name, str(file)), name, str(file))
    if not np.isfinite(values).all() or (np.abs(values) > 2**53).any():
        raise UserError(f"'{name}' is not a number everywhere", where=str(file), mend=AGAIN)
    return values


def _episodes(
    arrays: Arrays, described: Mapping[int, Mapping[str, float]], path: Path
) -> tuple[Ints, list[str], list[Trouble]]:
    """Rows of each episode, what it is called, and where tables and descriptions disagree."""
    ids = arrays["episode_index"]
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
        raise UserError("'episode_index' is no column of numbers", where=str(path), mend=AGAIN)
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    if len(np.unique(ids)) != len(starts):
        raise UserError("frames of an episode do not lie together", where=str(path), mend="sort them by 'index'")
    lengths = np.diff(np.append(starts, len(ids))).astype(np.int64)
    troubles = []
    for number, (start, rows) in enumerate(zip(starts, lengths, strict=True)):
        said = described.get(int(ids[start]), {}).get("length", rows)
        if said != rows:
            troubles.append(Trouble(number, f"{rows} rows where meta/episodes says {said:g}"))
        frame = arrays.get("frame_index")
        if frame is not None and not np.array_equal(frame[start : start + rows], np.arange(rows)):
            troubles.append(Trouble(number, "frames missing or out of order ('frame_index')"))
    return lengths, [str(ids[start]) for start in starts], troubles


def _camera(
    path: Path,
    name: str,
    kind: Mapping[str, Any],
    info: Mapping[str, Any],
    arrays: Arrays,
    files: Sequence[Path],
    order: Ints,
    troubles: list[Trouble],
    reading: Reading,
) -> Column:
    shape = _picture_shape(name, kind, path)
    about = kind.get("info")
    if isinstance(about, dict) and (about.get("is_depth_map") or about.get("video.is_depth_map")):
        return Column(shape, partial(_no_depth, name, path), image=True)
    if kind["dtype"] == "image":
        return Column(shape, partial(_embedded, files, name, shape, order, reading), image=True)
    return Column(shape, partial(_filmed, path, name, shape, info, arrays, troubles, reading), image=True)


def _no_depth(name: str, path: Path) -> NDArray[Any]:
    raise UserError(f"'{name}' is a depth camera, which cannot be read", where=str(path), mend="choose another")


def _picture_shape(name: str, kind: Mapping[str, Any], path: Path) -> tuple[int, ...]:
    """[row, column, channel], whichever order the description has."""
    shape = tuple(kind["shape"])
    if len(shape) != 3:
        raise UserError(f"'{name}' is a camera of shape {shape}", where=str(path / INFO), mend=AGAIN)
    names = kind.get("names")
    first = str(names[0]) if isinstance(names, list) and names else ""
    return (*shape[1:], shape[0]) if first.startswith("c") or (not first and shape[0] in (1, 3)) else shape


def _embedded(files: Sequence[Path], name: str, shape: tuple[int, ...], order: Ints, reading: Reading) -> Any:
    """Pictures that lie in the tables; a path that stands beside one is not followed."""
    left = stays(len(order) * int(np.prod(shape)), reading)
    require_room(0 if left else len(order) * int(np.prod(shape)), files[0], 2**62)
    packed = (
        [_bytes(value, name, file) for value in values] for file in files for values in batches(file, name, AT_ONCE)
    )
    found: Any = (
        Stored(Packed([picture for part in packed for picture in part], shape, files[0]))
        if left
        else np.concatenate([decoded(part, shape, files[0], 2**62) for part in packed])
    )
    if len(found) != len(order):
        raise UserError(f"'{name}' has {len(found)} rows of {len(order)}", where=str(files[0]), mend=AGAIN)
    return picked(found, order)


def _bytes(value: Any, name: str, file: Path) -> bytes:
    content = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(content, bytes):
        raise UserError(f"'{name}' holds no picture, only a path", where=str(file), mend="embed pictures in the table")
    return content


def _filmed(
    path: Path,
    name: str,
    shape: tuple[int, ...],
    info: Mapping[str, Any],
    arrays: Arrays,
    troubles: list[Trouble],
    reading: Reading,
) -> Any:
    """Pictures of all rows from the videos; an episode that lacks one is a bad one."""
    if info.get("video_path", VIDEO_PATH) != VIDEO_PATH:
        raise UserError("keeps its videos in places of its own", where=str(path / INFO), mend=f"as {VIDEO_PATH}")
    rate = info.get("fps")
    if not isinstance(rate, int | float) or not 0 < rate < 1e6 or "timestamp" not in arrays:
        raise UserError("names no frames a second, or has no 'timestamp'", where=str(path / INFO), mend=AGAIN)
    size = len(arrays["timestamp"]) * int(np.prod(shape))
    left = stays(size, reading)
    require_room(0 if left else size, path, 2**62)
    described = _described(path, {name: {"dtype": "video"}})
    clips, of_row = _clips(path, name, described, arrays)
    canvas = Canvas((len(of_row), *shape), reading) if left else None
    pictures, seen = frames(clips, shape, float(rate), canvas)
    for number in np.unique(of_row[~seen]):
        troubles.append(Trouble(int(number), f"frames missing in the video of '{name}'"))
    return pictures if canvas is None else canvas.column()


def _clips(
    path: Path, name: str, described: Mapping[int, Mapping[str, float]], arrays: Arrays
) -> tuple[list[Clip], Ints]:
    """For each video file, when the picture of which row is shown; and the episode of each row."""
    ids, time = arrays["episode_index"], arrays["timestamp"].astype(np.float64)
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    lengths = np.diff(np.append(starts, len(ids)))
    of_row = np.repeat(np.arange(len(starts)), lengths)
    by_file: dict[Path, list[Ints]] = {}
    for number, start in enumerate(starts):
        said = described.get(int(ids[start]), {})
        try:
            chunk, file, begin = (said[f"videos/{name}/{w}"] for w in ("chunk_index", "file_index", "from_timestamp"))
        except KeyError:
            raise UserError(f"meta/episodes says not where '{name}' is", where=str(path), mend=AGAIN) from None
        rows = np.arange(start, start + lengths[number])
        time[rows] += begin
        place = path / "videos" / name / f"chunk-{int(chunk):03d}" / f"file-{int(file):03d}.mp4"
        by_file.setdefault(place, []).append(rows)
    return [Clip(file, rows := np.concatenate(parts), time[rows]) for file, parts in by_file.items()], of_row


def _sniff(path: Path) -> bool:
    try:
        return (path / INFO).is_file() and b"codebase_version" in (path / INFO).read_bytes()[: 2**20]
    except OSError:
        return False


FORMAT = Format(summary="LeRobot dataset, version 3: a folder", sniff=_sniff, read=read_lerobot)
