"""From names and options to a run: everything is resolved and checked here, before a folder is made."""

from __future__ import annotations

import dataclasses
import platform
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gymnasium import spaces

from calql import recipes
from calql.commit import commit
from calql.data import Dataset, check, load, normalise_actions, possible_returns, split_at_jumps
from calql.data.check import RESETS, STEPS
from calql.data.findings import require_sound
from calql.data.store import Recipe, available_cores
from calql.engine.memory import require_memory
from calql.engine.options import RunOptions
from calql.engine.plan import Plan, make_plan
from calql.errors import UserError, unknown
from calql.methods import Method, check_combination, method_entry, preset
from calql.options import Checked
from calql.run_config import options_from
from calql.run_config import read_config as read_whole_config
from calql.runs.changes import changed
from calql.runs.folder import require_begun
from calql.tables import check_method, check_preset, check_task
from calql.tasks import DEFAULT, Task, get_task
from calql.tasks.own import MakeEnv, ScoreKind, kind_of, made_env, own_task
from calql.trust import remember, require_trusted

DISCOUNT = 0.99  # of returns in rows and reports, for methods that have none
PROBE = (
    f"trying out the environment: {RESETS + 1} resets, and more where episodes end, and {STEPS + 1} random steps "
    "(--no-probe leaves this out)"
)
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


@dataclass(frozen=True)
class Choice(Checked):
    """What a user names: a task, or a dataset and an environment of their own; a method; a preset."""

    task: str | None = None
    method: str = "cal-ql"
    preset: str = "default"
    dataset: str | None = None
    env: str | None = None
    episode_limit: int | None = None
    reward_scale: float | None = None
    reward_shift: float | None = None
    score: ScoreKind | None = None


@dataclass(frozen=True)
class Experiment:
    """A resolved choice: ready to plan, and able to say what it is."""

    choice: Choice
    task: Task
    data: Dataset
    run: RunOptions
    options: Any  # the method's options dataclass
    action_space: spaces.Box  # the environment's, to which the policy's [-1, 1] is mapped
    notes: tuple[str, ...] = ()


def defaults(choice: Choice, task: Task | None = None) -> tuple[RunOptions, Any]:
    """The run and method options that apply before the user sets any."""
    entry, chosen = method_entry(choice.method), preset(choice.preset, choice.method)
    check_method(choice.method)
    check_preset(choice.preset)
    run, options = RunOptions(), entry.options()
    for_all: Mapping[str, Any] = {}
    for_method: Mapping[str, Any] = {}
    if task is not None:
        check_task(task)
        run = _set(RunOptions(reference=task.reference), dataclasses.asdict(task.protocol))
        for_all, for_method = task.options.get("*", {}), task.options.get(choice.method, {})
    merged = {**for_all, **entry.sets, **for_method}
    options = _set(_set(options, merged), chosen)
    if not entry.make(options).uses_reference:
        run = dataclasses.replace(run, reference="none")
    return _set(run, {**merged, **chosen}), options


def resolve_task(
    choice: Choice, env: str | MakeEnv | None = None, data: Dataset | None = None
) -> tuple[Task, Dataset | None, list[str]]:
    """The task by name, or from the user's own data and environment; data only where a dataset is named or given."""
    own_env = env if env is not None else choice.env
    if choice.task is not None and own_env is not None:
        raise UserError("--task and --env exclude each other", mend="give a task, or a dataset and an environment")
    named = None if choice.dataset is None else recipes.named(choice.dataset)
    nothing_own = choice.dataset is None and data is None
    if own_env is None and choice.score is not None:
        raise UserError("--score is for an environment of your own", mend="leave it out: a task has its score")
    if own_env is None and (choice.task or named or nothing_own):
        task = get_task(choice.task or (named.task if named else DEFAULT))
        if named is not None:
            recipes.require_task(named, task.name)
        return _changed(task, choice), data if data is not None else _logged(choice, named), []
    data = data if data is not None else _logged(choice, named)
    if data is None or own_env is None:
        missing = "--dataset" if data is None else "--env"
        raise UserError(
            f"{missing} is missing", mend="training on your own needs --dataset FILE and --env package:Name-v0"
        )
    name = own_env if isinstance(own_env, str) else getattr(own_env, "__name__", "environment")
    task, notes = own_task(
        name,
        data,
        own_env,
        episode_limit=choice.episode_limit,
        reward_scale=1.0 if choice.reward_scale is None else choice.reward_scale,
        reward_shift=0.0 if choice.reward_shift is None else choice.reward_shift,
        score=choice.score,
    )
    return task, data, notes


