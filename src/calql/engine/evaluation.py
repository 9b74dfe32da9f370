"""Evaluation beside training: the policy as it was when the evaluation fell due, played while updates go on.

A row says what held at that moment. Rows are handed out in the order in which evaluations fell due, which
counters decide; when one is ready decides nothing but when it is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.engine.counters import Counters, Seeds
from calql.engine.plan import Plan
from calql.engine.program import Learning
from calql.engine.rollout import Evaluate, Request, lane
from calql.engine.workers import Crew
from calql.errors import Diverged
from calql.methods.base import Policy
from calql.results import Row
from calql.tasks.base import EpisodeSummary

EVALUATE, AFRESH = 1, 2  # purposes of an episode
TOGETHER = 4  # episodes of a policy that a player steps side by side
BEHIND = 4  # evaluations of each seed that may be unfinished before updates wait for them
NEVER_AGAIN = np.iinfo(np.int64).max

Played = list[Future[list[EpisodeSummary]]]


@dataclass
class Evaluation:
    """One evaluation of some seeds. What is on the device is fetched when the row is made."""

    seeds: list[int]  # indices
    standings: list[Row]  # what the counters said, for each
    q: jax.Array | None  # [seed, row]
    sums: dict[str, jax.Array]  # [seed]
    counts: jax.Array
    played: list[Played] = field(default_factory=list)  # for each

    @property
    def ready(self) -> bool:
        return all(future.done() for played in self.played for future in played)


class Evaluations:
    """Evaluations from falling due to their rows, first come first served."""

    def __init__(self, plan: Plan, counters: Counters, where: str) -> None:
        self._plan, self._options, self._counters, self._where = plan, plan.options, counters, where
        self.begun: list[Evaluation] = []  # to be played
        self._playing: deque[Evaluation] = deque()

    @property
    def due(self) -> Seeds:
        """Online: each time a seed's steps pass a multiple of the interval, and at its end."""
        c = self._counters
        passed = c.env_steps // self._options.evaluate_online_every > c.evaluated_at
        ended = (c.env_steps >= max(self._options.online_steps, 1)) & (c.evaluated_at != NEVER_AGAIN)
        return passed | ended

    def begin(self, who: Seeds, learning: Learning, q: jax.Array | None, *, online: bool, switch: bool) -> None:
        """Note how things stand; the next block may then change them."""
        seeds = [int(index) for index in np.flatnonzero(who)]
        standings = [self._standing(index, online=online, switch=switch) for index in seeds]
        self.begun.append(Evaluation(seeds, standings, q, *copied((learning.sums, learning.counts))))
        self._counters.reset_collected(who)

    def _standing(self, index: int, *, online: bool, switch: bool) -> Row:
        c = self._counters
        if online:
            at_end = c.env_steps[index] >= self._options.online_steps
            interval = self._options.evaluate_online_every
            c.evaluated_at[index] = NEVER_AGAIN if at_end else c.env_steps[index] // interval
        number, collected = int(c.evaluations[index]), int(c.collected_episodes[index])
        c.evaluations[index] += 1
        return {
            "number": number,
            "phase": "online" if online else "offline",
            "switch": switch,
            "update": int(c.gradient_steps[index]),
            "env_steps": int(c.env_steps[index]),
            "collected_episodes": collected,
            "collected_return": c.collected_return[index] / collected if collected else None,
            "collected_success": c.collected_success[index] / collected if collected else None,
        }

    def play(self, policies: Policy, crew: Crew) -> None:
        """Play what has begun, with the stacked policies of that moment (on the host)."""
        for evaluation in self.begun:
            for index, standing in zip(evaluation.seeds, evaluation.standings, strict=True):
                entropy = (self._plan.seeds[index], EVALUATE, standing["number"])
                requests = [Request((*entropy, n)) for n in range(self._options.evaluation_episodes)]
                evaluation.played.append(submit(crew, lane(policies, index), requests))
            self._playing.append(evaluation)
        self.begun.clear()

    def finished(self, *, wait: bool) -> Iterator[list[Row]]:
        """Rows of the evaluations that are ready, or of all; also where too many are unfinished."""
        while self._playing and (wait or self._playing[0].ready or self._too_many):
            yield self._rows(self._playing.popleft())

    @property
    def _too_many(self) -> bool:
        return sum(len(evaluation.seeds) for evaluation in self._playing) > BEHIND * len(self._plan.seeds)

    def _rows(self, evaluation: Evaluation) -> list[Row]:
        q, sums, counts = jax.device_get((evaluation.q, evaluation.sums, evaluation.counts))
        require_finite(sums, {i: self._plan.seeds[i] for i in evaluation.seeds}, self._where)
        rows = []
        for index, standing, played in zip(evaluation.seeds, evaluation.standings, evaluation.played, strict=True):
            means = {name: total[index] / counts[index] for name, total in sums.items() if counts[index]}
            summaries = [summary for future in played for summary in future.result()]
            rows.append(self._row(index, standing, summaries, None if q is None else q[index], means))
        return rows

    def _row(
        self, index: int, standing: Row, summaries: list[EpisodeSummary], q: NDArray[np.float32] | None, means: Row
    ) -> Row:
        """What one evaluation of one seed says."""
        score, online, c = self._plan.task.score(summaries), standing["phase"] == "online", self._counters
        if online:
            c.online_scores[index] += 1.0 - score
            c.online_evaluations[index] += 1
        return {
            "seed": self._plan.seeds[index],
            **{name: standing[name] for name in ("phase", "switch", "update", "env_steps")},
            "score": score,
            "return": float(np.mean([s.total for s in summaries])),
            "success": float(np.mean([s.success for s in summaries])),
            "episode_length": float(np.mean([s.length for s in summaries])),
            "regret": c.online_scores[index] / c.online_evaluations[index] if online else None,
            "average_q": None if q is None else float(np.mean(q)),
            "average_return_to_go": float(np.mean(self._plan.logged_probe.return_to_go)),
            **{name: standing[name] for name in ("collected_episodes", "collected_return", "collected_success")},
            **{name: float(value) for name, value in means.items()},
        }


