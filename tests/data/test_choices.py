"""Discrete actions in data: whole numbers to one-hot rows, what is allowed, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from calql.data import Dataset, concatenate, from_d4rl_arrays, load, one_hot, write_npz
from calql.data.check import check
from calql.data.choices import mask_apart, mask_in
from calql.system.errors import UserError

MASKS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], bool)


def logged(**changes: Any) -> Dataset:
    """Two episodes of two steps: the first ends terminal, the second is cut."""
    seen = np.arange(10, dtype=np.float32).reshape(5, 2)
    data = Dataset(
        observations=seen[:4],
        actions=np.array([0, 2, 0, 1]),
        rewards=np.array([0, 1, 0, 0], np.float32),
        next_observations=seen[1:],
        terminals=np.array([0, 1, 0, 0], bool),
        truncated=np.array([0, 0, 0, 1], bool),
        source="my.npz",
    )
    return replace(data, **changes)


def test_one_hot_rows_and_everything_allowed() -> None:
    found = one_hot(logged(), spaces.Discrete(3))
    np.testing.assert_array_equal(found.actions, [[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
    assert found.actions.dtype == np.float32
    assert found.choices == 3
    assert found.discrete
    assert found.action_masks is not None
    assert found.action_masks.all()
    assert found.next_action_masks is not None
    assert found.next_action_masks.all()


def test_a_space_that_starts_elsewhere() -> None:
    found = one_hot(logged(actions=np.array([-1, 1, -1, 0])), spaces.Discrete(3, start=-1))
    np.testing.assert_array_equal(found.actions.argmax(axis=1), [0, 2, 0, 1])


def test_what_is_allowed_next_is_what_the_following_row_says_within_an_episode() -> None:
    """Row 1 is terminal, after which nothing is chosen; after row 3 the recording stopped, and it must be stored."""
    stored = MASKS[[1, 0, 3, 2]].copy()
    stored[1] = False  # as environments give it at the end of a game
    found = one_hot(logged(action_masks=MASKS, next_action_masks=stored), spaces.Discrete(3))
    np.testing.assert_array_equal(found.next_action_masks, [MASKS[1], [1, 1, 1], MASKS[3], MASKS[2]])
    ended = logged(action_masks=MASKS, terminals=np.array([0, 1, 0, 1], bool), truncated=np.zeros(4, bool))
    np.testing.assert_array_equal(
        one_hot(ended, spaces.Discrete(3)).next_action_masks, [MASKS[1], [1, 1, 1], MASKS[3], [1, 1, 1]]
    )
    with pytest.raises(UserError, match=r"1 episode only stopped being recorded.*store 'next_action_masks'"):
        one_hot(logged(action_masks=MASKS), spaces.Discrete(3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": np.array([0, 7, 0, -1])}, "2 actions outside 0 to 2, the first is 7 in row 1; data and env"),
        (
            {"actions": np.zeros((4, 1), np.float32)},
            r"actions are float32 \[4, 1\] and .* Discrete\(3\); store one",
        ),
        ({"action_masks": MASKS[:, :2]}, "'action_masks' has 2 columns and the environment 3 actions"),
        ({"action_masks": ~MASKS}, "'action_masks' forbids every action in 1 row, the first is row 3"),
        ({"action_masks": MASKS[::-1]}, "'action_masks' forbids the logged action in 1 row, the first is row 2"),
        ({"next_action_masks": MASKS}, "has 'next_action_masks' alone"),
        (
            {"action_masks": MASKS, "next_action_masks": np.zeros_like(MASKS)},
            "'next_action_masks' forbids every action in 3 rows, the first is row 0",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        one_hot(logged(**changes), spaces.Discrete(3))
    assert str(raised.value).startswith("my.npz: ")
    assert "\n" not in str(raised.value)


def test_masks_go_with_their_rows_and_through_files(tmp_path: Path) -> None:
    data = logged(action_masks=MASKS, next_action_masks=MASKS[::-1].copy())
    twice = concatenate([data, data], source="twice")
    np.testing.assert_array_equal(twice.select_episodes([3]).action_masks, MASKS[2:])
    with pytest.raises(UserError, match="some parts have 'action_masks' and some have not"):
        concatenate([data, logged()], source="mixed")
    found = load(write_npz(data, tmp_path / "logs.npz"))
    assert found.actions.dtype == np.int64
    for name in ("actions", "action_masks", "next_action_masks"):
        np.testing.assert_array_equal(getattr(found, name), getattr(data, name))


def test_rows_without_next_observations_take_the_mask_of_the_row_after_them() -> None:
    """The time-out row is left out, but what it says is known."""
    arrays = {
        "observations": np.arange(8.0).reshape(4, 2),
        "actions": np.array([0, 2, 0, 1]),
        "rewards": np.zeros(4),
        "terminals": np.zeros(4),
        "timeouts": np.array([0, 0, 0, 1]),
        "action_masks": MASKS,
    }
    found = from_d4rl_arrays(arrays, "x")
    np.testing.assert_array_equal(found.action_masks, MASKS[:3])
    np.testing.assert_array_equal(found.next_action_masks, MASKS[1:])


class Masked(gymnasium.Env[Any, Any]):
    """Says in its info, or among its observations, what is allowed."""

    action_space = spaces.Discrete(3)

    def __init__(self, *, within: bool = False, says: bool = True) -> None:
        self.within, self.says, self.forbidden_sent = within, says, 0
        seen = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space: Any = seen
        if within:
            self.observation_space = spaces.Dict({"observation": seen, "action_mask": spaces.MultiBinary(3)})

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**given)
        self.steps = 0
        return self._seen(), self._info()

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.forbidden_sent += not MASKS[self.steps % 4][action]
        self.steps += 1
        return self._seen(), float(self.steps == 4), self.steps == 4, False, self._info()

    def _seen(self) -> Any:
        seen = np.full(2, self.steps, np.float32)
        return {"observation": seen, "action_mask": MASKS[self.steps % 4]} if self.within else seen

    def _info(self) -> dict[str, Any]:
        return {"action_mask": MASKS[self.steps % 4].astype(np.int8)} if self.says and not self.within else {}


def test_a_mask_among_the_observations_goes_into_the_info() -> None:
    env = mask_apart(Masked(within=True))
    assert env.observation_space == spaces.Box(-np.inf, np.inf, (2,), np.float32)
    seen, info = env.reset(seed=0)
    assert seen.shape == (2,)
    np.testing.assert_array_equal(mask_in(info, 3), MASKS[0])
    seen, *_, info = env.step(0)
    np.testing.assert_array_equal(mask_in(info, 3), MASKS[1])
    plain = Masked()
    assert mask_apart(plain) is plain


def test_a_mask_of_another_size_is_no_mask() -> None:
    assert mask_in({}, 3) is None
    with pytest.raises(ValueError, match=r"its action_mask has shape \(2,\), not \(3,\)"):
        mask_in({"action_mask": [1, 0]}, 3)


def test_a_trial_sends_nothing_forbidden_and_compares_who_has_masks() -> None:
    masked = logged(action_masks=MASKS, next_action_masks=MASKS)
    env = Masked()
    check(masked, env, name="Masked-v0")
    assert env.forbidden_sent == 0
    assert any("the data do not: all count as allowed" in words for words in check(logged(), Masked(), name="M"))
    with pytest.raises(UserError, match=r"gives no 'action_mask' and my.npz has 'action_masks'"):
        check(masked, Masked(says=False), name="Masked-v0")


def test_whole_numbers_in_a_box_are_refused() -> None:
    env = Masked()
    env.action_space = spaces.Box(-1, 1, (1,), np.float32)  # type: ignore[assignment]
    with pytest.raises(UserError, match="actions are whole numbers and those of Masked-v0 are Box"):
        check(logged(), env, name="Masked-v0")
