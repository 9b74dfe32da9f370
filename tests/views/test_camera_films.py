"""The page of a dataset with several cameras: films show them side by side, features are the vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import two_cameras
from calql.data import Dataset, Reading, load
from calql.data.overview import episodes
from calql.domains.scene import Scene
from calql.views import films
from calql.views.clips import beside
from calql.views.data import _ranges, columns_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path: Path = tmp_path_factory.mktemp("two") / "two.npz"
    np.savez(path, **two_cameras.steps(3))  # type: ignore[arg-type]
    return load(path, Reading(observations=two_cameras.NAMES))


def test_cameras_stand_side_by_side(data: Dataset) -> None:
    assert data.layout is not None
    shown, parts = films._shown(data, 2), data.layout.apart(data.observations[2])
    assert shown.shape == (12, 16 + 8, 3)
    assert np.array_equal(shown[:, :16], parts["front"])
    assert np.array_equal(shown[:8, 16:], np.repeat(parts["wrist"], 3, axis=-1))
    assert not shown[8:, 16:].any()
    assert beside([]) is None
    (film,) = films.of_images(data, episodes(data), [0])
    assert film.clip.address.startswith("data:image/webp")


def test_features_are_those_of_the_vectors(data: Dataset) -> None:
    assert data.vectors is not None
    found = columns_of(data, Scene())
    assert list(found.names) == ["state 0", "state 1", "action 0"]
    assert np.array_equal(found.values[:, :2], data.vectors)
    ranges = _ranges(data, Scene())[-1]
    assert "state 0" in str(ranges)
    assert f"{data.vectors[:, 0].max():.4g}" in str(ranges)  # numbers, not bytes