def _changed(task: Task, choice: Choice) -> Task:
    """The named task with the user's episode limit and reward map, which then holds for every method."""
    asked = {"scale": choice.reward_scale, "shift": choice.reward_shift}
    numbers: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if numbers:
        task = dataclasses.replace(task, rewards=dataclasses.replace(task.rewards, **numbers), method_rewards={})
    if choice.episode_limit is not None:
        task = dataclasses.replace(task, episode_limit=choice.episode_limit)
    return task


def _logged(choice: Choice, named: Recipe | None) -> Dataset | None:
    """The data that the user names: a file's, or a dataset of this package by its name."""
    if choice.dataset is None:
        return None
    return load(choice.dataset) if named is None else recipes.load(named.name)


def check_methods_options(name: str, run: RunOptions, options: Any) -> Method:
    """The method that the options make, unless they do not go together with the run's."""
    method = method_entry(name).make(options)
    check_combination(name, method, reference=run.reference, mixing=run.mixing)
    return method


def make_experiment(
    choice: Choice,
    task: Task,
    data: Dataset | None,
    run: RunOptions,
    options: Any,
    notes: list[str],
    *,
    probe: bool = True,
    action_space: spaces.Box | None = None,
) -> Experiment:
    """Refuse what does not go together, load the data where they are not there yet, check them.

    With `probe` the environment is tried out. An existing run knows its `action_space`: then no environment is made.
    """
    method = check_methods_options(choice.method, run, options)
    remember(choice.env)
    brought = data is not None  # by the user: what this package makes itself it has checked
    data = task.load_data() if data is None else data
    data = split_at_jumps(data) if run.split_at_jumps else data
    warnings = require_sound(data, task.episode_limit) if brought else []
    rewards = task.method_rewards.get(choice.method, task.rewards)
    task = dataclasses.replace(task, rewards=rewards.fitted(data))
    check_combination(choice.method, method, image=data.observations.dtype == np.uint8)
    require_memory(method, data, run, task.episode_limit)
    if action_space is None:
        task, action_space, compared = _checked(task, data, probe=probe and not run.real, limit=run.action_limit)
        warnings += compared
    data = _in_unit_range(data, action_space, run)
    said = (*notes, *method.notes, *data.notes, *warnings)
    return Experiment(choice, task, data, run, options, action_space, said)


def _checked(task: Task, data: Dataset, *, probe: bool, limit: float) -> tuple[Task, spaces.Box, list[str]]:
    """Compare data and environment; what a trial shows of its score goes into the task."""
    env = made_env(task.name, task.make_env)
    try:
        warnings = check(data, env, name=task.name, limit=limit, probe=probe)
        if task.trial is not None:
            score, note = task.trial(env if probe else None)
            task, warnings = dataclasses.replace(task, score=score), [note, *warnings]
        assert isinstance(env.action_space, spaces.Box)  # or it would have been refused
        return task, env.action_space, warnings
    finally:
        env.close()


def plan(experiment: Experiment) -> Plan:
    """Value the data and fit the reference."""
    task, choice = experiment.task, experiment.choice
    held_out = None
    if task.held_out_data is not None and choice.dataset is None:
        held_out = _in_unit_range(task.held_out_data(), experiment.action_space, experiment.run)
    method = method_entry(choice.method).make(experiment.options)
    seeds = "one seed" if experiment.run.seeds == 1 else f"{experiment.run.seeds} seeds"
    label = f"{choice.method} on {task.name}, {seeds}"
    discount = getattr(experiment.options, "discount", DISCOUNT)
    made = make_plan(label, task, method, experiment.run, experiment.data, held_out, discount)
    if made.workers:
        _require_sendable(task)
    return made


def _require_sendable(task: Task) -> None:
    """Worker processes are sent the function that makes an environment; not every function can be sent."""
    try:
        ForkingPickler.dumps(task.make_env)
    except Exception as error:
        raise UserError(
            f"the function that makes the environment cannot be sent to worker processes ({error})",
            where=task.name,
            mend="write it with def at the top of a module, or step environments in this process with workers=0",
        ) from None


def _in_unit_range(data: Dataset, bounds: spaces.Box, run: RunOptions) -> Dataset:
    """Actions in the policy's units; what `normalise_actions` has to say, `check` has said."""
    return normalise_actions(data, bounds.low, bounds.high, limit=run.action_limit)[0]


