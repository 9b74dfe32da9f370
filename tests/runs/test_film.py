"""Films of episodes: captions, several side by side, and one clear line where something is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

from calql.cli import main
from calql.domains.pick_place.env import PickPlace
from calql.domains.point_maze.env import PointMaze
from calql.runs import film_files
from calql.runs.film import filmed, play, with_camera
from calql.runs.film_files import write_film
from calql.runs.frames import BAR, GAP, VERDICTS, captioned, side_by_side
from calql.system.errors import UserError

STILL = np.zeros(4, np.float32)


def frames(path: Path) -> list[np.ndarray]:
    with Image.open(path) as film:
        return [np.asarray(frame.convert("RGB")).astype(int) for frame in ImageSequence.Iterator(film)]


@pytest.mark.slow
def test_the_policy_acts_and_the_seed_decides() -> None:
    seen: list[Any] = []

    def still(observation: Any) -> np.ndarray:
        seen.append(observation)
        return STILL

    first = list(play(PickPlace(), still, 5, 40))
    assert [shot.step for shot in first] == list(range(41))
    assert len(seen) == 40
    assert seen[0].shape == (48, 48, 3)
    again = list(play(PickPlace(), still, 5, 40))
    assert np.array_equal([shot.picture for shot in first], [shot.picture for shot in again])


@pytest.mark.slow
def test_a_shot_says_where_the_episode_stands() -> None:
    *_, last = play(PickPlace(), lambda seen: STILL, 5, 40)
    assert (last.seconds, last.reward, last.total, last.success, last.over) == (4.0, 0.0, 0.0, False, True)
    assert last.line == "4.0 s   step 40 of 40   reward 0   return 0"
    assert last.verdict == "no success"


def test_success_is_said_and_ends_the_film() -> None:
    class Solved(PickPlace):
        def step(self, action: Any) -> Any:
            seen, *_ = super().step(action)
            return seen, 1.0, True, False, {"success": True}

    shots = list(play(Solved(), lambda seen: STILL, 0, 40))
    assert [shot.verdict for shot in shots] == ["", "success"]
    assert shots[-1].line == "0.1 s   step 1 of 40   reward 1   return 1"


def test_the_maze_draws_itself_from_above_with_its_goal_and_the_way() -> None:
    env = PointMaze(render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    for _ in range(20):
        env.step(np.array([1.0, 0.0], np.float32))
    second = env.render()
    assert min(first.shape[:2]) == 480
    x, y = env.maze.goal
    green = second[round((2.5 - y) * 96), round((x + 3.5) * 96)]
    assert green[1] > green[0] + 50
    assert green[1] > green[2] + 50
    ball = second[
        round((2.5 - env.maze.point_env.data.qpos[1]) * 96), round((env.maze.point_env.data.qpos[0] + 3.5) * 96)
    ]
    assert tuple(ball) == (31, 95, 191)
    assert np.abs(second.astype(int) - first).max() > 100
    env.close()


def test_a_caption_stands_above_and_below_and_small_pictures_grow() -> None:
    small = np.full((100, 200, 3), 128, np.uint8)
    plain = captioned(small, "", "", "", size=480)
    assert plain.shape == (480 + 2 * BAR, 960, 3)
    told = captioned(small, "a policy, seed 0", "1.0 s", "success", size=480)
    assert np.array_equal(told[BAR:-BAR], plain[BAR:-BAR])
    assert not np.array_equal(told[:BAR], plain[:BAR])
    corner = told[-BAR:, -120:].reshape(-1, 3).tolist()
    assert list(VERDICTS["success"]) in corner


def test_a_long_title_stays_within_its_bar() -> None:
    picture = np.zeros((480, 480, 3), np.uint8)
    told = captioned(picture, "a policy with a rather long name of its own, seed 12, before", "", "", size=480)
    assert (told[:BAR, -5:] == told[0, 0]).all()


def test_films_side_by_side_wait_for_the_longest() -> None:
    short = [np.full((4, 6, 3), 50, np.uint8)]
    long = [np.full((4, 6, 3), 10 * step, np.uint8) for step in range(3)]
    together = side_by_side([short, long, long], columns=2)
    assert len(together) == 3
    assert together[0].shape == (2 * 4 + GAP, 2 * 6 + GAP, 3)
    assert (together[2][:4, :6] == 50).all()
    assert (together[2][:4, 6 + GAP :] == 20).all()
    assert (together[2][4 + GAP :, :6] == 20).all()


@pytest.mark.slow
def test_pick_place_is_filmed_without_gl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":none")  # leave MuJoCo's variable alone
    assert main(["render", "pick-place", "--out", str(tmp_path / "films" / "episode.gif"), "--seed", "3"]) == 0
    found = frames(tmp_path / "films" / "episode.gif")
    assert 2 <= len(found) <= 41
    assert found[0].shape == (480 + 2 * BAR, 480, 3)


def test_without_gl_one_line_says_what_to_install() -> None:
    class NoGL(PickPlace):
        def render(self) -> Any:
            raise RuntimeError("an OpenGL platform library has not been loaded")

    with pytest.raises(UserError, match=r"no OpenGL.*libegl1.*MUJOCO_GL=egl.*libosmesa6") as raised:
        next(play(NoGL(), lambda seen: STILL, 0, 1))
    assert "\n" not in str(raised.value)


NO_LIBRARY = "from calql.cli import main; import sys; sys.exit(main(['render', sys.argv[1]]))"


@pytest.mark.slow
@pytest.mark.parametrize("task", ["antmaze-umaze", "door-binary"])
def test_a_missing_gl_library_is_one_line(task: str, tmp_path: Path) -> None:
    """MuJoCo looks for the library while it is imported, so in a process of its own."""
    environment = {"MUJOCO_GL": "osmesa", "PATH": "", "PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", NO_LIBRARY, task]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode == 0:
        pytest.skip("this machine has OSMesa")
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.startswith("calql: this machine has no OpenGL that MuJoCo can draw with")
    assert len(ran.stderr.strip().splitlines()) == 1


def test_an_error_of_the_environment_itself_is_not_taken_for_a_missing_gl() -> None:
    def broken(render_mode: str) -> Any:
        raise KeyError("a defect")

    with pytest.raises(UserError, match="cannot be made: KeyError: 'a defect'"):
        with_camera(broken)


FILM = """
import sys
from dataclasses import replace
import calql.domains.registry
from calql.system.errors import UserError
from calql.runs.film import filmed, prepare_gl
from calql.runs.film_files import write_film
prepare_gl()
task = calql.domains.registry.get_task(sys.argv[1])
try:
    film = filmed(task.make_env, None, task.name, seed=0, limit=4, size=480)
    write_film(__import__("pathlib").Path("film.gif"), film.pictures, film.rate)
