"""Does fitted Q evaluation rank policies of discrete actions as their true values do?

`python docs/figures/fqe_ranking_choices.py [--masked]`

On the cliff grid the truth is known: the value of a policy solves a system of linear equations over its 45 cells. Ten
policies go the shortest way, but for a share of random moves, from none to `--most`. They are valued from logs alone
(nine tenths of the episodes fit, the first states of the others are valued), with the exact mean over moves. Logged
are episodes of the same kind, with shares between 0 and 1. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from calql.data import one_hot
from calql.data.dataset import Dataset, concatenate
from calql.data.rewards import RewardRule
from calql.domains.cliff_grid.data import distances
from calql.domains.cliff_grid.env import LEDGE, MOVES, CliffGrid, allowed, cells, moved, place
from calql.domains.cliff_grid.tasks import EPISODE_LIMIT
from calql.domains.common.mazes import Square
from calql.methods.reference import Fit
from calql.methods.reference.fqe import estimates, fit_policies

DISCOUNT = 0.9  # the task's
FREE = cells(LEDGE, "s.")
FAR = distances(LEDGE)
PLACES = {tuple(place(LEDGE, cell).tolist()): cell for cell in cells(LEDGE, "s.gx")}


def moves(cell: Square, share: float, *, masked: bool) -> np.ndarray:
    """Probabilities of the four moves: shortest ways, and a share of any that is allowed."""
    open_ = allowed(LEDGE, cell).astype(float) if masked else np.ones(len(MOVES))
    ahead = np.array([FAR.get(moved(LEDGE, cell, action), len(FAR)) for action in range(len(MOVES))])
    best = (ahead == ahead.min()).astype(float)
    return (1.0 - share) * best / best.sum() + share * open_ / open_.sum()


def truth(share: float, discount: float, *, masked: bool) -> dict[Square, float]:
    """V = r + discount P V of every cell from which the episode goes on."""
    index = {cell: number for number, cell in enumerate(FREE)}
    system, earned = np.eye(len(FREE)), np.zeros(len(FREE))
    for cell in FREE:
        for action, chance in enumerate(moves(cell, share, masked=masked)):
            after = moved(LEDGE, cell, action)
            earned[index[cell]] += chance * (LEDGE[after[0]][after[1]] == "g")
            if after in index:
                system[index[cell], index[after]] -= discount * chance
    return dict(zip(FREE, np.linalg.solve(system, earned).tolist(), strict=True))


def logged(count: int, *, masked: bool) -> Dataset:
    """Episodes of many policies of the kind, cut off at the task's limit."""
    rng, parts, env = np.random.default_rng(7), [], CliffGrid(masked=masked)
    for number in range(count):
        env.reset(seed=10_000 + number)
        share, seen, actions, rewards, terminal = float(rng.uniform()), [env.cell], [], [], False
        while not terminal and len(actions) < EPISODE_LIMIT:
            actions.append(int(rng.choice(len(MOVES), p=moves(env.cell, share, masked=masked))))
            _, reward, terminal, *_ = env.step(actions[-1])
            seen.append(env.cell)
            rewards.append(reward)
        last = np.arange(len(actions)) == len(actions) - 1
        states = np.stack([place(LEDGE, cell) for cell in seen])
        masks = np.stack([allowed(LEDGE, cell) for cell in seen]).astype(bool)
        known: dict[str, Any] = {"action_masks": masks[:-1], "next_action_masks": masks[1:]} if masked else {}
        columns = (states[:-1], np.array(actions, np.int64), np.array(rewards, np.float32), states[1:])
        parts.append(Dataset(*columns, last & terminal, last & (not terminal), **known))
    return one_hot(concatenate(parts, source="collected here"), env.action_space)


def probabilities(share: float, seen: np.ndarray, *, masked: bool) -> np.ndarray:
    found = {where: moves(cell, share, masked=masked) for where, cell in PLACES.items()}
    return np.stack([found[tuple(row.tolist())] for row in seen]).astype(np.float32)


def interval(values: np.ndarray, true: np.ndarray, resamples: int = 2_000) -> tuple[float, float]:
    """Of the rank correlation, by resampling policies and the starts that are valued."""
    rng, found = np.random.default_rng(0), []
    for _ in range(resamples):
        policies, starts = rng.integers(0, len(true), len(true)), rng.integers(0, values.shape[1], values.shape[1])
        if len(set(policies.tolist())) > 2:
            found.append(spearmanr(values[policies][:, starts].mean(axis=1), true[policies]).statistic)
    low, high = np.nanquantile(found, [0.025, 0.975])
    return round(float(low), 2), round(float(high), 2)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    begun, masked = time.process_time(), arguments.masked
    data = logged(arguments.logged, masked=masked)
    fitted, held_out = data.split(0.1, seed=0)
    assert held_out is not None
    shares = np.linspace(0.0, arguments.most, 10)
    starts = held_out.observations[held_out.episode_starts]
    after, first = (
        np.stack([probabilities(share, seen, masked=masked) for share in shares])
        for seen in (fitted.next_observations, starts)
    )
    fit = Fit(fitted, RewardRule(), DISCOUNT, updates=arguments.updates, widths=(64, 64))
    values = fit_policies(fit, after)(starts, first)
    own = [PLACES[tuple(row.tolist())] for row in starts]
    true = np.array([np.mean([truth(share, DISCOUNT, masked=masked)[cell] for cell in own]) for share in shares])
    reached = [np.mean([truth(share, 1.0, masked=masked)[cell] for cell in own]) for share in shares]
    return {
        "masked": masked, "rows": len(data), "updates": arguments.updates, "held_out_starts": len(starts),
        "most": arguments.most, "rank_correlation": round(float(spearmanr(values.mean(axis=1), true).statistic), 2),
        "interval": interval(values, true),
        "mean_error": round(float(np.abs(values.mean(axis=1) - true).mean()), 3),
        "value": [[round(number, 3) for number in each] for each in estimates(values)],
        "true_value": [round(float(each), 3) for each in true],
        "true_success": [round(float(each), 2) for each in reached],
        "processor_seconds": round(time.process_time() - begun),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=4_000, help="of fitted Q evaluation")
    parser.add_argument("--most", type=float, default=0.9, help="share of random moves of the worst policy")
    parser.add_argument("--logged", type=int, default=200, help="episodes that are logged")
    parser.add_argument("--masked", action="store_true", help="moves into the edge are forbidden")
    print(json.dumps(measure(parser.parse_args())), flush=True)


if __name__ == "__main__":
    main()
