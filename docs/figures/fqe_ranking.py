"""Does fitted Q evaluation rank policies as their real returns do? `python docs/figures/fqe_ranking.py maze hopper pen`

Ten policies of different quality for each, valued from logged data alone (nine tenths of the episodes fit, the first
states of the others are valued), then played. Prints one line of JSON: Spearman's rank correlation between the values
and the mean real returns, with a 95% interval from resampling policies and, of each, episodes and starts.

- maze: the point maze's diverse data; policies of BC and Cal-QL after 20 to 8,000 updates.
- hopper, pen: D4RL's hopper medium and pen expert policy (folder CALQL_SOURCES), moved towards an action that is drawn
  once for each policy, by nothing to nine tenths. Logged are episodes of such policies, others than the ten, with noise.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import calql
from calql.data import Dataset, normalise_actions
from calql.data.store import default_sources
from calql.domains.common.policies import load_policy
from calql.domains.registry import get_task
from calql.methods.reference import Fit
from calql.methods.reference.fqe import estimates, fit_policies

Act = Callable[[np.ndarray], np.ndarray]  # observations [row, ...] to actions [row, action]
LENGTHS = (20, 100, 400, 1_500, 8_000)
SHARES = np.linspace(0.0, 0.9, 10)
BASES = {
    "hopper": ("hopper-medium", "hopper_medium-v2_policy.npz"),
    "pen": ("pen-binary", "pen-expert-v1_policy.npz"),
}


def maze_policies(root: Path) -> list[Act]:
    found: list[Act] = []
    for method in ("bc", "cal-ql"):
        for length in LENGTHS:
            outcome = calql.train(
                "point-maze-diverse", method=method, seeds=1, offline_updates=length, online_steps=0,
                evaluate_offline_every=length, evaluation_episodes=1, out=root / f"{method}-{length}", progress=False,
            )  # fmt: skip
            found.append(calql.load_policy(outcome.folder))
    return found


def moved(base: Any, share: float, towards: np.ndarray) -> Act:
    def act(seen: np.ndarray) -> np.ndarray:
        modes = np.stack([base.mode(row) for row in seen])
        return np.clip((1.0 - share) * modes + share * towards, -1.0, 1.0).astype(np.float32)

    return act


def play(make_env: Any, act: Act, seeds: range, limit: int, noise: float = 0.0) -> list[Dataset]:
    """Whole episodes."""
    env, rng, played = make_env(), np.random.default_rng(seeds[0]), []
    for seed in seeds:
        seen, actions, rewards, terminal = [env.reset(seed=seed)[0]], [], [], False
        while len(rewards) < limit and not terminal:
            action = act(np.asarray(seen[-1], np.float32)[None])[0]
            action = np.clip(
                action + noise * rng.normal(size=action.shape), env.action_space.low, env.action_space.high
            )
            observation, reward, terminal, truncated, _ = env.step(action.astype(np.float32))
            seen.append(observation)
            actions.append(action)
            rewards.append(reward)
            if truncated:
                break
        last = np.arange(len(rewards)) == len(rewards) - 1
        states = np.asarray(seen, np.float32)
        numbers = (states[:-1], np.asarray(actions, np.float32), np.asarray(rewards, np.float32), states[1:])
        played.append(Dataset(*numbers, last & terminal, last & (not terminal)))
    env.close()
    return played


def logged(make_env: Any, base: Any, count: int, limit: int) -> Dataset:
    """Episodes of other policies of the kind, each of them for five."""
    from calql.data.dataset import concatenate

    rng, parts, size = np.random.default_rng(7), [], base.action_size
    for first in range(0, count, 5):
        act = moved(base, float(rng.uniform(0.0, 1.0)), rng.uniform(-1.0, 1.0, size))
        parts += play(make_env, act, range(10_000 + first, 10_005 + first), limit, noise=0.2)
    return concatenate(parts, source="collected here")


def case(name: str, root: Path, episodes: int) -> tuple[Any, Dataset, list[Act]]:
    if name == "maze":
        task = get_task("point-maze-diverse")
        return task, task.load_data(), maze_policies(root)
    sources = default_sources()
    assert sources is not None, "name the folder of D4RL's policies with CALQL_SOURCES"
    task, base = get_task(BASES[name][0]), load_policy(sources / "d4rl_policies" / BASES[name][1])
    rng = np.random.default_rng(3)
    policies = [moved(base, share, rng.uniform(-1.0, 1.0, base.action_size)) for share in SHARES]
    return task, logged(task.make_env, base, episodes, task.episode_limit), policies


def interval(values: np.ndarray, returns: np.ndarray, resamples: int = 2_000) -> tuple[float, float]:
    """Of the rank correlation: values [policy, start], returns [policy, episode]."""
    rng, count, found = np.random.default_rng(0), len(values), []
    for _ in range(resamples):
        policies = rng.integers(0, count, count)
        starts = rng.integers(0, values.shape[1], values.shape[1])
        valued = values[policies][:, starts].mean(axis=1)
        real = [returns[policy, rng.integers(0, returns.shape[1], returns.shape[1])].mean() for policy in policies]
        if len(set(policies.tolist())) > 2:
            found.append(spearmanr(valued, real).statistic)
    low, high = np.nanquantile(found, [0.025, 0.975])
    return round(float(low), 2), round(float(high), 2)


def measure(name: str, arguments: argparse.Namespace, root: Path) -> dict[str, Any]:
    begun = time.perf_counter()
    task, data, policies = case(name, root, arguments.logged)
    env = task.make_env()
    low, high = env.action_space.low, env.action_space.high
    env.close()
    units = normalise_actions(data, low, high, limit=1.0)[0]
    fitted, held_out = units.split(0.1, seed=0)
    assert held_out is not None

    def acted(seen: np.ndarray) -> np.ndarray:
        def one(act: Act) -> np.ndarray:
            getattr(act, "reset", lambda: None)()
            return act(np.asarray(seen, np.float32))

        return np.stack([(one(act) - low) / (high - low) * 2.0 - 1.0 for act in policies]).astype(np.float32)

    rewards = replace(task, rewards=task.rewards.fitted(data)).rewards
    fit = Fit(fitted, rewards, 0.99, updates=arguments.updates)
    starts = held_out.observations[held_out.episode_starts]
    values = fit_policies(fit, acted(fitted.next_observations))(starts, acted(starts))
    returns = []
    for act in policies:
        getattr(act, "reset", lambda: None)()
        episodes = play(task.make_env, act, range(arguments.episodes), task.episode_limit)
        returns.append([float(episode.rewards.sum()) for episode in episodes])
    real = np.array(returns)
    ranks = float(spearmanr(values.mean(axis=1), real.mean(axis=1)).statistic)
    return {
        "domain": name, "rows": len(data), "updates": arguments.updates, "held_out_starts": len(starts),
        "rank_correlation": round(ranks, 2), "interval": interval(values, real),
        "value": [[round(number, 2) for number in each] for each in estimates(values)],
        "real_return": [round(float(each), 2) for each in real.mean(axis=1)],
        "seconds": round(time.perf_counter() - begun),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("domains", nargs="+", choices=("maze", "hopper", "pen"))
    parser.add_argument("--updates", type=int, default=10_000, help="of fitted Q evaluation")
    parser.add_argument("--episodes", type=int, default=20, help="that each policy really plays")
    parser.add_argument("--logged", type=int, default=200, help="episodes of hopper and pen")
    arguments = parser.parse_args()
    for name in arguments.domains:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(name, arguments, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
