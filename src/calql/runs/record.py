"""A run in words: what config.json says of it, and the same run made again from there."""

from __future__ import annotations

import dataclasses
import platform
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gymnasium import spaces

from calql.data import Dataset, load, possible_returns
from calql.data.stored import Stored
from calql.domains.base import NormalisedReturn, Score
from calql.domains.own.tasks import MakeEnv, kind_of
from calql.engine.checkpoint import Saved
from calql.engine.options import RunOptions
from calql.engine.plan import Plan
from calql.methods import method_entry, same_method, title_of
from calql.results.arms import KNOWN_AS, arms_of
from calql.runs import given
from calql.runs.changes import changed
from calql.runs.folder import require_begun
from calql.runs.origins import origins_of
from calql.runs.policy_folder import FORMAT
from calql.runs.preparation import DISCOUNT, Prepared, prepare
from calql.runs.request import Choice, resolve, resolve_task
from calql.runs.spaces import ActionSpace, action_space, from_words, in_words
from calql.runs.trust import require_trusted
from calql.system.cores import available_cores
from calql.system.errors import UserError
from calql.system.provenance import commit
from calql.system.run_config import damaged, options_from
from calql.system.run_config import read_config as read_whole_config
from calql.system.run_files import CONFIG
from calql.system.walk import chunks

PACKAGES = (
    "calql",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "gymnasium",
    "gymnasium-robotics",
    "mujoco",
    "numpy",
)


def describe(prepared: Prepared, command: str, fits: Sequence[str] = ()) -> dict[str, Any]:
    """The resolved configuration as it is written to config.json; enough to build the prepared again.

    `fits` are sentences about what planning fitted, for whoever reads the file or the report.
    """
    choice = prepared.choice
    return {
        "task": prepared.task.name,
        "method": choice.method,
        KNOWN_AS: arm_titles(choice),
        "seeds": [prepared.run.first_seed + i for i in range(prepared.run.seeds)],
        "choice": dataclasses.asdict(choice),
        "run": dataclasses.asdict(prepared.run),
        "options": dataclasses.asdict(prepared.options),
        "rewards": dataclasses.asdict(prepared.task.rewards),
        "environment": {
            "episode_limit": prepared.task.episode_limit,
            "score": kind_of(prepared.task.score),
            "score_range": _range(prepared.task.score),
            **_actions(prepared.action_space),
            "observation": None if prepared.observation_space is None else in_words(prepared.observation_space),
        },
        "dataset": {
            "source": prepared.data.source,
            "transitions": len(prepared.data),
            "episodes": len(prepared.data.episode_ends),
            "fingerprint": fingerprint(prepared.data),
            "observation_parts": [list(part) for part in prepared.data.parts],
            "action_dim": None if prepared.data.discrete else int(prepared.data.actions.shape[1]),
            "reward_min": float(prepared.task.rewards.map(prepared.data.rewards).min()),
            "reward_max": float(prepared.task.rewards.map(prepared.data.rewards).max()),
            "possible_returns": list(_possible(prepared)),
        },
        **({"fits": list(fits)} if fits else {}),
        "versions": versions(),
        "cores": available_cores(),
        "devices": prepared.devices,
        "command": command,
    }


def _range(score: Score) -> list[float] | None:
    """Returns that count as 0 and 1, where that is the score."""
    return [score.low, score.high] if isinstance(score, NormalisedReturn) else None


def arm_titles(choice: Choice) -> dict[str, str]:
    """What papers call the arms of a sweep, where all of them are methods that have a name.

    Otherwise a name would hide the value, and the other arms would have nothing to be told from it by.
    """
    arms = arms_of({"choice": dataclasses.asdict(choice)})
    names = {arm: same_method(choice.method, changes) for arm, changes in arms.items()}
    titles = {arm: title_of(name) for arm, name in names.items() if name is not None}
    return titles if len(titles) == len(arms) else {}


def describe_policies(prepared: Prepared, plan: Plan) -> dict[str, Any]:
    """What its policies are, for policy.json: enough to act with them, and where they come from."""
    spec = plan.inputs.spec
    seen = prepared.observation_space
    bounds = {"low": None, "high": None} if seen is None else in_words(seen)
    return {
        "format": FORMAT,
        "task": prepared.task.name,
        "method": prepared.choice.method,
        "options": dataclasses.asdict(prepared.options),
        "seeds": plan.seeds[: prepared.run.seeds],
        "arms": [arm.name for arm in plan.arms],
        "observation": {
            "shape": list(spec.observation_shape),
            "dtype": "uint8" if spec.image or (spec.layout is not None and spec.layout.packed) else "float32",
            "low": bounds["low"],
            "high": bounds["high"],
            "mean": list(spec.mean),
            "std": list(spec.std),
            **({} if spec.layout is None else {"parts": spec.layout.in_words()}),
        },
        "action": {**in_words(prepared.action_space), **_from(prepared, plan)},
        "versions": versions(),
    }


def _from(prepared: Prepared, plan: Plan) -> dict[str, Any]:
    """What its networks give, and whether they have to be told which actions are allowed."""
    return {"from": "one-hot", "masked": plan.inputs.masked} if prepared.data.discrete else {"from": [-1.0, 1.0]}


def standing(saved: Saved) -> dict[str, Any]:
    """Where a run stood when its policies were written."""
    phase = "online" if saved.online else "offline"
    return {"phase": phase, "updates": saved.updates, "env_steps": saved.env_steps}


