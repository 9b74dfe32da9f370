"""A tiny dataset of every format, as its real writers lay it out; and the same with one thing wrong.

A format that writes needs nothing here: its own writer makes its sample. One that only reads has a line in SAMPLES.
"""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import google_crc32c
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import zarr

from calql.data import Dataset, Reading
from calql.data.formats import FORMATS

Columns = dict[str, Any]
Change = Callable[[Columns], None]  # of the columns of each episode, before they are written


def episodes(data: Dataset, *, closing: bool) -> list[Columns]:
    """Columns of each episode; with `closing`, one row more that holds only the observation after the last step."""
    found = []
    for rows in data.episodes():
        columns: Columns = {
            "observation": data.observations[rows],
            "action": data.actions[rows],
            "reward": data.rewards[rows],
            "next_observation": data.next_observations[rows],
            "terminal": data.terminals[rows],
            "timeout": data.truncated[rows],
        }
        if closing:
            last = columns["next_observation"][-1:]
            columns["observation"] = np.concatenate([columns["observation"], last])
            for name in ("action", "reward", "terminal", "timeout"):
                columns[name] = np.concatenate([columns[name], np.zeros_like(columns[name][:1])])
        found.append(columns)
    return found


def changed(data: Dataset, change: Change | None, *, closing: bool = False) -> list[Columns]:
    found = episodes(data, closing=closing)
    for columns in found[1:2]:
        if change is not None:
            change(columns)
    return found


# Tables


def table_columns(data: Dataset, change: Change | None) -> dict[str, list[Any]]:
    """Scalars as a data logger has them: one column a joint."""
    table: dict[str, list[Any]] = {}
    for number, columns in enumerate(changed(data, change)):
        scalars: Columns = {"run": [f"run-{number}"] * len(data.rewards[: len(columns["reward"])])}
        for name, values in columns.items():
            wide = np.asarray(values)
            if wide.ndim == 2:
                scalars |= {f"{name}_{i}": wide[:, i].tolist() for i in range(wide.shape[1])}
            else:
                scalars[name] = wide.tolist()
        for name, values in scalars.items():
            table.setdefault(name, []).extend(values)
    return table


TABLE = Reading(
    columns=("observation=observation_*", "next_observation=next_observation_*", "action=action_*", "episode=run")
)


def as_csv(data: Dataset, folder: Path, change: Change | None = None) -> Path:
    columns = table_columns(data, change)
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([int(v) if isinstance(v, bool) else v for v in row])
    return folder / "log.csv"


def as_arrow(data: Dataset, folder: Path, change: Change | None = None) -> Path:
    pyarrow.feather.write_feather(
        pa.table(table_columns(data, change)), folder / "log.feather"
    )  # compressed by default
    return folder / "log.feather"


def as_parquet(data: Dataset, folder: Path, change: Change | None = None) -> Path:
    pyarrow.parquet.write_table(pa.table(table_columns(data, change)), folder / "log.parquet")
    return folder / "log.parquet"


# HDF5


def as_robomimic(data: Dataset, folder: Path, change: Change | None = None) -> Path:
    with h5py.File(folder / "demos.hdf5", "w") as file:
        group = file.create_group("data")
        group.attrs["total"] = len(data)
        group.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {}})
        for number, columns in enumerate(changed(data, change)):
            demo = group.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = len(columns["reward"])
            demo["actions"] = columns["action"]
            demo["rewards"] = columns["reward"]
            demo["dones"] = np.append(np.zeros(len(columns["reward"]) - 1, int), 1)  # at every end
            demo["states"] = np.zeros((len(columns["reward"]), 9))
            demo["obs/robot0_eef_pos"] = columns["observation"][:, :1]
            demo["obs/object"] = columns["observation"][:, 1:]
            demo["next_obs/robot0_eef_pos"] = columns["next_observation"][:, :1]
            demo["next_obs/object"] = columns["next_observation"][:, 1:]
        file["mask/train"] = np.array([b"demo_0"])
    return folder / "demos.hdf5"


# LeRobot


def as_lerobot(data: Dataset, folder: Path, change: Change | None = None) -> Path:
    root = folder / "lerobot"
    frames: dict[str, list[Any]] = {}
    described: dict[str, list[Any]] = {}
    for number, columns in enumerate(_with_last_frame(data, change)):
        length = len(columns["reward"])
        first = len(frames.get("index", []))
        rows = {
            "observation.state": np.asarray(columns["observation"]).tolist(),
            "action": np.asarray(columns["action"]).tolist(),
            "next.reward": list(columns["reward"]),
            "next.done": [*([False] * (length - 1)), True],
            "next.success": list(columns["terminal"]),
            "timestamp": (np.arange(length, dtype=np.float32) / 10).tolist(),
            "frame_index": list(range(length)),
            "episode_index": [number] * length,
            "index": list(range(first, first + length)),
            "task_index": [0] * length,
        }
        for name, values in rows.items():
            frames.setdefault(name, []).extend(values)
        about = {
            "episode_index": number, "tasks": ["walk"], "length": length, "data/chunk_index": 0, "data/file_index": 0,
            "dataset_from_index": first, "dataset_to_index": first + length, "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0, "stats/action/mean": [0.0],
        }  # fmt: skip
        for name, value in about.items():
            described.setdefault(name, []).append(value)
    write_lerobot(root, frames, described, data)
    return root


