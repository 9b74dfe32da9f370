"""Films of environments of one's own: what they need, and what is said where they cannot be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from test_probe import TINY

import calql
import corridor
from calql.cli import main
from calql.runs.film import filmed
from calql.system.errors import UserError


class Drawn(corridor.Corridor):
    """The corridor, drawing itself."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.full((20, 30, 3), 128, np.uint8)


gymnasium.register("OwnDrawn-v0", Drawn, max_episode_steps=12)


@pytest.mark.slow
def test_a_run_in_an_environment_of_ones_own_is_filmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = corridor.write_demonstrations(tmp_path)
    run = calql.train(dataset=data, env="test_own_film:OwnDrawn-v0", out=tmp_path / "run", **TINY).folder
    assert main(["render", str(run)]) == 0
    films = [line.removeprefix("film: ") for line in capsys.readouterr().out.splitlines()]
    assert [Path(film).name for film in films] == ["seed-0-switch.gif", "seed-0-final.gif"]
    assert all(Path(film).read_bytes().startswith(b"GIF8") for film in films)


class Choosing(Drawn):
    """Its mask lies among its observations."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        mask = spaces.Box(0, 1, (2,), np.int8)
        self.observation_space = spaces.Dict({"place": spaces.Box(-9, 9, (2,)), "action_mask": mask})  # type: ignore
        self.action_space = spaces.Discrete(2)  # type: ignore[assignment]

    def reset(self, **given: Any) -> Any:
        return {"place": np.zeros(2, np.float32), "action_mask": np.array([0, 1], np.int8)}, {}

    def step(self, action: Any) -> Any:
        return {"place": np.ones(2, np.float32), "action_mask": np.array([1, 0], np.int8)}, 0.0, action == 0, False, {}


def test_a_policy_that_is_filmed_sees_what_it_saw_in_training() -> None:
    seen = []

    def policy(observation: Any, mask: Any) -> int:
        seen.append((observation.tolist(), mask.tolist()))
        return int(np.argmax(mask))

    film = filmed(Choosing, policy, "mine", seed=0, limit=9, size=32)
    assert seen == [([0.0, 0.0], [0, 1]), ([1.0, 1.0], [1, 0])]
    assert len(film.pictures) == 3


class Broken(Drawn):
    def render(self) -> Any:
        raise ValueError("no brush")


def test_what_render_raises_is_told_as_it_is() -> None:
    with pytest.raises(UserError, match=r"Broken: render\(\) raises ValueError: no brush; make env.render\(\) work"):
        filmed(Broken, lambda seen: np.zeros(1, np.float32), "mine", seed=0, limit=2, size=32)
