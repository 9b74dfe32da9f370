"""Pictures of one camera: from videos and tables of LeRobot, from RLDS, robomimic and Zarr; and what is refused."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import gymnasium
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr
from format_samples import as_lerobot, as_robomimic, episodes, example, record, rlds_steps
from PIL import Image

import corridor
from calql.data import Dataset, Reading, load, sources, write
from calql.data import check as check_env
from calql.data.findings import episode_faults
from calql.system.errors import UserError

SIZE = (16, 24, 3)
FRONT = "observation.images.front"


@pytest.fixture(scope="module")
def walks() -> Dataset:
    return corridor.demonstrations(4)


def picture(row: int) -> np.ndarray:
    """One colour a row, so that a lossy codec keeps it nearly."""
    return np.full(SIZE, (3 * row % 256, 128, 255 - 3 * row % 256), np.uint8)


def film(path: Path, count: int) -> None:
    path.parent.mkdir(parents=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = SIZE[1], SIZE[0], "yuv444p"
        for row in range(count):
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture(row), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def png(row: int) -> bytes:
    made = io.BytesIO()
    Image.fromarray(picture(row)).save(made, "PNG")
    return made.getvalue()


def with_camera(root: Path, dtype: str, shape: list[int], names: list[str]) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][FRONT] = {"dtype": dtype, "shape": shape, "names": names}
    (root / "meta/info.json").write_text(json.dumps(info))


def filmed(walks: Dataset, folder: Path, missing: int = 0) -> Path:
    """All episodes one after the other in one film, as LeRobot keeps them."""
    root = as_lerobot(walks, folder)
    with_camera(root, "video", [SIZE[2], *SIZE[:2]], ["channels", "height", "width"])
    film(root / "videos" / FRONT / "chunk-000" / "file-000.mp4", len(walks) - missing)
    file = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pyarrow.parquet.read_table(file)
    begins = walks.episode_starts / 10
    for name, values in {"chunk_index": [0] * 4, "file_index": [0] * 4, "from_timestamp": begins}.items():
        table = table.append_column(f"videos/{FRONT}/{name}", pa.array(values))
    pyarrow.parquet.write_table(table, file)
    return root


def check(data: Dataset, walks: Dataset, tolerance: int) -> None:
    """The picture of each row, and of the row after it."""
    assert data.observations.shape == (len(walks), *SIZE)
    assert data.observations.dtype == np.uint8
    wanted = np.stack([picture(row) for row in range(len(walks))]).astype(int)
    assert np.abs(data.observations - wanted).max() <= tolerance
    inside = np.flatnonzero(~(data.terminals | data.truncated))
    assert np.abs(data.next_observations[inside] - wanted[inside + 1]).max() <= tolerance


def test_a_film_of_lerobot(walks: Dataset, tmp_path: Path) -> None:
    check(load(filmed(walks, tmp_path), Reading(observations=("images.front",))), walks, 6)


@pytest.mark.parametrize("kind", ["video", "pictures", "rlds", "robomimic"])
def test_pictures_need_not_fit_into_memory(
    kind: str, walks: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a film are unpacked on disk, those of a table when they are asked for."""
    monkeypatch.setattr(sources, "LARGE", 0)
    make = {"video": filmed, "pictures": embedded, "rlds": rlds, "robomimic": robomimic}[kind]
    name = {"rlds": "image", "robomimic": "agentview_image"}.get(kind, "images.front")
    path, reading = make(walks, tmp_path), Reading(observations=(name,), scratch=str(tmp_path / "scratch"))
    left = load(path, reading)
    assert left.stored
    check(left.in_memory(), walks, 6)
    write(left, tmp_path / "left.columns")
    check(load(tmp_path / "left.columns").in_memory(), walks, 6)
    assert not list((tmp_path / "scratch").glob("*"))


class Seen(corridor.Corridor):
    """The corridor through the same camera."""

    observation_space = gymnasium.spaces.Box(0, 255, SIZE, np.uint8)

    def _seen(self) -> np.ndarray:
        return picture(int(10 * abs(self.at)))


def test_pictures_belong_to_an_environment_of_pictures(walks: Dataset, tmp_path: Path) -> None:
    data = load(filmed(walks, tmp_path), Reading(observations=("images.front",)))
    check_env(data, Seen(), name="seen")
    with pytest.raises(UserError, match="observations have shape"):
        check_env(data, corridor.Corridor(), name="corridor")


def test_the_state_is_taken_unless_a_camera_is_chosen(walks: Dataset, tmp_path: Path) -> None:
    root = filmed(walks, tmp_path)
    data = load(root)
    assert data.observations.shape == (len(walks), 2)
    assert f"cameras not read: {FRONT} (with --observations state images.front they are)" in data.notes
    both = load(root, Reading(observations=("images.front", "state")))
    assert both.layout is not None
    rows = [both.layout.apart(column) for column in (both.observations, both.next_observations)]
    assert np.array_equal(rows[0]["state"], data.observations)
    pictures = {"observations": rows[0]["images.front"], "next_observations": rows[1]["images.front"]}
    check(replace(both, **pictures, layout=None, parts=()), walks, 6)


def test_a_film_that_lacks_frames(walks: Dataset, tmp_path: Path) -> None:
    data = load(filmed(walks, tmp_path, missing=2), Reading(observations=("images.front",)))
    assert {(f.name, f.what) for f in episode_faults(data)} == {("3", f"frames missing in the video of '{FRONT}'")}
    path = tmp_path / "lerobot"
    left = load(path, Reading(observations=("images.front",), drop_bad_episodes=True))
    assert len(left.episode_ends) == 3


