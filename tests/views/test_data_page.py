"""The page of a dataset: what it says, that it stays small, and that nothing in a file can harm who reads it."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import corridor
from calql.cli import main
from calql.cli.data_view import page_name
from calql.data import Dataset, describe, write_npz
from calql.data.concerned import concerned
from calql.data.overview import episodes
from calql.domains.registry import get_scene, get_task
from calql.domains.scene import FloorPlan, Scene
from calql.system.errors import UserError
from calql.views import data as page_module
from calql.views import films
from calql.views.clips import MOST, as_picture, clips
from calql.views.data import columns_of, data_page
from page_reader import HOSTILE, Page

LIMIT = 3_000_000  # bytes of a page


@pytest.fixture(scope="module")
def good() -> Dataset:
    return corridor.demonstrations(12)


def page_of(data: Dataset, folder: Path, *, name: str = "data", scene: Scene | None = None, **options: Any) -> Page:
    path = folder / "page.html"
    seen = describe(data)
    shown_by = concerned(data, seen.problems, None)
    path.write_text(data_page(name, data, seen, shown_by, scene or Scene(), **options), encoding="utf-8")
    return Page(path)


def broken(data: Dataset) -> Dataset:
    """A jump inside the second episode, and a flag that says nothing of it."""
    following = data.next_observations.copy()
    following[data.episode_starts[1] + 1] += 1.0
    return replace(data, next_observations=following)


def cloud(count: int, length: int, features: int = 3) -> Dataset:
    """Many short episodes of a random walk."""
    rng = np.random.default_rng(0)
    rows = count * length
    walk = np.cumsum(rng.normal(size=(rows + 1, features)), axis=0).astype(np.float32)
    ends = np.arange(rows) % length == length - 1
    actions = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    rewards = rng.normal(size=rows).astype(np.float32)
    return Dataset(walk[:-1], actions, rewards, walk[1:], ends, np.zeros(rows, bool), "cloud")


def test_every_episode_has_a_row_and_findings_link_to_theirs(good: Dataset, tmp_path: Path) -> None:
    page = page_of(broken(good), tmp_path)
    assert "1 row has a next observation that is not the following row's" in page.text
    assert "#episode-1" in page.sources  # from the finding
    assert "#finding-0" in page.sources  # and back
    assert page.text.count("terminal") >= 12
    assert "100.0% of episodes succeed" in page.text


LOG = """run,joint_0,joint_1,cmd,r
a,0.1,0.2,0.5,0
a,0.2,0.3,0.4,0
a,0.3,0.5,0.4,1
b,0.0,0.1,0.3,0
b,0.1,nan,0.3,0
b,0.2,0.3,0.3,1
"""


def test_a_table_is_seen_by_its_own_names_and_its_bad_episode_is_linked(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    map_of_columns = ["--columns", "observation=joint_*", "action=cmd", "reward=r", "episode=run"]
    out = tmp_path / "page.html"
    assert main(["data", "view", str(tmp_path / "log.csv"), *map_of_columns, "--out", str(out)]) == 0
    page = Page(out)
    assert "joint_1" in page.text
    assert "1 of 2 episodes is bad" in page.text
    assert "#episode-1" in page.sources


def test_the_same_data_give_the_same_page(good: Dataset, tmp_path: Path) -> None:
    first = page_of(good, tmp_path).text
    assert page_of(good, tmp_path).text == first


@pytest.mark.slow
def test_a_large_set_stays_a_small_page_and_says_so(tmp_path: Path) -> None:
    data = cloud(30_000, 4, features=80)
    page = page_of(data, tmp_path)
    assert (tmp_path / "page.html").stat().st_size < LIMIT
    assert page.tags.count("tr") < page_module.MOST_EPISODES + 200
    assert "of 30,000 episodes are listed" in page.text
    assert "The first 60 of 80." in page.text
    assert "20 more are not shown" in page.text


def test_names_from_a_file_are_shown_as_text(good: Dataset, tmp_path: Path) -> None:
    def named(name: str) -> Page:
        told = replace(broken(good), source=f"source {name}", notes=(f"note {name}",))
        scene = Scene((f"feature {name}", "other"), FloorPlan(0, 1, [(0, 0, 1, 1)], (0.0, 0.0)))
        return page_of(told, tmp_path, name=f"file {name}", scene=scene, task=f"task {name}")

    tame, page = named("plain"), named(HOSTILE)
    assert page.attributes == tame.attributes
    assert page.text == tame.text.replace("plain", HOSTILE)
    for what in ("file", "source", "note", "feature", "task"):
        assert f"{what} {HOSTILE}" in page.text


def test_values_that_are_not_numbers_do_not_stop_the_page(good: Dataset, tmp_path: Path) -> None:
    observations, rewards = good.observations.copy(), good.rewards.copy()
    observations[3], rewards[5] = np.nan, np.inf
    page = page_of(replace(good, observations=observations, rewards=rewards), tmp_path)
    assert "#episode-0" in page.sources


def test_features_are_chosen_by_name_or_number(good: Dataset) -> None:
    columns = columns_of(good, Scene(("place", "one")))
    assert columns.names == ["place", "one", "action 0"]
    assert columns.pair((), None) == (0, 1)
    assert columns.pair(("action 0", "0"), None) == (2, 0)
    assert columns.pair((), FloorPlan(1, 0, [])) == (1, 0)
    with pytest.raises(UserError, match="no feature is called 'plce'; did you mean 'place'"):
        columns.pair(("plce", "0"), None)


def test_image_observations_become_films(tmp_path: Path) -> None:
    data = cloud(5, 6)
    images = np.random.default_rng(0).integers(0, 255, (len(data) + 1, 8, 8, 3), np.uint8)
    page = page_of(replace(data, observations=images[:-1], next_observations=images[1:]), tmp_path)
    assert page.text.count("Episode ") == 5
    assert page.tags.count("select") == 2  # of the actions


class Drawable(corridor.Corridor):
    """Draws how far it is as a shade of grey."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - gymnasium's own form
    stepped = 0

    def __init__(self, render_mode: str | None = None) -> None:
        self.at = 0.0

    def show_observation(self, observation: np.ndarray) -> None:
        self.at = float(observation[0])

    def step(self, action: np.ndarray) -> Any:
        type(self).stepped += 1
        return super().step(action)

    def render(self) -> Any:
        return np.full((200, 300, 3), np.clip(self.at / 3, 0, 1) * 255, np.uint8)


