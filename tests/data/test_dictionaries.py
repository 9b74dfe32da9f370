"""Observations as dictionaries of cameras and vectors: read, written, checked and given by environments, by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import two_cameras
from calql.cli import main
from calql.data import Dataset, Reading, check, describe, load, pack_observations, write
from calql.data.dataset import concatenate
from calql.data.dictionaries import in_form, rows_of
from calql.data.findings import constant_features, episode_faults, findings
from calql.data.inspect import facts
from calql.data.jumps import jumps
from calql.data.packing import large_cameras
from calql.networks import Spec, make_encoder
from calql.system.errors import UserError
from two_cameras import NAMES, TwoCameras

BY_NAME = Reading(observations=NAMES)


def saved(folder: Path, columns: dict[str, np.ndarray], name: str = "two.npz") -> Path:
    np.savez(folder / name, **columns)  # type: ignore[arg-type]
    return folder / name


@pytest.fixture(scope="module")
def columns() -> dict[str, np.ndarray]:
    return two_cameras.steps(12)


@pytest.fixture(scope="module")
def data(columns: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load(saved(tmp_path_factory.mktemp("two"), columns), BY_NAME)


def test_chosen_and_ordered_by_name(data: Dataset, columns: dict[str, np.ndarray]) -> None:
    assert str(data.layout) == "front uint8 [12, 16, 3], wrist uint8 [8, 8, 1], state float32 [2]"
    assert data.layout is not None
    for name, rows in (("observations", data.observations), ("next_observations", data.next_observations)):
        parts = data.layout.apart(rows)
        assert np.array_equal(parts["front"], columns[f"{name}/front"])
        assert np.array_equal(parts["wrist"][..., 0], columns[f"{name}/wrist"])
        assert np.array_equal(parts["state"], columns[f"{name}/state"])
    assert [tuple(part) for part in data.parts] == [("state", 0, 2)]
    assert dict(facts(describe(data)))["observations"] == str(data.layout)


def test_the_order_on_disk_does_not_matter(data: Dataset, columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    backwards = dict(reversed(columns.items()))
    for reading in (BY_NAME, Reading(columns=("observation=front,wrist,state",))):
        again = load(saved(tmp_path, backwards), reading)
        assert again.layout == data.layout
        assert np.array_equal(again.observations, data.observations)
    everything = [load(saved(tmp_path, each)) for each in (columns, backwards)]
    assert everything[0].layout == everything[1].layout
    assert np.array_equal(everything[0].observations, everything[1].observations)
    assert any(note.startswith("observations are all parts by name: clock, front") for note in everything[0].notes)


@pytest.mark.parametrize("name", ["two.npz", "two.hdf5", "two.parquet"])
def test_written_and_read_again(name: str, data: Dataset, tmp_path: Path) -> None:
    write(data, tmp_path / name)
    again = load(tmp_path / name, BY_NAME)
    for column in ("observations", "next_observations", "actions", "rewards", "terminals", "truncated"):
        assert np.array_equal(getattr(again, column), getattr(data, column)), column
    assert (again.layout, again.parts) == (data.layout, data.parts)
    assert load(tmp_path / name).layout is not None


def test_minari_keeps_dictionaries(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write(data, "minari:two/cameras-v0")
    again = load("minari:two/cameras-v0", BY_NAME)
    assert np.array_equal(again.observations, data.observations)
    assert np.array_equal(again.next_observations, data.next_observations)


def test_groups_within_groups(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "deep.hdf5", "w") as file:
        for name, values in columns.items():
            file[name.replace("/front", "/images/front").replace("/wrist", "/images/wrist")] = values
    found = load(tmp_path / "deep.hdf5", Reading(observations=("images/*", "state")))
    assert found.layout is not None
    assert found.layout.names == ("images/front", "images/wrist", "state")
    assert isinstance(in_form(TwoCameras(), found.layout).observation_space, spaces.Box)  # by their last word


def test_one_camera_of_a_dictionary(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    alone = load(saved(tmp_path, columns), Reading(observations=("front",)))
    assert (alone.observations.shape[1:], alone.layout, alone.camera) == (two_cameras.FRONT, None, "front")
    env = in_form(TwoCameras(), alone.form)
    assert np.array_equal(env.reset(seed=0)[0], alone.observations[0])
    assert check(alone, TwoCameras(), name="two") == []


@pytest.mark.slow
def test_cameras_without_vectors(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    both = load(saved(tmp_path, columns), Reading(observations=("front", "wrist")))
    assert both.observations.shape[1:] == (12 * 16 * 3 + 8 * 8,)
    assert both.vectors is not None
    assert both.vectors.shape[1] == 0
    assert describe(both).errors == ()
    check(both, TwoCameras(), name="two")
    spec = Spec.of(both.observations, both.actions, layout=both.form)
    encoder, features = make_encoder(spec, jax.random.key(0), standardise=True)
    assert encoder(jnp.asarray(both.observations[:2])).shape == (2, features) == (2, 256)


def test_vectors_of_a_dictionary(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    """The environment's dictionary is put together as the data are."""
    vectors = load(saved(tmp_path, columns), Reading(observations=("clock", "state")))
    seen = in_form(TwoCameras(), vectors.form).reset(seed=0)[0]
    assert seen.dtype == np.float32
    assert np.array_equal(seen, vectors.observations[0])


