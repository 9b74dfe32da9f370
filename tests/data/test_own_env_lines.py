"""What an error says to do about an environment of one's own is done, and it works."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import corridor
from calql.data import check
from calql.domains.own.tasks import own_task
from calql.system.errors import UserError


class Parts(gymnasium.ObservationWrapper[Any, Any, Any]):
    """The corridor with its observation in two parts."""

    def __init__(self) -> None:
        super().__init__(corridor.Corridor())
        part = spaces.Box(-10.0, 10.0, (1,), np.float32)
        self.observation_space = spaces.Dict({"at": part, "one": part})

    def observation(self, observation: Any) -> dict[str, Any]:
        return {"at": observation[:1], "one": observation[1:]}


gymnasium.register("OwnParts-v0", Parts, max_episode_steps=20)
gymnasium.register("OwnEndless-v0", corridor.Corridor)


def test_the_line_for_a_dictionary() -> None:
    data = corridor.demonstrations()
    with pytest.raises(UserError) as raised:
        check(data, gymnasium.make("OwnParts-v0"), name="OwnParts-v0")
    line = re.search(r"gymnasium\.register\(.*\)\)\)", str(raised.value))
    assert line is not None
    exec(line.group(0), {"gymnasium": gymnasium})
    flat = gymnasium.make("Flat-v0")
    assert not any("start far" in warning for warning in check(data, flat, name="Flat-v0"))
    np.testing.assert_array_equal(flat.reset(seed=3)[0], corridor.Corridor().reset(seed=3)[0])


def test_the_option_for_an_environment_without_a_time_limit() -> None:
    data = corridor.demonstrations()
    with pytest.raises(UserError) as raised:
        own_task("OwnEndless-v0", data, "OwnEndless-v0")
    limit = int(str(raised.value).partition("--episode-limit ")[2].partition(":")[0])
    task, _ = own_task("OwnEndless-v0", data, "OwnEndless-v0", episode_limit=limit)
    assert task.episode_limit == limit == data.episode_lengths.max()
