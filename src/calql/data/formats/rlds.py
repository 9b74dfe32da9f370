"""RLDS episodes in TFRecord files: a file, or a folder of shards with TFDS's `features.json`; without TensorFlow.

An episode is one record with a dictionary of `steps`. Its last step holds only the observation after the last action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calql.data.assemble import assemble
from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset
from calql.data.folders import read_json, require_plain
from calql.data.formats.base import Format, begins
from calql.data.pictures import Packed, decoded, picture_shape
from calql.data.reading import AS_IT_IS, Reading
from calql.data.recording import Column, Recording, Trouble
from calql.data.sources import stays
from calql.data.stored import Stored
from calql.data.tfrecord import HEADER, Malformed, Values, begins_with_record, parse_example, records
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError

FEATURES, INFO = "features.json", "dataset_info.json"
STEPS = "steps/"
LARGEST = 8  # bytes in memory for each in the file: a flag takes one there
PICTURES = (b"\x89PNG", b"\xff\xd8\xff")  # how PNG and JPEG begin
FLAGS = ("is_first", "is_last", "is_terminal")
LAST_REWARD = (
    "only the last step of an episode has a reward that is not 0, where by RLDS's definition it means nothing: "
    "say --reward end"
)


@dataclass(frozen=True)
class Kind:
    """What features.json says of one feature of a step."""

    shape: tuple[int, ...] | None = None  # None: as many numbers as there are
    image: bool = False


def read_rlds(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """All shards of a folder in the order of their names, or one file."""
    files, kinds = _shards(path)
    lengths = _shard_lengths(path / INFO) if path.is_dir() else {}
    packed = sum(file.stat().st_size for file in files)
    require_room(LARGEST * packed, path, packed)
    episodes = [_steps(content, path) for file in files for content in _whole(file, lengths)]
    recording = _recording(episodes, kinds, path, packed, reading)
    return assemble(_with_note(recording, episodes), reading, str(path), on_problem)


def _shards(path: Path) -> tuple[list[Path], dict[str, Kind] | None]:
    if path.is_file():
        described = path.parent / FEATURES
        known = described.is_file() and not described.is_symlink()
        return [path], _kinds(read_json(described)) if known else None
    require_plain(path)
    files = sorted(file for file in path.iterdir() if ".tfrecord" in file.name and file.is_file())
    if not files:
        raise UserError("holds no TFRecord file", where=str(path), mend="name the folder of one version of a dataset")
    return files, _kinds(read_json(path / FEATURES)) if (path / FEATURES).is_file() else None


def _whole(file: Path, lengths: Mapping[str, int]) -> list[bytes]:
    """The records of a shard, as many as its dataset says."""
    found = list(records(file))
    said = next((count for end, count in lengths.items() if file.name.endswith(end)), None)
    if not found or len(found) != (len(found) if said is None else said):
        more = "" if said is None else f" where {INFO} says {said}"
        raise UserError(f"holds {len(found)} records{more}", where=str(file), mend=AGAIN)
    return found


def _shard_lengths(path: Path) -> dict[str, int]:
    """How many records each shard has, by the end of its name, where the dataset says so."""
    if not path.is_file():
        return {}
    splits = read_json(path).get("splits", [])
    found: dict[str, int] = {}
    try:
        for split in splits:
            lengths = [int(length) for length in split["shardLengths"]]
            ends = (f"-{split['name']}.tfrecord-{i:05d}-of-{len(lengths):05d}" for i in range(len(lengths)))
            found |= dict(zip(ends, lengths, strict=True))
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
    return found


def _kinds(described: Mapping[str, Any]) -> dict[str, Kind]:
    """The features of a step by their path, as TFDS describes them."""
    found: dict[str, Kind] = {}
    try:
        steps = described["featuresDict"]["features"]["steps"]["sequence"]["feature"]
        waiting = [("", steps, 0)]
        while waiting:
            name, feature, depth = waiting.pop()
            if "featuresDict" in feature and depth < 8:
                inner = feature["featuresDict"]["features"]
                waiting += [(f"{name}/{key}" if name else key, value, depth + 1) for key, value in inner.items()]
            else:
                found[name] = _kind(feature)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UserError("does not describe episodes of steps", where=FEATURES, mend="is it an RLDS dataset?") from None
    return found


def _kind(feature: Mapping[str, Any]) -> Kind:
    said = feature.get("image") or feature.get("tensor") or {}
    if str(said.get("encoding", "none")).lower() not in ("none", "") and "image" not in feature:
        return Kind(shape=(-1,))  # packed in a way of its own
    sides = [int(side) for side in said.get("shape", {}).get("dimensions", [])]
    shape = tuple(sides) if all(side > 0 for side in sides) else None
    return Kind(shape, image="image" in feature)


def _steps(content: bytes, path: Path) -> dict[str, Values | list[Values]]:
    """The columns of one episode."""
    try:
        features, lists = parse_example(content)
    except Malformed as error:
        raise UserError(f"holds a record that is no example ({error})", where=str(path), mend=AGAIN) from None
    if lists:
        return dict(lists)
    steps: dict[str, Values | list[Values]] = {
        key.removeprefix(STEPS): value for key, value in features.items() if key.startswith(STEPS)
    }
    if not steps:
        raise UserError(
            f"its records have no 'steps' ({', '.join(list(features)[:8])})",
            where=str(path),
            mend="only RLDS episodes can be read",
        )
    return steps


def _recording(
    episodes: list[dict[str, Any]], kinds: dict[str, Kind] | None, path: Path, packed: int, reading: Reading
) -> Recording:
    counts = [_count(episode, path) for episode in episodes]
    names = [name for name in episodes[0] if all(name in episode for episode in episodes)]
    columns: dict[str, Column] = {}
    following: dict[str, Column] = {}
    troubles: list[Trouble] = []
    lengths = np.asarray([max(count - 1, 0) for count in counts], np.int64)
    for name in sorted(names):
        column = _Feature(name, episodes, counts, (kinds or {}).get(name, Kind()), path, packed, reading)
        if not column.usable:
            continue
        troubles += column.troubles
        columns[name] = Column(column.shape, partial(column.load, 0), column.image)
        following[name] = Column(column.shape, partial(column.load, 1), column.image)
    return Recording(
        {**columns, **_flags(following)},
        lengths,
        {"terminal": "ends"} if "is_terminal" in columns else {},
        following,
        "observation/" if any(name.startswith("observation/") for name in columns) else "",
        troubles=tuple(dict.fromkeys(troubles)),
    )


def _flags(following: Mapping[str, Column]) -> dict[str, Column]:
    """A step is terminal where the one after it is the last and says so."""
    return {"ends": following["is_terminal"]} if "is_terminal" in following else {}


def _count(episode: Mapping[str, Any], path: Path) -> int:
    """How many steps it has: one flag or number each."""
    for name in (*FLAGS, "reward", "discount"):
        if name in episode:
            return len(episode[name])
    raise UserError("its steps have none of is_first, is_last, reward", where=str(path), mend="only RLDS can be read")


class _Feature:
    """One feature of all steps of all episodes."""

    def __init__(
        self,
        name: str,
        episodes: list[dict[str, Any]],
        counts: list[int],
        kind: Kind,
        path: Path,
        packed: int,
        reading: Reading,
    ) -> None:
        self.name, self.counts, self.path, self.packed, self.reading = name, counts, path, packed, reading
        self.values = [_flat(episode[name]) for episode in episodes]
        first = self.values[0]
        encoded = isinstance(first, list)
        self.image = encoded and (kind.image or (len(first) > 0 and first[0].startswith(PICTURES)))
        self.usable = (not encoded or self.image) and kind.shape != (-1,) and counts[0] > 0
        self.shape: tuple[int, ...] = ()
        if self.usable:
            self.shape = kind.shape or self._guess(first)
        each = 1 if self.image else int(np.prod(self.shape))
        self.troubles = [
            Trouble(episode, f"columns of different lengths ('{name}' {len(values) // max(each, 1)}, steps {count})")
            for episode, (values, count) in enumerate(zip(self.values, counts, strict=True))
            if self.usable and len(values) != count * each
        ]
        self.bad = {trouble.episode for trouble in self.troubles}

    def _guess(self, first: Any) -> tuple[int, ...]:
        if self.image:
            return picture_shape(first[0], str(self.path))
        each = len(first) // self.counts[0]
        return () if each == 1 else (each,)

    def load(self, later: int) -> Any:
        """The rows of all steps but the last of each episode, or of all but the first."""
        if self.image:
            pictures = [p for e, values in enumerate(self.values) for p in self._part(e, values, later)]
            if stays(len(pictures) * int(np.prod(self.shape)), self.reading):
                return Stored(Packed(pictures, self.shape, self.path))
            return decoded(pictures, self.shape, self.path, self.packed)
        pieces = [self._part(e, values, later) for e, values in enumerate(self.values)]
        return np.concatenate(pieces)

    def _part(self, episode: int, values: Any, later: int) -> Any:
        """Of an episode with too few values, nothing is made up: its last value stands for what is missing."""
        count = self.counts[episode]
        rows = values if self.image else np.asarray(values)
        if episode in self.bad:
            rows = _fitted(rows, count, self.shape, self.image)
        if not self.image:
            rows = rows.reshape(count, *self.shape)
        return rows[later : count - 1 + later] if count > 1 else rows[:0]


def _fitted(values: Any, count: int, shape: tuple[int, ...], image: bool) -> Any:
    """As many values as there are steps; the episode is bad, and whoever trains is told so."""
    if image:
        return [*values, *([values[-1]] * count)][:count] if len(values) else []
    return np.resize(values, count * int(np.prod(shape))) if len(values) else np.zeros(count * int(np.prod(shape)))


def _flat(values: Any) -> Any:
    """The values of one feature; those of a SequenceExample come as a list a step."""
    if isinstance(values, list) and values and not isinstance(values[0], bytes):
        inner = [_flat(value) for value in values]
        return [v for each in inner for v in each] if isinstance(inner[0], list) else np.concatenate(inner)
    return values


def _with_note(recording: Recording, episodes: list[dict[str, Any]]) -> Recording:
    rewards = [np.asarray(_flat(episode["reward"])) for episode in episodes if "reward" in episode]
    rewards = [each for each in rewards if each.dtype.kind in "fi"]
    lasting = any(r[-1] != 0 for r in rewards if len(r)) and not any((r[:-1] != 0).any() for r in rewards)
    return replace(recording, notes=(*recording.notes, LAST_REWARD)) if lasting else recording


def _sniff(path: Path) -> bool:
    try:
        files = [file for file in path.iterdir() if ".tfrecord" in file.name] if path.is_dir() else [path]
    except OSError:
        return False
    described = path.is_dir() and (path / FEATURES).is_file()
    return any(described or begins_with_record(begins(file, HEADER)) for file in files)


FORMAT = Format(
    summary="RLDS episodes in TFRecord files", sniff=_sniff, read=read_rlds, suffixes=(".tfrecord", ".tfrecords")
)