def test_environment_and_data_see_the_same(data: Dataset) -> None:
    env = in_form(TwoCameras(), data.form)
    assert np.array_equal(env.reset(seed=0)[0], data.observations[0])
    assert np.array_equal(env.step(data.actions[0])[0], data.next_observations[0])
    check(data, TwoCameras(), name="two")


def _with(name: str, space: gymnasium.Space[Any]) -> TwoCameras:
    env = TwoCameras()
    parts = env.observation_space.spaces | {name: space}  # type: ignore[attr-defined]
    env.observation_space = spaces.Dict(parts)
    return env


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (two_cameras.OneEye(), "a dictionary of .*front.*, without 'wrist' of the data; give it that name there"),
        (_with("front", spaces.Box(0, 255, (9, 9, 3), np.uint8)), r"'front' .* uint8 \[9, 9, 3\], and the data have"),
        (_with("front", spaces.Box(0, 1, two_cameras.FRONT, np.float32)), "'front' of its observations is float32"),
        (
            _with("state", spaces.Box(-1, 1, (3,), np.float32)),
            r"'state' .* float32 \[3\], and the data have state float",
        ),
        (
            gymnasium.make("MountainCarContinuous-v0"),
            "are one array of shape .*, and those of the data a dictionary of",
        ),
        (two_cameras.Blind(), r"step\(\) gives NaN or inf in an observation"),
    ],
)
def test_what_does_not_fit_is_refused(env: Any, message: str, data: Dataset) -> None:
    with pytest.raises(UserError, match=message) as raised:
        check(data, env, name="two")
    assert "\n" not in str(raised.value)