def _with_last_frame(data: Dataset, change: Change | None) -> list[Columns]:
    """A recorder keeps one frame more of an episode that was cut off, and none after a success."""
    found = []
    for long, short in zip(episodes(data, closing=True), episodes(data, closing=False), strict=True):
        found.append(short if short["terminal"][-1] else long)
    for columns in found[1:2]:
        if change is not None:
            change(columns)
    return found


LEROBOT_TYPES = {
    "observation.state": pa.list_(pa.float32()), "action": pa.list_(pa.float32()), "next.reward": pa.float32(),
    "next.done": pa.bool_(), "next.success": pa.bool_(), "timestamp": pa.float32(), "frame_index": pa.int64(),
    "episode_index": pa.int64(), "index": pa.int64(), "task_index": pa.int64(),
}  # fmt: skip


def write_lerobot(
    root: Path, frames: Mapping[str, list[Any]], described: Mapping[str, list[Any]], data: Dataset
) -> None:
    """The folder as LeRobot 0.4 leaves it."""
    shapes = {"observation.state": data.observations.shape[1], "action": data.actions.shape[1]}
    features = {
        name: {
            "dtype": _dtype(kind.value_type if name in shapes else kind),
            "shape": [shapes.get(name, 1)],
            "names": None,
        }
        for name, kind in LEROBOT_TYPES.items()
    }
    info = {
        "codebase_version": "v3.0", "robot_type": "so101_follower", "total_episodes": len(described["length"]),
        "total_frames": len(frames["index"]), "total_tasks": 1, "chunks_size": 1000, "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200, "fps": 10, "splits": {"train": f"0:{len(described['length'])}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4", "features": features,
    }  # fmt: skip
    for part in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / part).mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info, indent=4))
    (root / "meta/stats.json").write_text("{}")
    arrays = {name: pa.array(values, LEROBOT_TYPES.get(name)) for name, values in frames.items()}
    pyarrow.parquet.write_table(pa.table(arrays), root / "data/chunk-000/file-000.parquet", compression="snappy")
    pyarrow.parquet.write_table(pa.table(dict(described)), root / "meta/episodes/chunk-000/file-000.parquet")
    pyarrow.parquet.write_table(pa.table({"task_index": [0], "task": ["walk"]}), root / "meta/tasks.parquet")


def _dtype(kind: Any) -> str:
    return {"float": "float32"}.get(str(kind), str(kind))


# RLDS