def evaluate_afresh(plan: Plan, policies: Policy, crew: Crew, episodes: int, start: int) -> dict[str, Any]:
    """Score, return and length of each seed over episodes that training never played; changes nothing."""
    played = []
    for index, seed in enumerate(plan.seeds):
        requests = [Request((seed, AFRESH, start + n)) for n in range(episodes)]
        played.append(submit(crew, lane(policies, index), requests))
    each = [[summary for future in futures for summary in future.result()] for futures in played]
    return {
        "seeds": plan.seeds,
        "score": [plan.task.score(summaries) for summaries in each],
        "return": [float(np.mean([s.total for s in summaries])) for summaries in each],
        "episode_length": [float(np.mean([s.length for s in summaries])) for summaries in each],
    }


def submit(crew: Crew, policy: Policy, requests: Sequence[Request]) -> Played:
    """Episodes of one policy, in jobs of a size that depends on nothing but their number."""
    groups = [tuple(requests[first : first + TOGETHER]) for first in range(0, len(requests), TOGETHER)]
    return [crew.submit(Evaluate(policy, group)) for group in groups]


@jax.jit
def copied(tree: Any) -> Any:
    """A copy on the device, safe from the next block, which takes its inputs' memory."""
    return jax.tree.map(jnp.copy, tree)


def require_finite(sums: Mapping[str, NDArray[np.float32]], seeds: Mapping[int, int], where: str) -> None:
    """Stop where the sums [index] of a seed (by index) hold what is not a number."""
    for name, total in sums.items():
        bad = [seed for index, seed in seeds.items() if not np.isfinite(total[index])]
        if bad:
            raise Diverged(
                f"'{name}' is not a number for seed {bad[0]}",
                where=where,
                mend="the last good checkpoint is kept: lower --critic-rate or --policy-rate, or check the rewards",
            )