@pytest.mark.parametrize(
    "content", [b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", b"ffconcat version 1.0\nfile x\n", b""]
)
def test_a_film_is_a_film_and_no_playlist(content: bytes, walks: Dataset, tmp_path: Path) -> None:
    path = filmed(walks, tmp_path)
    (path / "videos" / FRONT / "chunk-000" / "file-000.mp4").write_bytes(content)
    with pytest.raises(UserError, match="is not a whole MP4 video"):
        load(path, Reading(observations=("images.front",)))


def test_a_film_of_another_size(walks: Dataset, tmp_path: Path) -> None:
    path = filmed(walks, tmp_path)
    with_camera(path, "video", [3, 8, 8], ["channels", "height", "width"])
    with pytest.raises(UserError, match=r"has pictures of 16 x 24 pixels and info.json says 8 x 8"):
        load(path, Reading(observations=("images.front",)))


def embedded(walks: Dataset, folder: Path, **parts: Any) -> Path:
    root = as_lerobot(walks, folder)
    with_camera(root, "image", list(SIZE), ["height", "width", "channel"])
    file = root / "data/chunk-000/file-000.parquet"
    rows = [{"bytes": png(row), "path": "/etc/hostname", **parts} for row in range(len(walks))]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(file).append_column(FRONT, pa.array(rows, kind)), file)
    return root


def test_pictures_in_tables_of_lerobot(walks: Dataset, tmp_path: Path) -> None:
    check(load(embedded(walks, tmp_path), Reading(observations=(FRONT,))), walks, 0)


def test_the_path_beside_a_picture_is_not_followed(walks: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no picture, only a path; embed"):
        load(embedded(walks, tmp_path, bytes=None), Reading(observations=(FRONT,)))


def rlds(walks: Dataset, folder: Path) -> Path:
    """One file without a description: what is what is known by the names alone."""
    content, row = b"", 0
    for columns in episodes(walks, closing=True):
        steps = rlds_steps(columns)
        count = len(columns["reward"])
        steps["steps/observation/image"] = [png(row + i) for i in range(count)]
        row += count - 1
        content += record(example(steps))
    (folder / "walks.tfrecord").write_bytes(content)
    return folder / "walks.tfrecord"


def test_pictures_of_rlds(walks: Dataset, tmp_path: Path) -> None:
    path = rlds(walks, tmp_path)
    check(load(path, Reading(observations=("image",))), walks, 0)
    state = load(path)
    assert state.observations.shape == (len(walks), 2)
    both = load(path, Reading(observations=("image", "*state*")))
    assert both.layout is not None
    assert np.array_equal(both.vectors, state.observations)


def robomimic(walks: Dataset, folder: Path) -> Path:
    path = as_robomimic(walks, folder)
    with h5py.File(path, "a") as file:
        for number, rows in enumerate(walks.episodes()):
            pictures = np.stack([picture(row) for row in range(rows.start, rows.stop + 1)])
            file[f"data/demo_{number}/obs/agentview_image"] = pictures[:-1]
            file[f"data/demo_{number}/next_obs/agentview_image"] = pictures[1:]
    return path


def test_pictures_of_robomimic(walks: Dataset, tmp_path: Path) -> None:
    path = robomimic(walks, tmp_path)
    check(load(path, Reading(observations=("agentview_image",))), walks, 0)
    both = load(path, Reading(observations=("object", "agentview_image")))
    assert both.layout is not None
    parts, after = (both.layout.apart(rows) for rows in (both.observations, both.next_observations))
    assert np.array_equal(parts["agentview_image"], [picture(row) for row in range(len(walks))])
    assert np.array_equal(after["object"], load(path, Reading(observations=("object",))).next_observations)
    with pytest.raises(UserError, match=r"agentview_image \(16, 24, 3\), object .*as --observations object"):
        load(path)


@pytest.mark.parametrize(("dtype", "version"), [("uint8", 2), ("float32", 3)])
def test_pictures_of_a_replay_buffer(dtype: str, version: int, walks: Dataset, tmp_path: Path) -> None:
    """Diffusion policy's layout; its push-T data hold colours as floats."""
    group = zarr.open_group(tmp_path / "buffer.zarr", mode="w", zarr_format=version)  # type: ignore[arg-type]
    group.create_array("data/img", data=np.stack([picture(row) for row in range(len(walks))]).astype(dtype))
    group.create_array("data/action", data=walks.actions)
    group.create_array("data/state", data=walks.observations)
    group.create_array("meta/episode_ends", data=walks.episode_ends + 1)
    data = load(tmp_path / "buffer.zarr", Reading(observations=("img",), reward="end"))
    check(data, walks, 0)
    assert data.terminals.sum() == 4
    both = load(tmp_path / "buffer.zarr", Reading(observations=("state", "img"), reward="end"))
    assert str(both.layout) == "img uint8 [16, 24, 3], state float32 [2]"
    assert np.array_equal(both.vectors, walks.observations)


def test_a_picture_that_unpacks_to_too_much(walks: Dataset, tmp_path: Path) -> None:
    """Its header says how large it is, before anything is unpacked."""
    made = io.BytesIO()
    Image.new("RGB", (4000, 4000)).save(made, "PNG")
    path = tmp_path / "large.tfrecord"
    content = b""
    for columns in episodes(replace(walks), closing=True):
        steps = rlds_steps(columns)
        steps["steps/observation/image"] = [made.getvalue()] * len(columns["reward"])
        content += record(example(steps))
    path.write_bytes(content)
    with pytest.raises(UserError, match="unpacks from"):
        load(path, Reading(observations=("image",)))
