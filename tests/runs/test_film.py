"""Films of episodes: pick-and-place anywhere, MuJoCo where there is OpenGL, and one clear line elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest

import calql.domains.registry
from calql.domains.adroit import tasks as adroit
from calql.domains.pick_place import tasks as pick_place
from calql.domains.pick_place.env import PickPlace
from calql.runs.film import _picture, film, render, write
from calql.system.errors import UserError


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {task.name: task for task in (*pick_place.TASKS, *adroit.TASKS)}
    monkeypatch.setattr(calql.domains.registry, "get_task", known.__getitem__)


def test_pick_place_is_filmed_without_gl(tmp_path: Path) -> None:
    out = render("pick-place", tmp_path / "films" / "episode.gif", seed=3)
    frames = imageio.imread(out)
    assert frames.ndim == 4
    assert 2 <= len(frames) <= 41
    assert frames.shape[1:] == (192, 192, 3)


def test_the_policy_acts_and_the_seed_decides() -> None:
    seen: list[Any] = []

    def still(observation: Any) -> np.ndarray:
        seen.append(observation)
        return np.zeros(4, np.float32)

    first = list(film(PickPlace(), still, 5, 40))
    assert len(first) == 41
    assert len(seen) == 40
    assert seen[0].shape == (48, 48, 3)
    assert np.array_equal(first, list(film(PickPlace(), still, 5, 40)))


def test_without_gl_one_line_says_what_to_install() -> None:
    class NoGL(PickPlace):
        def render(self) -> Any:
            raise RuntimeError("an OpenGL platform library has not been loaded")

    with pytest.raises(UserError, match=r"no OpenGL.*libegl1.*MUJOCO_GL=egl.*libosmesa6") as raised:
        _picture(NoGL())
    assert "\n" not in str(raised.value)


FILM = """
import sys
from dataclasses import replace
import calql.domains.registry
from calql.system.errors import UserError
from calql.runs.film import render
task = replace(calql.domains.registry.get_task(sys.argv[1]), episode_limit=4)
calql.domains.registry.get_task = lambda name: task
try:
    render(task.name, "film.gif")
except UserError as problem:
    print(problem)
"""


@pytest.mark.parametrize("task", ["antmaze-umaze", "point-maze-narrow", "door-binary"])
def test_mujoco_is_filmed(task: str, tmp_path: Path) -> None:
    """In a process of its own: a broken GL can end the process that tries it."""
    command = [sys.executable, "-c", FILM, task]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "no OpenGL that MuJoCo can draw with" in ran.stdout:
        pytest.skip(ran.stdout.strip())
    assert ran.returncode == 0, ran.stderr
    frames = imageio.imread(tmp_path / "film.gif").astype(int)
    assert len(frames) >= 2
    assert frames[0].std() > 10.0  # a scene, not one colour
    assert np.abs(frames[-1] - frames[0]).max() > 50  # that moves


def test_an_environment_without_pictures_is_no_missing_gl() -> None:
    class Blind(PickPlace):
        def render(self) -> Any:
            raise NotImplementedError

    with pytest.raises(UserError, match="draws no pictures"):
        _picture(Blind())


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"name it \.gif or \.mp4"):
        render("pick-place", tmp_path / "film.avi")


def test_a_fast_task_shows_every_fourth_picture_and_the_last(tmp_path: Path) -> None:
    pictures = [np.full((8, 8, 3), 10 * i, np.uint8) for i in range(10)]
    frames = imageio.imread(write(tmp_path / "x.gif", pictures, rate=100.0))
    assert len(frames) == 4
    assert abs(int(frames[-1].max()) - 90) < 8
