"""Updates after each step: the policy of a step has had those before it, and no row has a placeholder."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from test_run import build
from toy_task import LIMIT, run_options, task, tiny
from toy_task import data as toy_data

import corridor
from calql.data import return_to_go
from calql.engine.plan import make_plan
from calql.engine.run import Run
from calql.results import Silent
from calql.results.metrics import read_rows
from calql.system.errors import UserError


def advanced(run: Run, steps: int) -> Run:
    while int(run.counters.env_steps.min()) < steps:
        run._advance()
    return run


@pytest.mark.slow
def test_updates_follow_each_step_once_there_is_something_to_draw(tmp_path: Path) -> None:
    run = build(tmp_path / "r", update_schedule="step", offline_updates=0, update_ratio=2, online_steps=70)
    advanced(run, 0)
    while not run.finished:
        run._advance()
        for index in range(2):
            done, steps = int(run.learning.updates[index]), int(run.counters.env_steps[index])
            if run.counters.episodes[index] == 0:
                assert done == 0
            elif run._idle[index]:
                assert done == 2 * steps
    assert run.counters.env_steps.tolist() == [70, 70]
    run.close()


def test_rows_are_inserted_when_their_episode_has_ended_with_its_return(tmp_path: Path) -> None:
    run = advanced(build(tmp_path / "r", update_schedule="step", offline_updates=0, online_steps=70), 65)
    inserted = np.asarray(run.replay.inserted)
    np.testing.assert_array_equal(inserted, run.counters.env_steps - run.stepper.open_steps)
    for seed, size in enumerate(inserted):
        rows = jax.tree.map(lambda column, seed=seed, size=size: np.asarray(column[seed, :size]), run.replay.rows)
        piece = slice(0, 20) if not rows.terminals[:20].any() else slice(0, int(np.argmax(rows.terminals)) + 1)
        expected = return_to_go(
            rows.rewards[piece],
            rows.terminals[piece] > 0,
            0.99,
            sparse_failure_reward=run.plan.task.rewards.mapped_failure,
        )
        np.testing.assert_allclose(rows.reference[piece], expected, rtol=1e-5)
    run.close()


@pytest.mark.slow
def test_the_policy_changes_within_an_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = build(tmp_path / "r", update_schedule="step", offline_updates=0, online_steps=60, seeds=1)
    seen: list[tuple[int, Any]] = []
    actions = type(run.stepper)._actions

    def noted(stepper: Any, who: Any, policies: Any) -> Any:
        seen.append((int(run.counters.episodes[0]), np.asarray(jax.tree.leaves(policies)[0])))
        return actions(stepper, who, policies)

    monkeypatch.setattr(type(run.stepper), "_actions", noted)
    advanced(run, 55)
    run.close()
    for (_, before), (episode, after) in itertools.pairwise(seen):
        assert np.array_equal(before, after) == (episode == 0)  # in the first, there is nothing to draw yet


class Forgetful(corridor.Corridor):
    """Does not honour its seed."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        type(self).resets += 1
        return super().reset(seed=type(self).resets)


@pytest.mark.slow
def test_an_environment_that_ignores_its_seed_is_told_of(tmp_path: Path) -> None:
    for env, notes in ((corridor.Corridor, 0), (Forgetful, 2)):
        run = build(tmp_path / env.__name__, env=env, update_schedule="step", offline_updates=0)
        advanced(run, 3).save()
        again = build(tmp_path / env.__name__, env=env, update_schedule="step", offline_updates=0)
        again.restore()
        assert len(again.stepper.replay()) == notes
        np.testing.assert_array_equal(again.stepper.open_steps, run.stepper.open_steps)
        run.close()
        again.close()


@pytest.mark.slow
def test_a_policy_that_remembers_goes_on_within_an_episode(tmp_path: Path) -> None:
    """Stopped in the middle of an episode, the decision transformer knows what came before."""

    def started(folder: Path) -> Run:
        folder.mkdir(exist_ok=True)
        options = run_options("odt", update_schedule="step", updates_per_episode=0, offline_updates=2, online_steps=12)
        return Run(make_plan("odt", task(), tiny("odt"), options, toy_data(), None, 0.99), folder, Silent())

    whole = started(tmp_path / "whole")
    assert whole.execute(lambda: False)
    cut = advanced(started(tmp_path / "cut"), LIMIT + 2)
    assert cut.stepper.open_steps.any()
    cut.save()
    cut.close()
    again = started(tmp_path / "cut")
    again.restore()
    assert again.execute(lambda: False)
    left, right = (read_rows(tmp_path / name / "metrics.jsonl") for name in ("whole", "cut"))
    assert left == right


@pytest.mark.slow
@pytest.mark.parametrize("clash", [{"lag": 1}, {"trajectories": 2}, {"updates_per_episode": 5}])
def test_what_does_not_go_with_it_is_refused(clash: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="with --update-schedule step"):
        build(tmp_path / "r", update_schedule="step", **clash)