gymnasium.register("Drawable-v0", entry_point=Drawable, max_episode_steps=20)


def test_an_environment_draws_recorded_states_and_is_never_stepped(good: Dataset) -> None:
    (film,) = films.of_environment(good, episodes(good), [3], Drawable, None)
    assert film.clip.frames == min(int(good.episode_lengths[3]), 40)
    assert (film.clip.width, film.clip.height) == (300, 200)
    assert film.clip.address.startswith("data:image/webp;base64,")
    assert "return 1, success" in film.caption
    assert Drawable.stepped == 0


@pytest.mark.slow
def test_films_fit_the_page_however_many_and_however_noisy() -> None:
    rng = np.random.default_rng(0)
    noisy = [[rng.integers(0, 255, (240, 320, 3), np.uint8) for _ in range(32)] for _ in range(12)]
    made = clips(noisy)
    assert sum(len(clip.address) for clip in made) <= MOST
    assert {clip.frames for clip in made} == {32}
    (still,) = clips([[np.zeros((48, 48, 3), np.uint8)]])
    assert (still.frames, still.width, still.pixels) == (1, 48, True)


def test_an_environment_that_cannot_draw_is_said_in_one_line(good: Dataset) -> None:
    def without_gl(render_mode: str | None = None) -> Any:
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")

    with pytest.raises(UserError, match=r"cannot be made: AttributeError: .*glGetError"):
        films.of_environment(good, episodes(good), [0], without_gl, None)


@pytest.mark.parametrize(
    ("shape", "seen"),
    [((8, 8, 3), True), ((3, 8, 8), True), ((8, 8), True), ((8, 8, 1), True), ((8, 8, 9), True), ((5,), False)],
)
def test_images_in_any_order_of_channels_are_pictures(shape: tuple[int, ...], seen: bool) -> None:
    picture = as_picture(np.zeros(shape, np.uint8))
    assert (picture is not None) == seen
    assert picture is None or picture.shape == (8, 8, 3)


