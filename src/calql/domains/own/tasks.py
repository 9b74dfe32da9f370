"""A task from the user's own dataset and environment."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

from calql.data import Dataset
from calql.data.choices import MASK
from calql.data.rewards import RewardRule
from calql.domains.base import NormalisedReturn, Score, Task, success_rate
from calql.domains.own import NAME
from calql.domains.own.size import PAPER, Size
from calql.system.errors import UserError

ScoreKind = Literal["success", "return"]
MakeEnv = Callable[[], gymnasium.Env[Any, Any]]

OPTIONS: Mapping[str, Any] = {"target_bounds": True}
NAMED = "name it as package:Name-v0, with its package installed"
LOOK_HERE = "put PYTHONPATH=. before the command, or begin it with python -m calql"


def env_maker(env: str | MakeEnv) -> MakeEnv:
    """From a Gymnasium name ('package:Name-v0' imports the package first) or a function without arguments."""
    return partial(gymnasium.make, env) if isinstance(env, str) else env


def own_task(
    name: str,
    data: Dataset,
    env: str | MakeEnv,
    *,
    episode_limit: int | None = None,
    score: ScoreKind | None = None,
    size: Size = PAPER,
) -> tuple[Task, list[str]]:
    """Describe the task from what the data and the environment say of themselves; also what was assumed, in words.

    Nothing is driven here. Unless the score is named, a trial decides it later: success where it is reported.
    """
    make_env = env_maker(env)
    limit = episode_limit or own_limit(name, env)
    if not limit:
        longest = int(data.episode_lengths.max())
        raise UserError(
            "the environment has no time limit",
            where=name,
            mend=f"give one, for example --episode-limit {longest}: the longest logged episode has so many steps",
        )
    failure, reference, assumed = assumptions(data)
    size = size.of_choices() if data.discrete else size
    notes = [*size.notes(), *assumed]
    task = Task(
        name=name,
        domain=NAME,
        summary=f"{data.source} in {name}",
        make_env=make_env,
        data=lambda: data,
        episode_limit=int(limit),
        score=success_rate if score == "success" else NormalisedReturn(*logged_range(data)),
        rewards=RewardRule(failure=failure),
        protocol=size.protocol,
        reference=reference,
        options=OPTIONS,
        machine=size.machine,
        fitted=size.options,
        trial=partial(_score, data) if score is None else None,
        discrete=data.discrete,
    )
    return task, notes


def outline(env: str, size: Size = PAPER) -> Task:
    """What options need to know of a task, before its data are read and its environment is made."""
    return Task(
        name=env,
        domain=NAME,
        summary=f"data of one's own in {env}",
        make_env=env_maker(env),
        data=_unread,
        episode_limit=0,
        score=success_rate,
        rewards=RewardRule(),
        protocol=size.protocol,
        options=OPTIONS,
        machine=size.machine,
        fitted=size.options,
    )


def _unread() -> Dataset:
    raise AssertionError("an outline has no data")


def own_limit(name: str, env: str | MakeEnv) -> int | None:
    """Steps after which an episode is cut: as the environment is registered, else as one that is made says."""
    if isinstance(env, str):
        module, _, short = env.rpartition(":")
        with contextlib.suppress(Exception):  # whatever its import raises, making it will say
            if module:
                importlib.import_module(module)
            return gymnasium.spec(short).max_episode_steps
    made = made_env(name, env_maker(env))
    try:
        return getattr(made.spec, "max_episode_steps", None)
    finally:
        made.close()


def kind_of(score: Score) -> ScoreKind:
    """As a user names it."""
    return "success" if score is success_rate else "return"


def assumptions(data: Dataset) -> tuple[float | None, str, list[str]]:
    """What the data alone say: the reward of failing where rewards are sparse, the reference value; and in words."""
    notes, failure = [], sparse_failure(data)
    if failure is not None:
        notes.append(f"rewards are sparse: an episode that earns nothing but {failure:g} counts as failing for ever")
    reference = "monte-carlo" if data.terminals.any() else "sarsa"
    if reference == "sarsa":
        notes.append("no episode ends in a terminal: the reference value is fitted by SARSA")
    return failure, reference, notes


def sparse_failure(data: Dataset) -> float | None:
    """The reward of a step without success, where only two rewards occur and success ends the episode."""
    values = np.unique(data.rewards)
    if len(values) != 2 or not data.terminals.any():
        return None
    best = data.rewards == values[1]
    return float(values[0]) if np.array_equal(best, data.terminals) else None


def made_env(name: str, make_env: MakeEnv) -> gymnasium.Env[Any, Any]:
    try:
        return make_env()
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the environment cannot be made: {type(error).__name__}: {error}",
            where=name,
            mend=_not_found(name.partition(":")[0].partition(".")[0], error) or NAMED,
        ) from error


def _not_found(package: str, error: Exception) -> str:
    """How to mend it where the package lies in this folder, where Python does not look; empty otherwise."""
    if not isinstance(error, ModuleNotFoundError) or f"No module named '{package}'" not in str(error):
        return ""
    for here in (f"{package}.py", package):
        if Path(here).exists():
            return f"{here} is in this folder, where Python does not look: {LOOK_HERE}"
    return ""


def logged_range(data: Dataset) -> tuple[float, float]:
    """Returns of the worst and the best logged episode."""
    returns = np.add.reduceat(data.rewards.astype(np.float64), data.episode_starts)
    low, high = float(returns.min()), float(returns.max())
    return (low, high) if high > low else (high - max(abs(high), 1.0), high)


def _score(data: Dataset, env: gymnasium.Env[Any, Any] | None) -> tuple[Score, str]:
    """Success rate where the environment reports success, else the return between the worst and best logged one."""
    if env is not None and _reports_success(env):
        return success_rate, "score: share of episodes in which the environment reports success"
    low, high = logged_range(data)
    untried = "" if env is not None else "; if the environment reports success, say so with --score success"
    return (
        NormalisedReturn(low, high),
        f"score: return, 0 at {low:g} and 1 at {high:g} (worst and best logged episode){untried}",
    )


def _any_action(env: gymnasium.Env[Any, Any], info: Mapping[str, Any]) -> Any:
    """A sampled one, of those that are allowed where the environment says which are."""
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete) and MASK in info:
        return space.sample(np.asarray(info[MASK], np.int8))
    return space.sample()


def _reports_success(env: gymnasium.Env[Any, Any]) -> bool:
    try:
        _, info = env.reset(seed=0)
        *_, info = env.step(_any_action(env, info))
    except Exception as error:
        raise UserError(
            f"the environment raised when tried out: {type(error).__name__}: {error}",
            where=str(env.spec.id if env.spec else env),
            mend="make reset(seed=0) and one step() with a sampled action work first",
        ) from error
    return "success" in info or "is_success" in info
