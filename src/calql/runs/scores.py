"""Evaluate a run: fresh episodes with its policies, which takes the environment and no data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from calql.data.rewards import EpisodeSummary
from calql.domains.base import NormalisedReturn, Score, success_rate
from calql.domains.own.tasks import MakeEnv, env_maker
from calql.engine.evaluation import evaluate_afresh
from calql.engine.plan import Stepping, worker_processes
from calql.engine.program import on_accelerator
from calql.engine.rollout import RolloutSetup
from calql.engine.workers import Pools
from calql.results.arms import ARM, Member, named
from calql.runs import given, record
from calql.runs.artifact import policies_of
from calql.runs.preparation import require_sendable
from calql.runs.request import Choice, resolve_task
from calql.runs.stops import Stops
from calql.runs.trust import require_trusted, trust_run
from calql.system.compiled import keep_compiled
from calql.system.errors import UserError
from calql.system.run_config import damaged, options_from
from calql.system.run_files import CONFIG

Scores = TypedDict(
    "Scores",
    {
        "run": str,
        "task": str,
        "method": str,
        "episodes": int,
        "seeds": list[int],
        "arms": NotRequired[list[str]],  # of a sweep
        "score": list[float],  # one a seed, as the others
        "return": list[float],
        "episode_length": list[float],
    },
)


def evaluate(
    folder: str | Path, episodes: int = 50, start: int = 0, *, env: MakeEnv | None = None, trust: bool = False
) -> Scores:
    """Score of each seed's last checkpoint over fresh episodes, with the deterministic policy.

    Episodes have numbers, from `start` on; the same numbers give the same episodes. `env` is the function that makes
    the environment, for a run that was given one which cannot be imported; `trust` says that the module may be imported
    which the run names for its environment.
    """
    if episodes < 1 or start < 0:
        raise UserError(f"{episodes} episodes from number {start}", mend="ask for at least 1, from at least 0")
    keep_compiled()
    folder = Path(folder)
    if trust:
        trust_run(folder)
    config = record.read_config(folder)
    run, _ = record.recorded_options(config, folder)
    playing, policies = playing_of(folder, config, env), policies_of(folder)
    limits = playing.episode_limit, run.step_timeout
    masked = bool(policies.description["action"].get("masked"))
    kind, form = {"real": run.real, "masked": masked}, policies.spec.layout
    setup = RolloutSetup(playing.make_env, policies.method, *limits, **kind, form=form)
    workers = worker_processes(run, playing.stepping, beside=on_accelerator())
    if workers:
        require_sendable(playing.make_env, config["task"])
    with Stops():  # a signal ends it, and environments are let go of
        pools = Pools(setup, workers, at_once=1)
        try:
            played = evaluate_afresh(policies.of_member, pools.evaluators, episodes, start)
        finally:
            pools.close()
    return _scores(folder, config, episodes, played, playing.score)


def _scores(
    folder: Path,
    config: Mapping[str, Any],
    episodes: int,
    played: Mapping[Member, Sequence[EpisodeSummary]],
    score: Score,
) -> Scores:
    members = [named(member) for member in played]
    arms: dict[str, Any] = {"arms": [member[ARM] for member in members]} if ARM in members[0] else {}
    return {
        "run": str(folder),
        "task": config["task"],
        "method": config["method"],
        "episodes": episodes,
        "seeds": [member["seed"] for member in members],
        **arms,  # type: ignore[typeddict-item]  # which is there or not
        "score": [score(summaries) for summaries in played.values()],
        "return": [float(np.mean([s.total for s in summaries])) for summaries in played.values()],
        "episode_length": [float(np.mean([s.length for s in summaries])) for summaries in played.values()],
    }


@dataclass(frozen=True)
class Playing:
    """What episodes of a run are played in, and how they are scored."""

    make_env: MakeEnv
    episode_limit: int
    score: Score
    stepping: Stepping = "in-process"
    films: bool = False  # drawn in no time


def playing_of(folder: Path, config: Mapping[str, Any], env: MakeEnv | None = None) -> Playing:
    """The environment and the score of a run, without its data."""
    choice = options_from(Choice, "choice", config, folder)
    if choice.offline:
        raise UserError(
            "was trained on logs alone, and there is no environment to play in",
            where=str(folder),
            mend="see what its data say with calql report; the policy loads with calql.load_policy",
        )
    require_trusted(choice.env, folder)
    make_env = given.env_of(folder, config) if env is None else env
    known = config.get("environment", {})
    if make_env is None and choice.env is None:
        return _of_task(folder, config, choice)
    if "score_range" not in known:  # a run of before: its data say it
        task = record.from_config(folder, env=env)[0].task
        return Playing(task.make_env, task.episode_limit, task.score)
    try:
        score = success_rate if known["score"] == "success" else NormalisedReturn(*map(float, known["score_range"]))
        limit = int(known["episode_limit"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder / CONFIG, f"has no score or episode limit ({error!r})") from None
    return Playing(make_env or env_maker(str(choice.env)), limit, score)


def _of_task(folder: Path, config: Mapping[str, Any], choice: Choice) -> Playing:
    try:
        task, _, _ = resolve_task(dataclasses.replace(choice, task=config["task"], dataset=None))
    except UserError:
        raise record.not_found(config, folder) from None
    return Playing(task.make_env, task.episode_limit, task.score, task.stepping, task.films)
