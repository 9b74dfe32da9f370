"""From a choice to a plan: notes are given once, environments are closed, actions are clipped where it was asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from toy_task import Line, data

from calql.engine.options import RunOptions
from calql.runs.preparation import Prepared, plan, prepare
from calql.runs.request import Choice, defaults, resolve_task, set_options
from calql.system.errors import UserError


class Counted(Line):
    """A line that knows how many of it are open."""

    opened = 0

    def __init__(self) -> None:
        type(self).opened += 1

    def close(self) -> None:
        type(self).opened -= 1


def experiment(**changes: Any) -> Prepared:
    """Behaviour cloning on data of which every other action lies outside the bounds."""
    choice = Choice(method="bc", episode_limit=5)
    outside = np.where(np.arange(len(data()))[:, None] % 2, 1.3, 0.5) * np.ones((1, 2))
    logged = replace(data(), actions=outside.astype(np.float32))
    task, given, notes = resolve_task(choice, Counted, logged)
    run, options = set_options(*defaults(choice, task), {"policy_widths": (8,), **changes}, "bc")
    return prepare(choice, task, given, run, options, notes)


def test_actions_out_of_bounds_are_noted_once_and_clipped_to_the_limit() -> None:
    made = experiment(action_limit=0.9)
    told = [note for note in made.notes if "outside the bounds" in note]
    half, episodes = len(data()) // 2, len(data().episode_ends)
    assert told == [
        f"{half} of {len(data())} actions lie outside the bounds, by a factor of up to 1.30, in {episodes} of "
        f"{episodes} episodes; clipped to +-0.9"
    ]
    assert np.abs(made.data.actions).max() == np.float32(0.9)


def test_held_out_data_leave_no_environment_open() -> None:
    Counted.opened = 0
    made = experiment(action_limit=0.9)
    made = replace(made, task=replace(made.task, held_out=lambda: replace(data(), actions=2.0 * data().actions)))
    planned = plan(made)
    assert planned.calibration_probe.held_out
    assert np.abs(planned.calibration_probe.actions).max() == np.float32(0.9)
    assert Counted.opened == 0


def test_the_authors_limit_unless_asked_otherwise() -> None:
    assert defaults(Choice(task="pen-binary"))[0].action_limit == 0.99999
    assert defaults(Choice(method="bc"))[0].action_limit == 0.99  # by measurement: docs/decisions/010
    assert defaults(Choice(method="bc", preset="paper"))[0].action_limit == 0.99999


@pytest.mark.parametrize("limit", [0.0, 1.0, -0.5])
def test_a_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(UserError, match=r"--action-limit is .*; it must be above 0 and below 1"):
        RunOptions(action_limit=limit)