def origins(prepared: Prepared) -> dict[str, str]:
    """Where each option of a new run comes from, for config.json."""
    usual = resolve(prepared.choice, prepared.task)
    return origins_of(usual, prepared.run, prepared.options, prepared.given)


def _possible(prepared: Prepared) -> tuple[float, float]:
    """Least and largest return that the rewards in the data can add up to."""
    data, discount = prepared.data, getattr(prepared.options, "discount", DISCOUNT)
    return possible_returns(prepared.task.rewards.map(data.rewards), data.terminals, discount)


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a run that was begun."""
    require_begun(folder)
    return read_whole_config(folder)


def recorded_options(config: Mapping[str, Any], folder: Path) -> tuple[RunOptions, Any]:
    """The options of the run and of its method, as they were resolved when it was begun."""
    usual = method_entry(options_from(Choice, "choice", config, folder).method).options
    return options_from(RunOptions, "run", config, folder), options_from(usual, "options", config, folder)


def from_config(
    folder: Path,
    changes: Mapping[str, Any] = {},
    *,
    limit_of_code: bool = False,
    env: MakeEnv | None = None,
    dataset: str | Path | Dataset | None = None,
    handed_in: bool = False,
) -> tuple[Prepared, dict[str, Any]]:
    """The prepared of an existing run, with the options that may change; the data must still be the same.

    An environment of one's own is not looked at, but `limit_of_code` asks how long episodes are today of one that has
    a name. `env` and `dataset` are given where the run was given them as objects. `handed_in`: it goes on with episodes
    that others collected.
    """
    config = read_config(folder)
    choice = options_from(Choice, "choice", config, folder)
    require_trusted(choice.env, folder)
    require_trusted(choice.reward, folder)
    run, options = recorded_options(config, folder)
    run = changed(run, changes, str(folder))
    data = given.data_of(folder, config) if dataset is None else _loaded(dataset, choice)
    make_env = given.env_of(folder, config) if env is None else env
    known = config.get("environment", {})  # runs of before have to look at it
    if (choice.env is not None or make_env is not None) and known:
        limit = choice.episode_limit if limit_of_code and make_env is None else known["episode_limit"]
        choice = dataclasses.replace(choice, episode_limit=limit, score=known["score"])
    task, data, notes = resolve_task(choice, make_env, data)
    if make_env is not None:
        task = dataclasses.replace(task, name=config["task"])
    if choice.env is None and task.name != config["task"]:
        raise not_found(config, folder)
    prepared = prepare(
        choice,
        task,
        data,
        run,
        options,
        notes,
        probe=False,
        action_space=recorded_space(known),
        observation_space=_recorded_observations(known, folder),
        handed_in=handed_in,
    )
    if fingerprint(prepared.data) != config["dataset"]["fingerprint"]:
        raise UserError(
            "the data are not those the run was started with",
            where=prepared.data.source,
            mend="put the old file back, or start a new run",
        )
    return prepared, config


def _loaded(dataset: str | Path | Dataset, choice: Choice) -> Dataset:
    return dataset if isinstance(dataset, Dataset) else load(dataset, choice.reading)


def not_found(config: Mapping[str, Any], folder: Path) -> UserError:
    """Never another task in the place of one that no name says: runs of before did not note objects given to them."""
    return UserError(
        f"was trained on '{config['task']}', which its config.json does not say where to find",
        where=str(folder),
        mend="give what it was trained with: calql.resume(folder, env=function, dataset=...)",
    )


def _recorded_observations(known: Mapping[str, Any], folder: Path) -> spaces.Box | None:
    try:
        return from_words(known["observation"]) if known.get("observation") else None
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise damaged(folder / CONFIG, f"has no observation space that makes sense ({error!r})") from None


def _actions(space: ActionSpace) -> dict[str, Any]:
    """The space of actions, as `recorded_space` makes it again."""
    if isinstance(space, spaces.Discrete):
        return {"action": in_words(space)}
    return {"action_low": space.low.tolist(), "action_high": space.high.tolist(), "action_dtype": str(space.dtype)}


def recorded_space(known: Mapping[str, Any]) -> ActionSpace | None:
    """The space of actions that the part 'environment' of a config.json tells of; None in runs of before."""
    if not known:
        return None
    if "action" in known:
        return action_space(known["action"])
    dtype = np.dtype(known["action_dtype"]).type
    return spaces.Box(np.array(known["action_low"], dtype), np.array(known["action_high"], dtype), dtype=dtype)


def fingerprint(data: Dataset) -> str:
    """A checksum of what training sees."""
    seen = data.observations
    crc = int(seen.facts.get("crc32", 0)) if isinstance(seen, Stored) else 0
    for column in (*([] if crc else [seen]), data.actions, data.rewards, data.terminals):
        for rows in chunks(column):
            crc = zlib.crc32(np.ascontiguousarray(column[rows]).tobytes(), crc)
    if data.layout is not None:  # the same bytes of other parts are other data
        crc = zlib.crc32(str(data.layout).encode(), crc)
    return f"{crc:08x}"


def versions() -> dict[str, str]:
    """Versions and device that a result depends on."""
    found = {"python": platform.python_version(), "device": str(jax.devices()[0].device_kind), "platform": sys.platform}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "from source"
    return found | {"commit": commit() or found["calql"]}
