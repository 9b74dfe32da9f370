"""Networks as reference values: trained until held-out error no longer falls, and honest about the result."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from toy_task import Line, data

from calql.data import Dataset
from calql.data.rewards import RewardRule
from calql.methods.reference import Fit, MonteCarlo, fit_reference, over_episodes
from calql.methods.reference.held_out import Quality, hold_out, quality, returns_of
from calql.methods.reference.networks import FittedQ
from calql.runs.preparation import plan, prepare
from calql.runs.record import describe
from calql.runs.request import Choice, defaults, resolve_task, set_options

pytestmark = pytest.mark.slow

RULE = RewardRule()


def walks(lengths: list[int], *, truncated: bool = False) -> Dataset:
    """Reward 1 a step until the end; what is seen is how much of the episode is left, in units of 100 steps.

    Cut off, an episode shows nothing that changes: it could go on for ever.
    """
    left = np.concatenate([np.arange(length, 0, -1) for length in lengths]) / 100.0
    seen = np.stack([np.full_like(left, 0.5) if truncated else left, np.ones_like(left)], axis=1).astype(np.float32)
    ends = np.zeros(len(left), bool)
    ends[np.cumsum(lengths) - 1] = True
    following = np.concatenate([seen[1:], seen[-1:]])
    actions = np.zeros((len(left), 1), np.float32)
    rewards = np.ones(len(left), np.float32)
    return Dataset(seen, actions, rewards, following, ends & (not truncated), ends & truncated)


def fitted(data: Dataset, kind: str = "sarsa", **changes: object) -> tuple[FittedQ, Fit]:
    fit = dataclasses.replace(Fit(data, RULE, 0.99, widths=(32, 32)), **changes)  # type: ignore[arg-type]
    reference = fit_reference(kind, fit)
    assert isinstance(reference, FittedQ)
    return reference, fit


def test_sarsa_knows_the_end_of_an_episode_from_its_middle() -> None:
    """What went wrong with hopper-medium: near a fall, values stayed where the average was."""
    reference, fit = fitted(walks([200] * 20))
    values = over_episodes(reference, fit)[:200]
    returns = over_episodes(MonteCarlo(RULE, 0.99), fit)[:200]
    assert returns[-50:].mean() == pytest.approx(22.0, abs=1.0)
    np.testing.assert_allclose(values[-50:].mean(), returns[-50:].mean(), atol=1.5)
    np.testing.assert_allclose(values, returns, atol=4.0)
    first, *warnings = reference.notes
    assert first.startswith("reference value (SARSA): ")
    assert "at 400 steps of 2 held-out episodes it differs from Monte-Carlo returns by" in first
    assert not warnings
    assert int(first.split(": ")[1].split(" ")[0].replace(",", "")) < fit.updates  # it stopped by itself


def test_a_fit_that_was_cut_short_says_so() -> None:
    reference, _ = fitted(walks([200] * 20), updates=200)
    assert "200 updates" in reference.notes[0]
    assert reference.notes[1].startswith("the reference value is not good: its held-out error was still falling")
    assert "raise --reference-updates" in reference.notes[1]


def test_the_end_of_a_recording_is_not_the_end_of_the_reward() -> None:
    """Cut off after 600 steps of reward 1: worth 100 throughout, and only steps far from the cut are compared."""
    reference, fit = fitted(walks([600] * 10, truncated=True))
    values = over_episodes(reference, fit)
    np.testing.assert_allclose(values, 100.0, atol=2.0)
    # 0.99^459 < 0.01: of 600 steps the first 141 are known to their end
    assert "at 141 steps of 1 held-out episodes" in reference.notes[0]


def test_short_recordings_cannot_be_compared_and_that_is_said() -> None:
    reference, _ = fitted(walks([20] * 10, truncated=True), updates=2000)
    assert "every held-out return depends on what was not recorded any more" in reference.notes[0]


def test_one_episode_alone_cannot_be_judged() -> None:
    reference, _ = fitted(walks([200]), updates=100)
    assert reference.notes == (
        "reference value (SARSA): 100 updates; with one episode none can be held out, so nobody knows how good it is",
    )


@pytest.mark.parametrize("kind", ["sarsa", "regression"])
def test_the_same_seed_gives_the_same_values(kind: str) -> None:
    one, other = (over_episodes(*fitted(walks([50] * 8), kind, updates=1500)) for _ in range(2))
    assert np.array_equal(one, other)


def test_returns_are_completed_from_the_last_recorded_step() -> None:
    fit = Fit(walks([3], truncated=True), RULE, 0.5)
    returns = returns_of(fit)
    np.testing.assert_allclose(returns.until_end, [1.5, 1.0, 0.0])  # 1 + 0.5, 1, nothing before the last step
    np.testing.assert_allclose(returns.tail, [0.25, 0.5, 1.0])
    np.testing.assert_allclose(returns.completed(np.array([0.0, 0.0, 2.0], np.float32)), [2.0, 2.0, 2.0])
    ended = returns_of(Fit(walks([3]), RULE, 0.5))
    np.testing.assert_allclose(ended.completed(np.zeros(3, np.float32)), [1.75, 1.5, 1.0])
    assert ended.whole.all()
    assert not returns.whole.any()


def test_the_error_against_monte_carlo_by_hand() -> None:
    """Two episodes of two steps, returns 1.5 and 1; the values are 1 too high in the first."""
    fit = Fit(walks([2, 2]), RULE, 0.5)
    found = quality(fit, np.array([2.5, 2.0, 1.5, 1.0], np.float32))
    assert found is not None
    assert (found.steps, found.episodes) == (4, 2)
    assert found.bias == pytest.approx(0.5)
    assert found.error == pytest.approx(0.5**0.5)
    assert found.spread == pytest.approx(0.25)
    assert found.uncertainty == pytest.approx(2**0.5 / 4)  # sums of +1 and -1 over 4 steps
    assert found.faults == ["its error is not below that of a constant"]  # +0.5 of two episodes may be chance


def test_a_bias_beyond_chance_is_a_fault() -> None:
    good = Quality(error=3.0, bias=0.5, uncertainty=0.1, spread=10.0, steps=9, episodes=3)
    assert good.faults == []
    assert dataclasses.replace(good, bias=-2.0).faults == ["it is too low by 2 on average"]
    assert dataclasses.replace(good, bias=2.0, uncertainty=1.5).faults == []


def test_whole_episodes_are_held_out_and_never_all() -> None:
    for count, expected in ((1, 0), (2, 1), (40, 4)):
        kept, held = hold_out(Fit(walks([5] * count), RULE, 0.99))
        assert (0 if held is None else len(held.episode_ends)) == expected
        assert len(kept.episode_ends) == count - expected


def test_the_run_tells_the_error() -> None:
    choice = Choice(episode_limit=5)
    task, logged, notes = resolve_task(choice, Line, data())
    run, options = set_options(*defaults(choice, task), {"reference": "sarsa", "reference_updates": 20}, "cal-ql")
    experiment = prepare(choice, task, logged, run, options, notes)
    planned = plan(experiment)
    assert planned.notes[0].startswith("reference value (SARSA): 20 updates")
    assert describe(experiment, "calql train", planned.notes)["fits"] == list(planned.notes)