def test_telling_episodes_come_first() -> None:
    found = episodes(cloud(40, 3))
    order = np.argsort(found.totals)
    assert films.telling(found, [17], 4) == [order[-1], order[0], order[20], 17]
    assert len(set(films.telling(found, [], 12))) == 12


@pytest.mark.parametrize("task", ["point-maze-narrow", "antmaze-umaze", "antmaze-medium-play", "antmaze-large-diverse"])
def test_the_map_is_the_environments_own(task: str) -> None:
    """Its goal and start are in the open, and an observation is drawn where it was recorded."""
    scene, env = get_scene(task), get_task(task).make_env()
    observation, _ = env.reset(seed=0)
    assert scene.plan is not None
    assert scene.put is not None
    walls = scene.plan.walls
    for point in (scene.plan.start, scene.plan.goal, tuple(observation[:2])):
        assert point is not None
        assert not any(left < point[0] < right and low < point[1] < high for left, low, right, high in walls)
    assert np.hypot(*(np.subtract(observation[:2], scene.plan.start))) < 1.0
    scene.put(env, observation + 0.25)
    simulation: Any = env.unwrapped
    np.testing.assert_allclose(simulation.simulation.data.qpos[:2], observation[:2] + 0.25, atol=1e-6)
    env.close()


@pytest.mark.parametrize("task", ["hopper-medium", "halfcheetah-random", "walker2d-expert", "kitchen-partial"])
def test_a_recorded_step_is_drawn_as_it_was(task: str) -> None:
    scene, env = get_scene(task), get_task(task).make_env()
    env.reset(seed=3)
    env.action_space.seed(0)
    for _ in range(10):
        observation, *_ = env.step(env.action_space.sample())
    made: Any = env.unwrapped
    simulated = made.scene.robot_env.data if task.startswith("kitchen") else made.data
    there = simulated.qpos.copy()
    env.reset(seed=0)
    assert np.abs(simulated.qpos[1:] - there[1:]).max() > 0.01
    assert scene.put is not None
    scene.put(env, np.asarray(observation))
    np.testing.assert_allclose(simulated.qpos[1:], there[1:], atol=0.01 if task.startswith("kitchen") else 1e-6)
    env.close()


def test_the_point_maze_has_its_walls_where_the_simulator_has() -> None:
    plan, env = get_scene("point-maze-narrow").plan, get_task("point-maze-narrow").make_env()
    assert plan is not None
    maze: Any = env.unwrapped
    for row, letters in enumerate(maze.maze.maze.maze_map):
        for column, letter in enumerate(letters):
            x, y = maze.maze.maze.cell_rowcol_to_xy(np.array([row, column]))
            walled = any(left < x < right and low < y < high for left, low, right, high in plan.walls)
            assert walled == (letter == 1)
    assert plan.goal == pytest.approx((-2.0, -1.0))


