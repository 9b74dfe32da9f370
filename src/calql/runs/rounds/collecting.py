"""Episodes of the present round's policies, played in an environment that can be reached, and written to files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from calql.data import Dataset
from calql.data.choices import mask_apart
from calql.data.recorder import next_free, write_recorded
from calql.domains.own.tasks import MakeEnv, env_maker, made_env, own_limit
from calql.engine.boundary import to_env_action
from calql.engine.episodes import COLLECT, Episode, Request
from calql.engine.rollout import RolloutSetup, RolloutWorker
from calql.results.arms import named
from calql.runs import record
from calql.runs.artifact import policies_of
from calql.runs.policy_folder import Policies
from calql.runs.rounds.branch import round_folder
from calql.runs.rounds.incoming import Terms
from calql.runs.rounds.ledger import read_ledger
from calql.runs.scores import playing_of
from calql.runs.spaces import ActionSpace
from calql.runs.stops import Stops
from calql.runs.trust import remember, trust_run
from calql.system.compiled import keep_compiled
from calql.system.errors import UserError

COLLECTED = "collected"  # the folder of a project


@dataclass(frozen=True)
class Arena:
    """Where episodes are played."""

    make_env: MakeEnv
    episode_limit: int


class Bounded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in the project's bounds of actions: they may have come from logs, and be narrower than its own."""

    def __init__(self, env: gymnasium.Env[Any, Any], space: spaces.Box) -> None:
        super().__init__(env)
        self.action_space = space

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        inner = self.env.action_space
        assert isinstance(inner, spaces.Box)
        return self.env.step(np.clip(action, inner.low, inner.high).astype(inner.dtype))


def collect(
    project: Path,
    episodes: int,
    *,
    env: str | MakeEnv | None = None,
    seed: int | None = None,
    episode_limit: int | None = None,
    trust: bool = False,
) -> list[Path]:
    """Play episodes with the policies of the present round as the online phase would, exploring; a file for each.

    `seed` names one policy; else it is the first one's where all seeds share what is collected, and every one's where
    they do not. Without `env`, in the environment that the project was started with.
    """
    ledger = read_ledger(project)
    if ledger.current is None:
        raise UserError("round 0 is not trained yet", where=str(project), mend=f"calql round train {project}")
    folder = round_folder(project, ledger.current)
    if trust:
        trust_run(folder)
    keep_compiled()
    terms, policies = Terms.of(folder), policies_of(folder)
    arena = _arena(folder, terms, env, episode_limit)
    setup = RolloutSetup(
        arena.make_env, policies.method, arena.episode_limit, terms.run.step_timeout, real=True, masked=terms.masked
    )
    found = []
    with Stops():  # a signal ends it, and the environment is let go of
        worker = RolloutWorker(setup)
        try:
            for member in _members(policies, seed, share=ledger.share, where=str(project)):
                place = project / COLLECTED / f"round-{ledger.current:03d}" / f"seed-{member}"
                before = sum(entry.seed == member for entry in ledger.entries.values())
                found += [_collected(place, worker, policies, member, before, terms.space) for _ in range(episodes)]
        finally:
            worker.close()
    return found


def _members(policies: Policies, seed: int | None, *, share: bool, where: str) -> list[int]:
    seeds = [int(named(member)["seed"]) for member in policies.of_member]
    if seed is not None and seed not in seeds:
        raise UserError(f"the project has no seed {seed}", where=where, mend=f"its seeds: {seeds}")
    return [seed] if seed is not None else seeds[:1] if share else seeds


def _collected(
    folder: Path, worker: RolloutWorker, policies: Policies, seed: int, before: int, space: ActionSpace
) -> Path:
    """One episode. Its start and its noise follow from its number, which no episode of this policy has had."""
    request = Request((seed, COLLECT, before + next_free(folder)))
    (episode,) = worker.play(policies.of_member[seed], [request], explore=True)
    place = list(policies.description["seeds"]).index(seed)
    whose = {"policy": policies.description["checksums"][place], "seed": seed}
    return write_episode(folder, episode, space, whose)


def write_episode(folder: Path, episode: Episode, space: ActionSpace, whose: dict[str, Any] | None = None) -> Path:
    """A played episode as a file that `calql round add` reads: in the environment's units, and the policy's own."""
    count = len(episode.rewards)
    ends = np.arange(count) == count - 1
    acted = np.asarray(to_env_action(space, episode.actions))
    discrete = isinstance(space, spaces.Discrete)
    data = Dataset(
        observations=episode.observations[:-1],
        actions=acted.astype(np.int64 if discrete else np.float32),
        rewards=episode.rewards.astype(np.float32),
        next_observations=episode.observations[1:],
        terminals=ends & episode.terminal,
        truncated=ends & (not episode.terminal),
        action_masks=None if episode.masks is None else episode.masks[:-1],
        next_action_masks=None if episode.masks is None else episode.masks[1:],
    )
    return write_recorded(folder, data, whose, episode.success, None if discrete else episode.actions)


def _arena(folder: Path, terms: Terms, env: str | MakeEnv | None, limit: int | None) -> Arena:
    """The environment that is named, in the project's bounds of actions; else the project's own."""
    config = record.read_config(folder)
    if env is None and not terms.choice.offline:
        playing = playing_of(folder, config)
        return Arena(playing.make_env, limit or playing.episode_limit)
    if env is None:
        raise UserError(
            "the project was started without an environment",
            where="--env",
            mend="name one, or collect on your system with the policy and calql.Recorder (docs/rounds.md)",
        )
    name = env if isinstance(env, str) else getattr(env, "__name__", "environment")
    remember(env if isinstance(env, str) else None)
    _require_alike(name, env, terms)
    steps = limit or own_limit(name, env) or terms.episode_limit
    return Arena(partial(_bounded, env_maker(env), terms.space), int(steps))


def _require_alike(name: str, env: str | MakeEnv, terms: Terms) -> None:
    made = mask_apart(made_env(name, env_maker(env)))
    try:
        seen, acted = made.observation_space, made.action_space
    finally:
        made.close()
    same = type(acted) is type(terms.space) and acted.shape == terms.space.shape
    discrete = isinstance(acted, spaces.Discrete)
    if seen.shape != terms.shape or not same or (discrete and acted != terms.space):
        raise UserError(
            f"its observations are {seen} and its actions {acted}; those of the project are of shape {terms.shape} and "
            f"{terms.space}",
            where=name,
            mend="name the environment that the data were recorded in",
        )


def _bounded(make_env: MakeEnv, space: ActionSpace) -> gymnasium.Env[Any, Any]:
    made = make_env()
    return made if made.action_space == space or isinstance(space, spaces.Discrete) else Bounded(made, space)


def folders_of(files: Sequence[Path]) -> list[Path]:
    """The folders that files lie in, each once."""
    return list(dict.fromkeys(path.parent for path in files))
