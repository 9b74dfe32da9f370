"""What a user asks for: names become a task, a method and their options, and what does not go together is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from calql.data import Dataset, Reading, load
from calql.data.store import Recipe
from calql.domains import datasets as recipes
from calql.domains.own import logs
from calql.domains.own.size import PAPER, Size, fitting
from calql.domains.own.tasks import MakeEnv, ScoreKind, own_task
from calql.domains.own.tasks import outline as own_outline
from calql.domains.registry import Task, get_task
from calql.engine.options import RunOptions
from calql.methods import DEFAULT_METHOD, Method, check_combination, make_method
from calql.results.logs_alone import WARNING
from calql.runs import origins
from calql.runs.origins import Resolved
from calql.system.errors import UserError, unknown
from calql.system.options import ANY, Checked, Count, Finite, NotZero

DEFAULT_TASK = "point-maze-quick"
COMPARED = "calibrate=true,false"  # with the default task, where no method is named either: Cal-QL and CQL


@dataclass(frozen=True)
class Choice(Checked):
    """What a user names: a task, or a dataset and an environment of their own; a method; a preset."""

    task: str | None = None
    method: str = DEFAULT_METHOD
    preset: str = "default"
    dataset: str | None = None
    env: str | None = None
    episode_limit: Count | None = None
    reward_scale: NotZero | None = None
    reward_shift: Finite | None = None
    score: ScoreKind | None = None
    vary: str | None = None  # NAME=a,b,c: an arm for each value
    offline: bool = False  # logs alone: there is no environment
    action_low: Annotated[tuple[float, ...], ANY] = ()  # of logs alone: what an environment would have said
    action_high: Annotated[tuple[float, ...], ANY] = ()
    columns: tuple[str, ...] = ()
    observations: tuple[str, ...] = ()
    reward: str | None = None
    drop_bad_episodes: bool = False

    @property
    def reading(self) -> Reading:
        """How the user's own dataset is read."""
        return Reading(self.columns, self.observations, self.reward, self.drop_bad_episodes)


CHOSEN = tuple(field.name for field in dataclasses.fields(Choice))


def defaults(choice: Choice, task: Task | None = None) -> tuple[RunOptions, Any]:
    """The run and method options that apply before the user sets any."""
    found = resolve(choice, task)
    return found.run, found.options


def resolve(choice: Choice, task: Task | None = None, given: Mapping[str, Any] | None = None) -> Resolved:
    """All options with their origins; `given` are those that the user sets, which must be options of either."""
    found = origins.resolve(choice.method, choice.preset, task, given)
    _require_known(given or {}, found.run, found.options, choice.method)
    return found


def require_options(choice: Choice, names: Iterable[str], also: Iterable[str]) -> None:
    """Refuse names that neither the run nor the method has, before anything else is asked for; it may mean `also`."""
    found = origins.resolve(choice.method, choice.preset, None)
    _require_known(names, found.run, found.options, choice.method, also)


def resolve_task(
    choice: Choice, env: str | MakeEnv | None = None, data: Dataset | None = None
) -> tuple[Task, Dataset | None, list[str]]:
    """The task by name, or from the user's own data and environment; data only where a dataset is named or given."""
    own_env = env if env is not None else choice.env
    if choice.offline:
        return _of_logs(choice, own_env, data)
    _refuse_bounds(choice)
    named = None if choice.dataset is None else recipes.named(choice.dataset)
    task = _named_task(choice, named, own_env=own_env is not None, own_data=data is not None)
    _require_own_data(choice, named, given=data is not None)
    data = data if data is not None else _logged(choice, named)
    if task is not None:
        return task, data, []
    if data is None or own_env is None:
        raise _missing("--dataset" if data is None else "--env")
    name = own_env if isinstance(own_env, str) else getattr(own_env, "__name__", "environment")
    task, notes = own_task(
        name, data, own_env, episode_limit=choice.episode_limit, score=choice.score, size=_size(choice)
    )
    return _mapped(task, choice), data, notes


def _of_logs(choice: Choice, env: str | MakeEnv | None, data: Dataset | None) -> tuple[Task, Dataset, list[str]]:
    """Of logs alone: a file of one's own, or a dataset of this package by its name."""
    _refuse_with_logs(choice, env)
    named = None if choice.dataset is None else recipes.named(choice.dataset)
    data = data if data is not None else _logged(choice, named)
    if data is None:
        raise no_logs()
    task, notes = logs.logs_task(data, logs.name_of(choice.dataset), size=_size(choice))
    return _mapped(task, choice), data, [WARNING, *notes]


def no_logs() -> UserError:
    return UserError("--dataset is missing", mend="name the logs: --dataset FILE")