def describe(experiment: Experiment, command: str, fits: Sequence[str] = ()) -> dict[str, Any]:
    """The resolved configuration as it is written to config.json; enough to build the experiment again.

    `fits` are sentences about what planning fitted, for whoever reads the file or the report.
    """
    choice = experiment.choice
    return {
        "task": experiment.task.name,
        "method": choice.method,
        "seeds": [experiment.run.first_seed + i for i in range(experiment.run.seeds)],
        "choice": dataclasses.asdict(choice),
        "run": dataclasses.asdict(experiment.run),
        "options": dataclasses.asdict(experiment.options),
        "rewards": dataclasses.asdict(experiment.task.rewards),
        "environment": {
            "episode_limit": experiment.task.episode_limit,
            "score": kind_of(experiment.task.score),
            "action_low": experiment.action_space.low.tolist(),
            "action_high": experiment.action_space.high.tolist(),
            "action_dtype": str(experiment.action_space.dtype),
        },
        "dataset": {
            "source": experiment.data.source,
            "transitions": len(experiment.data),
            "episodes": len(experiment.data.episode_ends),
            "fingerprint": fingerprint(experiment.data),
            "action_dim": int(experiment.data.actions.shape[1]),
            "reward_min": float(experiment.task.rewards.map(experiment.data.rewards).min()),
            "reward_max": float(experiment.task.rewards.map(experiment.data.rewards).max()),
            "possible_returns": list(_possible(experiment)),
        },
        **({"fits": list(fits)} if fits else {}),
        "versions": versions(),
        "cores": available_cores(),
        "command": command,
    }


def _possible(experiment: Experiment) -> tuple[float, float]:
    """Least and largest return that the rewards in the data can add up to."""
    data, discount = experiment.data, getattr(experiment.options, "discount", DISCOUNT)
    return possible_returns(experiment.task.rewards.map(data.rewards), data.terminals, discount)


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a run that was begun."""
    require_begun(folder)
    return read_whole_config(folder)


def recorded_options(config: Mapping[str, Any], folder: Path) -> tuple[RunOptions, Any]:
    """The options of the run and of its method, as they were resolved when it was begun."""
    usual = method_entry(options_from(Choice, "choice", config, folder).method).options
    return options_from(RunOptions, "run", config, folder), options_from(usual, "options", config, folder)


def from_config(
    folder: Path, changes: Mapping[str, Any] = {}, *, limit_of_code: bool = False
) -> tuple[Experiment, dict[str, Any]]:
    """The experiment of an existing run, with the options that may change; the data must still be the same.

    An environment of one's own is not looked at, but `limit_of_code` asks how long its episodes are today.
    """
    config = read_config(folder)
    choice = options_from(Choice, "choice", config, folder)
    require_trusted(choice.env, folder)
    run, options = recorded_options(config, folder)
    run = changed(run, changes, str(folder))
    known = config.get("environment", {})  # runs of before have to look at it
    if choice.env is not None and known:
        limit = choice.episode_limit if limit_of_code else known["episode_limit"]
        choice = dataclasses.replace(choice, episode_limit=limit, score=known["score"])
    task, data, notes = resolve_task(choice)
    experiment = make_experiment(
        choice, task, data, run, options, notes, probe=False, action_space=_recorded_space(known)
    )
    if fingerprint(experiment.data) != config["dataset"]["fingerprint"]:
        raise UserError(
            "the data are not those the run was started with",
            where=experiment.data.source,
            mend="put the old file back, or start a new run",
        )
    return experiment, config


def _recorded_space(known: Mapping[str, Any]) -> spaces.Box | None:
    if not known:
        return None
    dtype = np.dtype(known["action_dtype"]).type
    return spaces.Box(np.array(known["action_low"], dtype), np.array(known["action_high"], dtype), dtype=dtype)


def fingerprint(data: Dataset) -> str:
    """A checksum of what training sees."""
    crc = 0
    for column in (data.observations, data.actions, data.rewards, data.terminals):
        crc = zlib.crc32(np.ascontiguousarray(column).tobytes(), crc)
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


def set_options(run: RunOptions, options: Any, changes: Mapping[str, Any], method: str) -> tuple[RunOptions, Any]:
    """Apply named changes to whichever of the two they belong to; an unknown name is refused."""
    known = {f.name for target in (run, options) for f in dataclasses.fields(target)}
    for name in changes:
        if name not in known:
            raise unknown("option", name, known, where=f"method {method}")
    return _set(run, changes), _set(options, changes)


def read_changes(texts: Sequence[str]) -> dict[str, str]:
    """Options given as NAME=VALUE."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set {text}", mend="give options as NAME=VALUE, for example precision=bfloat16")
        found[name.replace("-", "_")] = value
    return found


def value_like(usual: Any, name: str, text: str) -> Any:
    """The value that a text stands for, of the kind that the option has."""
    kind = type(usual)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return tuple(type(usual[0])(part) for part in text.split(",")) if kind is tuple else kind(text)
    except (KeyError, ValueError):
        wanted = {bool: "true or false", tuple: "numbers with commas", int: "a whole number", float: "a number"}[kind]
        raise UserError(f"--set {name}={text}", mend=f"it must be {wanted}") from None


def _set(target: Any, changes: Mapping[str, Any]) -> Any:
    """A copy with those fields set that it has."""
    names = {f.name for f in dataclasses.fields(target)}
    return dataclasses.replace(target, **{k: v for k, v in changes.items() if k in names})
