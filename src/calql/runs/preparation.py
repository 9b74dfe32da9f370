"""From a request to a plan: data are loaded and compared with the environment before a folder is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
from gymnasium import spaces

from calql.data import Dataset, check, normalise_actions, one_hot, split_at_jumps
from calql.data.check import RESETS, STEPS, Env
from calql.data.choices import mask_apart
from calql.data.dictionaries import in_form
from calql.data.findings import require_sound
from calql.data.packing import large_cameras
from calql.data.rewards import RewardRule
from calql.domains.datasets import data_of, held_out_of
from calql.domains.own import logs
from calql.domains.own.tasks import MakeEnv, made_env
from calql.domains.registry import Task
from calql.engine import devices
from calql.engine.handed_in import Recorded
from calql.engine.memory import require_memory
from calql.engine.options import RunOptions
from calql.engine.placement import placed
from calql.engine.plan import Plan, make_plan
from calql.methods import check_combination, make_method, method_entry
from calql.runs import request
from calql.runs.request import Choice, check_methods_options
from calql.runs.spaces import ActionSpace
from calql.runs.sweep import arms_of, require_known
from calql.runs.trust import remember
from calql.system.errors import UserError
from calql.system.options import require

DISCOUNT = 0.99  # of returns in rows and reports, for methods that have none


PROBE = (
    f"trying out the environment: {RESETS + 1} resets, and more where episodes end, and {STEPS + 1} random steps "
    "(--no-probe leaves this out)"
)


@dataclass(frozen=True)
class Prepared:
    """A resolved choice: ready to plan, and able to say what it is."""

    choice: Choice
    task: Task
    data: Dataset
    run: RunOptions
    options: Any  # the method's options dataclass
    action_space: ActionSpace  # the environment's, to which the policy's [-1, 1] or one-hot actions are mapped
    notes: tuple[str, ...] = ()
    observation_space: spaces.Box | None = None  # the environment's; runs of before did not write it down
    given: tuple[str, ...] = ()  # names of the options that whoever asked for the run set

    @property
    def devices(self) -> int:
        """How many the run uses."""
        arms = arms_of(self.choice, self.options, discrete=self.task.discrete)
        return devices.shards_for(self.run.devices, self.run.seeds * max(len(arms), 1)).count


def prepare_choice(
    choice: Choice,
    given: Mapping[str, Any],
    *,
    env: str | MakeEnv | None = None,
    data: Dataset | None = None,
    probe: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """What a new run is made from, of the options that are `given` and the objects that stand in for names.

    `tell` is called just before an environment of the user's own is tried out, which takes a while.
    """
    task, data, notes = request.resolve_task(choice, env, data)
    found = request.resolve(choice, task, given)
    own_env = choice.env is not None or env is not None
    told = partial(tell, PROBE) if own_env else _nothing
    return prepare(choice, task, data, found.run, found.options, notes, probe=probe, before_trial=told, given=given)


def look_ahead(choice: Choice, given: Mapping[str, Any]) -> None:
    """Refuse what names alone can show to be wrong, before anything is read that takes a while."""
    if choice.offline and choice.dataset is None:
        raise request.no_logs()
    found = request.resolve(choice, request.outline(choice), given)
    require_known(choice, found.options)


def _nothing() -> None: ...


def prepare(
    choice: Choice,
    task: Task,
    data: Dataset | None,
    run: RunOptions,
    options: Any,
    notes: list[str],
    *,
    probe: bool = True,
    before_trial: Callable[[], object] = _nothing,
    action_space: ActionSpace | None = None,
    observation_space: spaces.Box | None = None,
    given: Iterable[str] = (),
    handed_in: bool = False,
) -> Prepared:
    """Refuse what does not go together, load the data where they are not there yet, check them.

    With `probe` the environment is tried out. An existing run knows its `action_space`: then no environment is made.
    Without an environment there are steps online only where episodes are `handed_in`.
    """
    method = check_methods_options(choice.method, run, options, discrete=task.discrete)
    remember(choice.env)
    remember(choice.reward)
    brought = data is not None  # by the user: what this package makes itself it has checked
    data = data_of(task) if data is None else data
    data = split_at_jumps(data) if run.split_at_jumps else data
    warnings = require_sound(data, task.episode_limit) if brought else []
    rewards = rewards_of(task, choice.method)
    task = dataclasses.replace(task, rewards=rewards.fitted(data, getattr(options, "discount", DISCOUNT)))
    warnings += scaled(rewards, task.rewards)
    check_combination(choice.method, method, image=data.observations.dtype == np.uint8)
    arms = arms_of(choice, options, discrete=task.discrete)
    if task.logs_alone and not handed_in:
        require(run.online_steps == 0, "online_steps", run.online_steps, "0 with --offline: there is no environment")
    if action_space is None and task.logs_alone:
        action_space, compared = logs.action_space(data, choice.action_low, choice.action_high)
        warnings += compared
    elif action_space is None:
        probe = probe and not run.real
        compare = partial(check, data, name=task.name, limit=run.action_limit, probe=probe, before_trial=before_trial)
        task, action_space, observation_space, compared = _checked(task, data, compare, probe=probe)
        warnings += compared
    data, told = placed(as_learnt(data, action_space, run), run)
    warnings += told
    members = run.seeds * max(len(arms), 1)
    on_a_device = devices.seeds_in_one_memory(run.devices, members)
    require_memory(method, data, dataclasses.replace(run, seeds=on_a_device), task.episode_limit)
    shared_out = devices.in_words(run.devices, members)
    warnings += [] if shared_out is None else [shared_out]
    return Prepared(
        choice,
        task,
        data,
        run,
        options,
        action_space,
        notes=(*notes, *method.notes, *data.notes, *warnings, *large_cameras(data)),
        observation_space=observation_space,
        given=tuple(given),
    )


def rewards_of(task: Task, method: str) -> RewardRule:
    """The task's map of rewards, or the one that the method's authors have there."""
    if task.rewards_for_all:
        return task.rewards
    return method_entry(method).rewards_on(task.domain, task.name, task.rewards)


def scaled(asked: RewardRule, fitted: RewardRule) -> list[str]:
    """In words, where rewards were given another size."""
    if asked.largest_return is None:
        return []
    return [
        f"rewards are multiplied by {fitted.scale:.4g}, so that the largest logged return is {asked.largest_return:g}: "
        "the size that the weight of the regulariser is meant for. Q-values and returns-to-go are in these units, all "
        "else is in yours; --reward-scale 1 leaves rewards as they are"
    ]


def _checked(
    task: Task, data: Dataset, compare: Callable[[Env], list[str]], *, probe: bool
) -> tuple[Task, ActionSpace, spaces.Box, list[str]]:
    """Compare data and environment; what a trial shows of its score goes into the task."""
    env = in_form(mask_apart(made_env(task.name, task.make_env)), data.form, task.name)
    try:
        warnings = compare(env)
        if task.trial is not None:
            score, note = task.trial(env if probe else None)
            task, warnings = dataclasses.replace(task, score=score), [note, *warnings]
        seen, acted = env.observation_space, env.action_space
        assert isinstance(seen, spaces.Box)  # or they would have been refused
        assert isinstance(acted, ActionSpace)
        return task, acted, seen, warnings
    finally:
        env.close()


def plan(prepared: Prepared, handed_in: Recorded | None = None) -> Plan:
    """Value the data and fit the reference.

    The plan has the rows as its inputs, and does not hold the data that they came from.
    """
    task, choice = dataclasses.replace(prepared.task, data=_let_go, trial=None), prepared.choice
    held_out = held_out_of(task) if choice.dataset is None else None
    if held_out is not None:
        held_out = as_learnt(held_out, prepared.action_space, prepared.run)
    method = make_method(choice.method, prepared.options, discrete=task.discrete)
    seeds = "one seed" if prepared.run.seeds == 1 else f"{prepared.run.seeds} seeds"
    arms = arms_of(choice, prepared.options, discrete=task.discrete)
    label = f"{choice.method} on {task.name}, {seeds}{f' of each of {len(arms)} arms' if arms else ''}"
    discount = getattr(prepared.options, "discount", DISCOUNT)
    plane = None if task.state_map is None else task.state_map(prepared.data)
    logs_alone, run = task.logs_alone, prepared.run
    made = make_plan(label, task, method, run, prepared.data, held_out, discount, arms, plane, logs_alone=logs_alone)
    if made.workers:
        require_sendable(task.make_env, task.name)
    return dataclasses.replace(made, handed_in=handed_in)


def _let_go() -> Dataset:
    raise AssertionError("a plan has no data but the rows that are its inputs")


def require_sendable(make_env: MakeEnv, name: str) -> None:
    """Worker processes are sent the function that makes an environment; not every function can be sent."""
    try:
        ForkingPickler.dumps(make_env)
    except Exception as error:
        raise UserError(
            f"the function that makes the environment cannot be sent to worker processes ({error})",
            where=name,
            mend="write it with def at the top of a module, or step environments in this process with workers=0",
        ) from None


def as_learnt(data: Dataset, space: ActionSpace, run: RunOptions) -> Dataset:
    """Actions in the policy's units, [-1, 1] or one-hot; what is to be said of them, `check` has said."""
    if isinstance(space, spaces.Discrete):
        return one_hot(data, space)
    return normalise_actions(data, space.low, space.high, limit=run.action_limit)[0]