def _refuse_with_logs(choice: Choice, env: str | MakeEnv | None) -> None:
    given = {"--env": env, "--task": choice.task, "--score": choice.score, "--episode-limit": choice.episode_limit}
    for option, value in given.items():
        if value is not None:
            raise UserError(
                f"--offline and {option} exclude each other",
                mend=f"leave out {option}, or --offline: with an environment, --online-steps 0 trains on logs too",
            )


def _refuse_bounds(choice: Choice) -> None:
    if choice.action_low or choice.action_high:
        raise UserError(
            "--action-low and --action-high are for logs alone (--offline)",
            mend="leave them out: the environment says what its actions may be",
        )


def outline(choice: Choice) -> Task:
    """The task as far as options depend on it: no data are read and no environment is made."""
    if choice.offline:
        _refuse_with_logs(choice, choice.env)
        return logs.outline(logs.name_of(choice.dataset), _size(choice))
    _refuse_bounds(choice)
    named = None if choice.dataset is None else recipes.named(choice.dataset)
    task = _named_task(choice, named, own_env=choice.env is not None, own_data=False)
    if task is not None:
        return task
    if choice.dataset is None or choice.env is None:
        raise _missing("--dataset" if choice.dataset is None else "--env")
    return own_outline(choice.env, _size(choice))


def _named_task(choice: Choice, named: Recipe | None, *, own_env: bool, own_data: bool) -> Task | None:
    """The task that a user names, or means by naming nothing; None where data and environment are their own."""
    if choice.task is not None and own_env:
        raise UserError("--task and --env exclude each other", mend="give a task, or a dataset and an environment")
    if not own_env and choice.score is not None:
        raise UserError("--score is for an environment of your own", mend="leave it out: a task has its score")
    if own_env or not (choice.task or named or (choice.dataset is None and not own_data)):
        return None
    task = get_task(choice.task or (named.task if named else DEFAULT_TASK))
    if named is not None:
        recipes.require_task(named, task.name)
    return _changed(task, choice)


def _size(choice: Choice) -> Size:
    """Of a run on data of one's own: what the machine can show soon, or the paper's where that is asked for."""
    return fitting() if choice.preset == Choice.preset else PAPER


OWN = "training on your own needs --dataset FILE and --env package:Name-v0, or --offline for logs alone"


def _require_own_data(choice: Choice, named: Recipe | None, *, given: bool) -> None:
    """How columns are read is a question of files only."""
    if choice.reading == Reading() or (choice.dataset is not None and named is None and not given):
        return
    raise UserError(
        "--columns, --observations, --reward and --drop-bad-episodes are for a file or folder of your own",
        mend="give one with --dataset; of a Dataset in Python, choose before you give it",
    )


def _missing(option: str) -> UserError:
    return UserError(f"{option} is missing", mend=OWN)


def _changed(task: Task, choice: Choice) -> Task:
    """The named task with the user's episode limit and reward map."""
    task = _mapped(task, choice)
    if choice.episode_limit is not None:
        task = dataclasses.replace(task, episode_limit=choice.episode_limit)
    return task


def _mapped(task: Task, choice: Choice) -> Task:
    """With the user's reward map, if there is one: it then holds for every method."""
    asked = {"scale": choice.reward_scale, "shift": choice.reward_shift}
    numbers: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if not numbers:
        return task
    return dataclasses.replace(task, rewards=dataclasses.replace(task.rewards, **numbers), rewards_for_all=True)


def _logged(choice: Choice, named: Recipe | None) -> Dataset | None:
    """The data that the user names: a file's, or a dataset of this package by its name."""
    if choice.dataset is None:
        return None
    return load(choice.dataset, choice.reading) if named is None else recipes.load(named.name)


def check_methods_options(name: str, run: RunOptions, options: Any, *, discrete: bool = False) -> Method:
    """The method that the options make, unless they do not go together with the run's."""
    method = make_method(name, options, discrete=discrete)
    check_combination(name, method, reference=run.reference, mixing=run.mixing)
    return method


def set_options(run: RunOptions, options: Any, changes: Mapping[str, Any], method: str) -> tuple[RunOptions, Any]:
    """Apply named changes to whichever of the two they belong to; an unknown name is refused."""
    _require_known(changes, run, options, method)
    return _set(run, changes), _set(options, changes)


def _require_known(names: Iterable[str], run: RunOptions, options: Any, method: str, also: Iterable[str] = ()) -> None:
    known = {f.name for target in (run, options) for f in dataclasses.fields(target)}
    for name in names:
        if name not in known:
            raise unknown("option", name, {*known, *also}, where=f"method {method}")


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