@cache
def messages() -> Any:
    """tf.train.Example and what it is made of, by the protobuf library and not by ours."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, int, bool, str]) -> Any:
        made = file.message_type.add(name=name)
        for title, number, kind, repeated, of in fields:
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            made.field.add(name=title, number=number, type=kind, label=label, type_name=of or None)
        return made

    def mapping(name: str, field: str, of: str) -> None:
        entry = field.capitalize() + "Entry"
        made = message(name, (field, 1, kinds.TYPE_MESSAGE, True, f".t.{name}.{entry}"))
        inner = made.nested_type.add(name=entry)
        inner.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
        inner.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=of)
        inner.options.map_entry = True

    message("BytesList", ("value", 1, kinds.TYPE_BYTES, True, ""))
    message("FloatList", ("value", 1, kinds.TYPE_FLOAT, True, ""))
    message("Int64List", ("value", 1, kinds.TYPE_INT64, True, ""))
    parts = (("bytes_list", ".t.BytesList"), ("float_list", ".t.FloatList"), ("int64_list", ".t.Int64List"))
    message("Feature", *((name, i + 1, kinds.TYPE_MESSAGE, False, of) for i, (name, of) in enumerate(parts)))
    mapping("Features", "feature", ".t.Feature")
    message("FeatureList", ("feature", 1, kinds.TYPE_MESSAGE, True, ".t.Feature"))
    mapping("FeatureLists", "list", ".t.FeatureList")
    message("Example", ("features", 1, kinds.TYPE_MESSAGE, False, ".t.Features"))
    message(
        "SequenceExample",
        ("context", 1, kinds.TYPE_MESSAGE, False, ".t.Features"),
        ("feature_lists", 2, kinds.TYPE_MESSAGE, False, ".t.FeatureLists"),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}"))
        for name in ("Example", "SequenceExample", "Feature")
    }


def feature(values: Any) -> Any:
    made = messages()["Feature"]()
    if isinstance(values, list) and values and isinstance(values[0], bytes):
        made.bytes_list.value.extend(values)
        return made
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        made.int64_list.value.extend(array.reshape(-1).astype(int).tolist())
    elif array.dtype.kind == "f":
        made.float_list.value.extend(array.reshape(-1).tolist())
    else:
        made.bytes_list.value.extend([str(v).encode() for v in array.reshape(-1)])
    return made


def example(features: Mapping[str, Any]) -> bytes:
    made = messages()["Example"]()
    for name, values in features.items():
        made.features.feature[name].CopyFrom(feature(values))
    return bytes(made.SerializeToString())


def record(content: bytes) -> bytes:
    """As TFRecord has it, with checksums by another library."""

    def checksum(of: bytes) -> bytes:
        crc = google_crc32c.value(of)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(content))
    return length + checksum(length) + content + checksum(content)


def rlds_steps(columns: Columns) -> dict[str, Any]:
    count = len(columns["reward"])
    terminal = np.zeros(count, bool)
    terminal[-1] = bool(columns["terminal"].any())
    steps: dict[str, Any] = {
        "steps/observation/state": columns["observation"],
        "steps/action": columns["action"],
        "steps/reward": columns["reward"],
        "steps/discount": np.ones(count, np.float32),
        "steps/is_first": np.arange(count) == 0,
        "steps/is_last": np.arange(count) == count - 1,
        "steps/is_terminal": terminal,
        "steps/language_instruction": [b"walk"] * count,
        "episode_id": [b"one"],
    }
    return {name: values for name, values in steps.items() if values is not None}


def rlds_features(data: Dataset) -> dict[str, Any]:
    def tensor(dtype: str, *shape: int) -> dict[str, Any]:
        said = {"dimensions": [str(side) for side in shape]} if shape else {}
        return {"tensor": {"shape": said, "dtype": dtype, "encoding": "none"}}

    def group(features: dict[str, Any]) -> dict[str, Any]:
        return {"featuresDict": {"features": features}}

    step = {
        "observation": group({"state": tensor("float32", data.observations.shape[1])}),
        "action": tensor("float32", data.actions.shape[1]),
        "reward": tensor("float32"),
        "discount": tensor("float32"),
        **{name: tensor("bool") for name in ("is_first", "is_last", "is_terminal")},
        "language_instruction": {"text": {}},
    }
    return group({"steps": {"sequence": {"feature": group(step)}}, "episode_id": {"text": {}}})


def as_rlds(data: Dataset, folder: Path, change: Change | None = None) -> Path:
    root = folder / "walks" / "1.0.0"
    root.mkdir(parents=True)
    all_of_them = [record(example(rlds_steps(c))) for c in changed(data, change, closing=True)]
    half = len(all_of_them) // 2
    (root / "walks-train.tfrecord-00000-of-00002").write_bytes(b"".join(all_of_them[:half]))
    (root / "walks-train.tfrecord-00001-of-00002").write_bytes(b"".join(all_of_them[half:]))
    (root / "features.json").write_text(json.dumps(rlds_features(data)))
    shards = [str(half), str(len(all_of_them) - half)]
    (root / "dataset_info.json").write_text(json.dumps({"splits": [{"name": "train", "shardLengths": shards}]}))
    return root


# Zarr


def as_zarr(data: Dataset, folder: Path, change: Change | None = None, version: int = 2) -> Path:
    found = _with_last_frame(data, change)
    group = zarr.open_group(folder / "replay.zarr", mode="w", zarr_format=version)
    names = {"state": "observation", "action": "action", "reward": "reward", "terminal": "terminal"}
    for name, of in names.items():
        parts = [np.asarray(c[of]) for c in found if of in c]
        if len(parts) == len(found):
            values = np.concatenate(parts)
            values = values if values.dtype.kind in "fiub" else values.astype(str)
            group.create_array(f"data/{name}", data=values, chunks=(40, *values.shape[1:]))
    ends = np.cumsum([len(c["reward"]) for c in found])
    group.create_array("meta/episode_ends", data=ends.astype(np.int64))
    return folder / "replay.zarr"


@dataclass(frozen=True)
class Sample:
    """How a tiny dataset of a format is made, and how it has to be read."""

    write: Callable[..., Path]
    reading: Reading = Reading()
    after_terminal: bool = True  # the observation after a terminal step is stored
    sees_cuts: bool = True  # a file that was cut off is known as such


SAMPLES: dict[str, Sample] = {
    "csv": Sample(as_csv, TABLE, sees_cuts=False),
    "arrow": Sample(as_arrow, TABLE),
    "robomimic": Sample(as_robomimic, Reading(observations=("robot0_eef_pos", "object"))),
    "lerobot": Sample(as_lerobot, after_terminal=False),
    "rlds": Sample(as_rlds),
    "zarr": Sample(as_zarr, after_terminal=False),
}


def written(name: str) -> Sample:
    """By the format's own writer."""

    def write(data: Dataset, folder: Path) -> Path:
        form = FORMATS[name]
        assert form.write is not None
        if name == "minari":  # writes to its store by name; its folder is read like anybody's
            form.write(data, Path("minari:tests/walks-v0"))
            return folder / "store" / "tests" / "walks-v0"
        form.write(data, folder / f"walks{form.suffixes[0]}")
        return folder / f"walks{form.suffixes[0]}"

    return Sample(write)


def sample(name: str) -> Sample:
    if name in SAMPLES:
        return SAMPLES[name]
    assert FORMATS[name].write is not None, f"{name} has no writer: give it a line in SAMPLES"
    return written(name)