def test_the_command_writes_the_page(good: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_npz(good, tmp_path / "good.npz")
    out = tmp_path / "deep" / "page.html"
    words = ["data", "view", str(file), "--out", str(out), "--films", "2", "--env", "test_data_page:Drawable-v0"]
    assert main(words) == 0
    assert f"page: {out}" in capsys.readouterr().out
    page = Page(out)
    assert "good.npz" in page.text
    assert page.text.count("Episode ") == 2


@pytest.mark.slow
def test_the_command_serves_the_page_until_ctrl_c(good: Dataset, tmp_path: Path) -> None:
    file = write_npz(good, tmp_path / "good.npz")
    heedful = (  # what is started in the background ignores Ctrl-C, and so does what it starts
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from calql.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", heedful, "data", "view", str(file), "--serve"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        address = served.stdout.readline().removeprefix("page: ").strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"good.npz" in answer.read()
        served.send_signal(signal.SIGINT)
        assert served.wait(30) == 0
    assert not list(tmp_path.glob("*.html"))


def test_the_page_is_named_after_the_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    corridor.write_demonstrations(tmp_path).rename(tmp_path / "my.npz")
    assert main(["data", "view", "my.npz"]) == 0
    assert capsys.readouterr().out == "page: my-data.html\n"
    assert Page(tmp_path / "my-data.html").text
    assert page_name("minari:point/a b-v1") == "minari-point-a-b-v1-data.html"


def test_a_set_that_takes_long_to_build_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path))
    assert main(["data", "view", "antmaze-umaze", "--out", str(tmp_path / "page.html")]) == 2
    assert "antmaze-umaze: is not here yet; calql data build antmaze-umaze" in capsys.readouterr().err


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page with a map, films and findings, as a user sees it; and what it asked for and complained of."""
    folder = tmp_path_factory.mktemp("view")
    data = broken(corridor.demonstrations(12))
    scene = Scene((f"place {HOSTILE}", "one"), FloorPlan(0, 1, [(-1.0, 0.0, 0.0, 3.0)], (0.0, 1.0), (3.0, 1.0)))
    drawn = films.of_environment(data, episodes(data), [0, 1], Drawable, None)
    page_of(data, folder, name=HOSTILE, scene=scene, drawn=drawn)
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.goto((folder / "page.html").as_uri())
    page.locator("#coverage").scroll_into_view_if_needed()
    page.wait_for_selector("#coverage .heatmaplayer image")
    yield page, asked, complaints
    page.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_window(opened: Any, width: int) -> None:
    page, *_ = opened
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(200)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0


def test_episodes_sort_by_keyboard(opened: Any) -> None:
    page, *_ = opened
    steps = "#episodes tbody tr td:nth-child(3)"
    button = page.locator("#episodes th button", has_text="steps")
    button.focus()
    page.keyboard.press("Enter")
    rising = [int(text) for text in page.locator(steps).all_inner_texts()]
    assert rising == sorted(rising)
    page.keyboard.press("Space")
    assert [int(text) for text in page.locator(steps).all_inner_texts()] == sorted(rising, reverse=True)


def test_a_finding_leads_to_its_episode(opened: Any) -> None:
    page, *_ = opened
    page.locator(".finding a", has_text="1").first.click()
    assert page.url.endswith("#episode-1")
    assert page.locator("#episode-1").is_visible()
    marked = page.locator("#episode-1 td").first.evaluate("cell => getComputedStyle(cell).backgroundColor")
    assert marked != page.locator("#episode-2 td").first.evaluate("cell => getComputedStyle(cell).backgroundColor")


def test_two_other_features_are_drawn_from_the_sample(opened: Any) -> None:
    page, *_ = opened
    page.locator("select[data-axis='1']").select_option(label="action 0")
    page.wait_for_function("document.querySelector('#coverage .plot').layout.yaxis.title.text === 'action 0'")
    counted = "document.querySelector('#coverage .plot').data[0].z.flat().reduce((sum, each) => sum + each, 0)"
    assert page.evaluate(counted) == len(corridor.demonstrations(12))
    assert "in even steps" in page.locator("#coverage-note").inner_text()
    page.locator("select[data-axis='1']").select_option(label="one")
    page.wait_for_function("document.querySelector('#coverage .plot').layout.shapes.length === 1")  # the wall again
    assert "all rows" in page.locator("#coverage-note").inner_text()


def test_films_can_be_held(opened: Any) -> None:
    page, *_ = opened
    films_shown, stills = page.locator("img.film:visible"), page.locator("canvas.film")
    assert (films_shown.count(), stills.count()) == (2, 0)
    page.locator("#pause").press("Enter")
    assert (films_shown.count(), stills.count()) == (0, 2)
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    page.locator("#pause").press("Enter")
    assert (films_shown.count(), stills.count()) == (2, 0)


def test_who_wants_less_motion_gets_stills(browser: Any, opened: Any) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(opened[0].url.partition("#")[0])
    page.wait_for_selector("canvas.film")
    assert page.locator("img.film:visible").count() == 0
    context.close()


@pytest.mark.slow
def test_nothing_leaves_the_page_and_names_do_nothing(opened: Any) -> None:
    page, asked, complaints = opened
    assert [url for url in asked if not url.startswith(("file://", "data:", "blob:"))] == []
    assert complaints == []
    assert page.locator("img:not(.film), [onclick]").count() == 0