def test_values_that_are_not_finite(data: Dataset, columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    bad = columns | {"observations/state": columns["observations/state"].copy()}
    bad["observations/state"][3, 1] = np.nan
    with pytest.raises(UserError, match="'observations' holds 1 NaN value in 1 row, the first in row 3"):
        load(saved(tmp_path, bad), BY_NAME)
    kept = load(saved(tmp_path, bad), replace(BY_NAME, drop_bad_episodes=True))
    assert len(kept.episode_ends) == len(data.episode_ends) - 1
    told: list[UserError] = []
    listed = load(saved(tmp_path, bad), BY_NAME, on_problem=told.append)
    assert len(told) == 1
    assert [fault.what for fault in episode_faults(listed)] == ["NaN or inf in 'observations'"]
    assert describe(listed).not_finite == {"observations": 1}


def test_findings_look_at_the_vectors(data: Dataset) -> None:
    """Not at their bytes."""
    assert constant_features(data) == ()
    assert data.layout is not None
    parts = data.layout.apart(data.observations)
    still = parts | {"state": np.column_stack([np.full(len(data), 2e4), parts["state"][:, 1]])}
    flat = replace(data, observations=data.layout.packed_rows(still))
    assert constant_features(flat) == (0,)
    assert any("exceed 10000" in text for text in findings(flat).warnings)


def test_jumps_are_measured_in_numbers(data: Dataset) -> None:
    """A last bit that differs is no jump, though bytes differ."""
    assert data.layout is not None
    parts = data.layout.apart(data.next_observations)
    near = parts | {
        "state": np.nextafter(parts["state"], np.float32(np.inf)) * np.float32([0.0, 1.0]) + parts["state"] * [1, 0]
    }
    inside = ~(data.terminals | data.truncated)
    assert not jumps(data)[inside].any()
    assert not jumps(replace(data, next_observations=data.layout.packed_rows(near)))[inside].any()
    far = parts | {"state": parts["state"] + np.float32(0.1)}
    assert jumps(replace(data, next_observations=data.layout.packed_rows(far)))[inside].all()


def test_parts_of_a_dataset_are_packed_alike(data: Dataset) -> None:
    assert concatenate([data, data], source="both").layout == data.layout
    other = replace(data, layout=None)
    with pytest.raises(UserError, match="packed differently"):
        concatenate([data, other], source="both")


def test_packed_in_memory(data: Dataset, columns: dict[str, np.ndarray]) -> None:
    made = pack_observations({name: columns[f"observations/{name}"] for name in NAMES})
    assert np.array_equal(made.values, data.observations)
    assert (made.layout, made.parts) == (data.layout, data.parts)
    with pytest.raises(UserError, match=r"shape \(2,\), and their parts \(648,\); pack them"):
        replace(data, observations=columns["observations/state"])


def test_masks_beside_a_dictionary_are_not_dropped_in_silence(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    rows = len(columns["rewards"])
    choices = columns | {"actions": np.zeros(rows, np.int64), "action_masks": np.ones((rows, 2), bool)}
    with pytest.raises(UserError, match="has 'action_masks' beside a dictionary of observations"):
        load(saved(tmp_path, choices))


def test_sizes_of_cameras(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    rows = len(columns["rewards"])
    tiny = columns | {
        f"{when}/front": np.zeros((rows, 3, 16, 16), np.uint8) for when in ("observations", "next_observations")
    }
    with pytest.raises(
        UserError, match=r"'front' has pictures of shape \[3, 16, 16\]; a camera gives \[row, column, colour\]"
    ):
        load(saved(tmp_path, tiny), BY_NAME)
    wide = columns | {
        f"{when}/front": np.zeros((rows, 8, 300, 3), np.uint8) for when in ("observations", "next_observations")
    }
    (line,) = large_cameras(load(saved(tmp_path, wide), BY_NAME))
    assert line.startswith("camera 'front' has 8 x 300 pixels: updates will be slow")


def test_dictionaries_of_a_control_loop(data: Dataset) -> None:
    form = data.layout
    assert form is not None
    seen = TwoCameras().reset(seed=0)[0]
    assert np.array_equal(rows_of(seen, form), data.observations[0])
    nested = {"images": {"front": seen["front"], "wrist": seen["wrist"]}, "state": seen["state"]}
    assert np.array_equal(rows_of(nested, form), data.observations[0])
    with pytest.raises(ValueError, match="it has no 'state'"):
        rows_of({"front": seen["front"], "wrist": seen["wrist"]}, form)


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text()
    script = page.partition("## Cameras and proprioception")[2].partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    exec(script, {"np": np})
    assert main(["data", "inspect", "robot.npz", "--observations", "joints", "front", "wrist"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("observations")]
    assert line.strip() in page


def reached(observations: Any, actions: Any, after: Any) -> Any:
    return (after["state"][:, 0] > observations["state"][:, 0]).astype(float)


def test_a_reward_function_is_given_dictionaries(columns: dict[str, np.ndarray], tmp_path: Path) -> None:
    found = load(saved(tmp_path, columns), replace(BY_NAME, reward="test_dictionaries:reached"))
    wanted = columns["next_observations/state"][:, 0] > columns["observations/state"][:, 0]
    assert np.array_equal(found.rewards, wanted)
