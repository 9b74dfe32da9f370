"""Do data and environment belong together? Asked before any training, answered in plain words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.data.actions import LIMIT, normalise_actions
from calql.data.choices import MASK, mask_in, one_hot
from calql.data.dataset import Dataset
from calql.data.dictionaries import in_form
from calql.system.errors import UserError
from calql.system.layout import Layout
from calql.system.walk import moments

RESETS = 8
STEPS = 200
FEW_REWARDS = 3  # different values, up to which rewards are taken for sparse
FAR_START = 3.0  # standard deviations of the data beyond any recorded first observation

Env = gymnasium.Env[Any, Any]
Actions = spaces.Box | spaces.Discrete


def check(
    dataset: Dataset,
    env: Env,
    *,
    name: str,
    limit: float = LIMIT,
    probe: bool = True,
    before_trial: Callable[[], object] = lambda: None,
) -> list[str]:
    """Stop at what cannot train (UserError); return warnings about what probably should not.

    Resets the environment a few times and takes some random steps in it, `before_trial` said so; without `probe`, looks
    at its spaces alone. `limit` is what actions are going to be clipped to; the warnings say so.
    """
    env = in_form(env, dataset.form, name)
    observation_space, action_space = _spaces(env, name)
    _check_observations(dataset, observation_space, name)
    warnings = _check_actions(dataset, action_space, name, limit)
    if not probe:
        return warnings
    before_trial()
    trial = _try_out(env, observation_space, action_space, name, dataset.layout)
    return [
        *warnings,
        *_reward_warnings(dataset, trial),
        *_end_warnings(dataset, trial),
        *_start_warnings(dataset, trial),
        *_mask_warnings(dataset, trial, name),
    ]


def _spaces(env: Env, name: str) -> tuple[spaces.Box, Actions]:
    observations, actions = env.observation_space, env.action_space
    if isinstance(observations, spaces.Dict):
        raise UserError(
            f"observations are a dictionary of {', '.join(observations.spaces)}",
            where=name,
            mend="where the data are a dictionary too, choose the same parts by name with --observations; else "
            "register it flat, in the order of the data, and name that: gymnasium.register('Flat-v0', lambda: "
            f"gymnasium.wrappers.FlattenObservation(gymnasium.make('{name}'))); then --env my_package:Flat-v0",
        )
    if not isinstance(observations, spaces.Box):
        raise UserError(f"observation space is {observations}", where=name, mend="it must be a Box")
    if isinstance(actions, spaces.MultiDiscrete | spaces.MultiBinary):
        together = np.prod(actions.nvec) if isinstance(actions, spaces.MultiDiscrete) else 2 ** np.prod(actions.shape)
        raise UserError(
            f"action space is {actions}, several choices at once",
            where=name,
            mend=f"wrap it so that one number stands for each combination, as Discrete({together}), in the data too",
        )
    if not isinstance(actions, spaces.Box | spaces.Discrete):
        raise UserError(f"action space is {actions}", where=name, mend="only a Box or a Discrete can be learnt")
    return observations, actions


def _check_observations(dataset: Dataset, space: spaces.Box, name: str) -> None:
    recorded = dataset.observations
    if recorded.shape[1:] != space.shape:
        raise UserError(
            f"observations have shape {space.shape} and those of {dataset.source} {recorded.shape[1:]}",
            where=name,
            mend="wrap the environment or convert the data, so that both see the same",
        )
    if dataset.layout is not None:  # `in_form` has compared what is packed, part by part
        return
    image, recorded_image = space.dtype == np.uint8 and len(space.shape) > 1, recorded.dtype == np.uint8
    if image != recorded_image:
        raise UserError(
            f"observations are {space.dtype} and those of {dataset.source} {recorded.dtype}",
            where=name,
            mend="images must be uint8 in both, anything else a float in both",
        )


def _check_actions(dataset: Dataset, space: Actions, name: str, limit: float) -> list[str]:
    """Refuse actions that the environment does not have; warnings about the others."""
    if isinstance(space, spaces.Discrete):
        one_hot(dataset, space)
        return []
    if dataset.discrete:
        raise UserError(
            f"actions are whole numbers and those of {name} are {space}",
            where=dataset.source,
            mend="store continuous actions as [row, action], or take an environment with a Discrete space",
        )
    _check_box(dataset, space, name)
    return normalise_actions(dataset, space.low, space.high, limit=limit)[1]


def _check_box(dataset: Dataset, space: spaces.Box, name: str) -> None:
    if dataset.actions.shape[1:] != space.shape:
        raise UserError(
            f"actions have shape {space.shape} and those of {dataset.source} {dataset.actions.shape[1:]}",
            where=name,
            mend="data and environment must have the same action space",
        )
    if not (np.isfinite([space.low, space.high]).all() and (space.low < space.high).all()):
        raise UserError(
            f"action bounds {space.low} to {space.high} are not finite ranges",
            where=name,
            mend="wrap it in gymnasium.wrappers.RescaleAction or give its Box finite bounds",
        )


@dataclass(frozen=True)
class _Trial:
    """What the environment showed in a few resets and random steps."""

    starts: NDArray[Any]  # [reset, ...]; of packed observations, their vectors
    rewards: NDArray[np.float64]  # [step]
    terminated: int
    truncated: int
    masked: bool  # whether it says which actions are allowed


def _try_out(
    env: Env, observation_space: spaces.Box, action_space: Actions, name: str, layout: Layout | None
) -> _Trial:
    try:
        look = partial(_seen, observation_space, layout, name)
        resets = [_pair(env.reset(seed=seed)) for seed in range(RESETS)]
        starts = [look("reset", seen) for seen, _ in resets]
        rewards, terminated, truncated = _random_steps(env, action_space, resets[-1][1], partial(look, "step"))
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"raises {type(error).__name__} when tried out ({error})",
            where=name,
            mend="reset(seed=...) and step(action) must follow Gymnasium's interface",
        ) from error
    if not np.isfinite(rewards).all():
        raise UserError("step() gives NaN or inf as a reward", where=name, mend="correct its step")
    return _Trial(np.stack(starts), rewards, terminated, truncated, masked=MASK in resets[-1][1])


def _pair(reset: Any) -> tuple[Any, dict[str, Any]]:
    """Said before it is taken apart: an observation of two numbers would pass for a pair."""
    if not (isinstance(reset, tuple) and len(reset) == 2):
        raise TypeError(f"reset() returned no pair (observation, info) but {type(reset).__name__}")
    return reset


def _seen(space: spaces.Box, layout: Layout | None, name: str, call: str, seen: Any) -> NDArray[Any]:
    """An observation that the environment gave, refused where it is not what its space says; its vectors, if packed."""
    observation = np.asarray(seen)
    if observation.shape != space.shape:
        raise UserError(
            f"{call}() gives an observation of shape {observation.shape} and its observation space says {space.shape}",
            where=name,
            mend="correct observation_space, or what is returned",
        )
    numbers = observation if layout is None else layout.vectors_of(observation[None])[0]
    if not np.isfinite(numbers).all():
        raise UserError(f"{call}() gives NaN or inf in an observation", where=name, mend=f"correct its {call}")
    return numbers


def _random_steps(
    env: Env, space: Actions, info: dict[str, Any], look: Callable[[Any], object]
) -> tuple[NDArray[np.float64], int, int]:
    rng = np.random.default_rng(0)  # its own: the action space's generator is the user's
    rewards, terminations, truncations = [], 0, 0
    for _ in range(STEPS):
        seen, reward, terminated, truncated, info = env.step(_random_action(rng, space, info))
        look(seen)
        rewards.append(float(reward))
        terminations += bool(terminated)
        truncations += bool(truncated and not terminated)
        if terminated or truncated:
            _, info = env.reset()
    return np.asarray(rewards, np.float64), terminations, truncations


def _random_action(rng: np.random.Generator, space: Actions, info: dict[str, Any]) -> Any:
    if isinstance(space, spaces.Box):
        return rng.uniform(space.low, space.high).astype(space.dtype)
    allowed = mask_in(info, int(space.n))
    if allowed is not None and not allowed.any():
        raise ValueError(f"its {MASK} forbids every action")
    return space.start + rng.choice(np.arange(space.n) if allowed is None else np.flatnonzero(allowed))


def _mask_warnings(dataset: Dataset, trial: _Trial, name: str) -> list[str]:
    """Masks in one and not in the other: a forbidden action would be sent, or be taken for a choice in the data."""
    if dataset.action_masks is None:
        unsaid = "the environment says which actions are allowed and the data do not: all count as allowed there"
        return [f"{unsaid} (store 'action_masks')"] if trial.masked else []
    if not trial.masked:
        raise UserError(
            f"gives no '{MASK}' and {dataset.source} has 'action_masks'",
            where=name,
            mend=f"give it in the info of reset and step, as '{MASK}', or leave the column out",
        )
    return []


def _reward_warnings(dataset: Dataset, trial: _Trial) -> list[str]:
    """Both ways: random steps earn what was recorded, and where rewards are few numbers, these are in the other too.

    Rewards that vary need not overlap: an expert's are far from those of random steps.
    """
    low, high = float(dataset.rewards.min()), float(dataset.rewards.max())
    slack = 0.5 * (high - low) + 1e-6
    outside = (trial.rewards < low - slack) | (trial.rewards > high + slack)
    foreign = _foreign(dataset.rewards, trial.rewards) or _foreign(trial.rewards, dataset.rewards)
    if not outside.any() and not foreign:
        return []
    return [
        f"random steps earn rewards from {trial.rewards.min():g} to {trial.rewards.max():g}, recorded ones "
        f"go from {low:g} to {high:g}: data and environment may use different rewards"
    ]


def _foreign(rewards: NDArray[Any], others: NDArray[Any]) -> bool:
    """Whether `others` take a few values only, none of which is among the rewards, or in the range of many."""
    values, known = np.unique(others), np.unique(rewards)
    if len(values) > FEW_REWARDS:
        return False
    if len(known) <= FEW_REWARDS:
        return not np.isclose(known[:, None], values, rtol=1e-3, atol=1e-6).any()
    slack = 0.01 * (known[-1] - known[0])
    return not ((values >= known[0] - slack) & (values <= known[-1] + slack)).any()


def _end_warnings(dataset: Dataset, trial: _Trial) -> list[str]:
    """Terminal in one and not in the other biases every target, and nothing fails."""
    if trial.terminated and not dataset.terminals.any():
        return [
            f"the environment ended {trial.terminated} episodes as terminated within {STEPS} random steps, "
            "and no recorded episode ends in a terminal step: 'terminals' may be missing, or be in 'timeouts'"
        ]
    ends = dataset.terminals[dataset.episode_ends]
    lengths = dataset.episode_lengths
    of_one_length = np.mean(lengths == lengths.max()) >= 0.9
    if ends.mean() < 0.9 or trial.terminated or (_ends_in_success(dataset) and not of_one_length):
        return []
    if trial.truncated:
        return [
            f"{ends.mean():.0%} of recorded episodes end in a terminal step and the environment's were "
            "truncated: time limits may have been recorded as 'terminals'"
        ]
    if 3 * np.median(lengths) < STEPS:
        return [
            f"{ends.mean():.0%} of recorded episodes end in a terminal step and the environment did not end "
            f"one within {STEPS} random steps"
        ]
    return []


def _ends_in_success(dataset: Dataset) -> bool:
    """Terminal steps earn the most there is, and others less: random actions need not get there."""
    most = dataset.rewards.max()
    return bool(np.median(dataset.rewards[dataset.terminals]) >= most > dataset.rewards.min())


def _start_warnings(dataset: Dataset, trial: _Trial) -> list[str]:
    """Features of fresh episodes that no recorded episode began with, by far."""
    if dataset.vectors is None or not dataset.vectors.shape[1]:
        return []
    firsts = dataset.vectors[dataset.episode_starts]
    spread = moments(dataset.vectors)[1] + 1e-3
    beyond = np.maximum(firsts.min(axis=0) - trial.starts, trial.starts - firsts.max(axis=0)) / spread
    far = np.flatnonzero(np.median(beyond, axis=0) > FAR_START)
    if far.size == 0:
        return []
    worst = int(far[np.argmax(np.median(beyond, axis=0)[far])])
    return [
        f"{far.size} of {firsts.shape[1]} observation features start far from any recorded start (most of "
        f"all feature {worst}: {np.median(trial.starts[:, worst]):g}, recorded {firsts[:, worst].min():g} to "
        f"{firsts[:, worst].max():g}): the order or the units of features may differ"
    ]
