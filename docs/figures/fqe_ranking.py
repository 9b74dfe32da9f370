"""Does fitted Q evaluation rank policies as their real returns do? `python docs/figures/fqe_ranking.py maze hopper pen`

Ten policies of different quality for each, valued from logged data alone (nine tenths of the episodes fit, the first
states of the others are valued), then played. Prints one line of JSON: Spearman's rank correlation between the values
and the mean real returns, with a 95% interval from resampling policies and, of each, episodes and starts.

A policy is a base policy in which each action is, with a probability, a uniform one instead: ten probabilities from 0
to `--most` are ten qualities. Logged are episodes of the same kind with probabilities between 0 and 1. The base is BC
after 8,000 updates on the diverse data for the point maze, and D4RL's own for hopper (medium) and pen (expert), in the
folder CALQL_SOURCES. So the logs hold what the policies do: where they do not, expect less.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import calql
from calql.data import Dataset
from calql.data.dataset import concatenate
from calql.data.store import default_sources
from calql.domains.common.policies import load_policy
from calql.domains.registry import get_task
from calql.methods.reference import Fit, MonteCarlo, over_episodes
from calql.methods.reference.fqe import estimates, fit_policies

Act = Callable[[np.ndarray], np.ndarray]  # observations [row, ...] to actions [row, action]
DISCOUNT = 0.99
BASES = {
    "maze": ("point-maze-diverse", ""),
    "hopper": ("hopper-medium", "hopper_medium-v2_policy.npz"),
    "pen": ("pen-binary", "pen-expert-v1_policy.npz"),
}


def maze_base(root: Path) -> Act:
    outcome = calql.train(
        "point-maze-diverse", method="bc", seeds=1, online_steps=0, evaluate_offline_every=8_000,
        evaluation_episodes=1, out=root / "bc", progress=False,
    )  # fmt: skip
    return calql.load_policy(outcome.folder)


def d4rl_base(name: str) -> Act:
    sources = default_sources()
    assert sources is not None, "name the folder of D4RL's policies with CALQL_SOURCES"
    policy = load_policy(sources / "d4rl_policies" / name)
    return lambda seen: np.stack([policy.mode(row) for row in seen])


def mixed(base: Act, share: float, seed: int) -> Act:
    rng = np.random.default_rng(seed)

    def act(seen: np.ndarray) -> np.ndarray:
        actions = np.clip(base(seen), -1.0, 1.0)
        anything = rng.uniform(-1.0, 1.0, actions.shape)
        return np.where(rng.random((len(seen), 1)) < share, anything, actions).astype(np.float32)

    return act


def play(make_env: Any, act: Act, seeds: range, limit: int) -> list[Dataset]:
    """Whole episodes."""
    env, played = make_env(), []
    for seed in seeds:
        seen, actions, rewards, terminal = [env.reset(seed=seed)[0]], [], [], False
        while len(rewards) < limit and not terminal:
            actions.append(act(np.asarray(seen[-1], np.float32)[None])[0])
            observation, reward, terminal, _, _ = env.step(actions[-1])
            seen.append(observation)
            rewards.append(reward)
        last = np.arange(len(rewards)) == len(rewards) - 1
        states = np.asarray(seen, np.float32)
        numbers = (states[:-1], np.asarray(actions, np.float32), np.asarray(rewards, np.float32), states[1:])
        played.append(Dataset(*numbers, last & terminal, last & (not terminal)))
    env.close()
    return played


def logged(make_env: Any, base: Act, count: int, limit: int) -> Dataset:
    """Five episodes of each of many policies of the kind."""
    rng, parts = np.random.default_rng(7), []
    for first in range(0, count, 5):
        act = mixed(base, float(rng.uniform(0.0, 1.0)), seed=10_000 + first)
        parts += play(make_env, act, range(10_000 + first, 10_005 + first), limit)
    return concatenate(parts, source="collected here")


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
    begun, (known, file) = time.perf_counter(), BASES[name]
    task, base = get_task(known), d4rl_base(file) if file else maze_base(root)
    data = logged(task.make_env, base, arguments.logged, task.episode_limit)  # actions of all three are in [-1, 1]
    fitted, held_out = data.split(0.1, seed=0)
    assert held_out is not None
    shares = np.linspace(0.0, arguments.most, 10)
    policies = [mixed(base, float(share), seed) for seed, share in enumerate(shares)]
    rewards = task.rewards.fitted(data)
    fit = Fit(fitted, rewards, DISCOUNT, updates=arguments.updates)
    starts = held_out.observations[held_out.episode_starts]
    after, first = (np.stack([act(seen) for act in policies]) for seen in (fitted.next_observations, starts))
    values = fit_policies(fit, after)(starts, first)
    played = [play(task.make_env, act, range(arguments.episodes), task.episode_limit) for act in policies]
    real = np.array([[float(episode.rewards.sum()) for episode in each] for each in played])
    valued = MonteCarlo(rewards, DISCOUNT)
    discounted = np.array([[over_episodes(valued, Fit(e, rewards, DISCOUNT))[0] for e in each] for each in played])
    return {
        "domain": name, "most": arguments.most, "rows": len(data), "updates": arguments.updates,
        "held_out_starts": len(starts), "episodes": arguments.episodes,
        "rank_correlation": ranks(values, real), "interval": interval(values, real),
        "rank_correlation_discounted": ranks(values, discounted),
        "interval_discounted": interval(values, discounted),
        "value": [[round(number, 2) for number in each] for each in estimates(values)],
        "real_return": [round(float(each), 2) for each in real.mean(axis=1)],
        "real_discounted": [round(float(each), 2) for each in discounted.mean(axis=1)],
        "seconds": round(time.perf_counter() - begun),
    }  # fmt: skip


def ranks(values: np.ndarray, returns: np.ndarray) -> float:
    return round(float(spearmanr(values.mean(axis=1), returns.mean(axis=1)).statistic), 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("domains", nargs="+", choices=("maze", "hopper", "pen"))
    parser.add_argument("--updates", type=int, default=10_000, help="of fitted Q evaluation")
    parser.add_argument("--episodes", type=int, default=20, help="that each policy really plays")
    parser.add_argument("--most", type=float, default=0.9, help="share of uniform actions of the worst policy")
    parser.add_argument("--logged", type=int, default=200, help="episodes that are logged")
    arguments = parser.parse_args()
    for name in arguments.domains:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(name, arguments, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