except UserError as problem:
    print(problem)
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["antmaze-umaze", "point-maze-narrow", "door-binary"])
def test_mujoco_is_filmed(task: str, tmp_path: Path) -> None:
    """In a process of its own: a broken GL can end the process that tries it."""
    command = [sys.executable, "-c", FILM, task]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "no OpenGL that MuJoCo can draw with" in ran.stdout:
        pytest.skip(ran.stdout.strip())
    assert ran.returncode == 0, ran.stderr
    found = frames(tmp_path / "film.gif")
    assert len(found) >= 2
    assert min(found[0].shape[:2]) >= 480
    assert found[0][BAR:-BAR].std() > 10.0  # a scene, not one colour
    assert np.abs(found[-1] - found[0])[BAR:-BAR].max() > 50  # that moves


def test_an_environment_without_pictures_is_no_missing_gl() -> None:
    class Blind(PickPlace):
        def render(self) -> Any:
            raise NotImplementedError

    with pytest.raises(UserError, match="draws no pictures"):
        filmed(Blind, None, "", seed=0, limit=1, size=480)


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"name it \.gif or \.mp4"):
        write_film(tmp_path / "film.avi", [], 1.0)


def test_a_fast_task_shows_every_eighth_picture_and_the_last(tmp_path: Path) -> None:
    pictures = [np.full((8, 8, 3), 10 * i, np.uint8) for i in range(20)]
    found = frames(write_film(tmp_path / "x.gif", pictures, rate=100.0))
    assert [abs(int(frame.max()) - shade) < 4 for frame, shade in zip(found, (0, 80, 160, 190), strict=True)] == [
        True
    ] * 4
    assert not list(tmp_path.glob(".*"))  # nothing half-written


def test_an_mp4_has_the_pictures_in_their_size_and_stays_at_the_last(tmp_path: Path) -> None:
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        pytest.skip("needs the extra [films]")
    import imageio.v2 as imageio

    pictures = [np.full((48, 66, 3), 20 * step, np.uint8) for step in range(10)]
    with imageio.get_reader(write_film(tmp_path / "x.mp4", pictures, rate=10.0)) as film:
        found = [np.asarray(picture) for picture in film]
    assert [path.name for path in tmp_path.iterdir()] == ["x.mp4"]
    assert found[0].shape == (48, 66, 3)
    assert len(found) == 25  # and 1.5 s of the last
    assert abs(int(found[-1].mean()) - 180) < 8


def test_without_an_encoder_the_help_and_the_error_name_the_same_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class NoEncoder:
        """imageio, as it is without a plugin that writes films."""

        def mimsave(self, *_: Any, **__: Any) -> None:
            raise ImportError("To use this plugin, install imageio-ffmpeg")

    monkeypatch.setattr(film_files, "extra", lambda *_: NoEncoder())
    pictures = [np.zeros((16, 16, 3), np.uint8)] * 2
    with pytest.raises(UserError, match=r"pip install 'calql\[films\]'"):
        write_film(tmp_path / "x.mp4", pictures, rate=10.0)
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        main(["render", "--help"])
    assert "extra [films]" in " ".join(capsys.readouterr().out.split())
