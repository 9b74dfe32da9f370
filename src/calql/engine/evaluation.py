"""Evaluation beside training: the policy as it was when the evaluation fell due, played while updates go on.

A row says what held at that moment. Rows are handed out in the order in which evaluations fell due, which
counters decide; when one is ready decides nothing but when it is written. A checkpoint does not wait for
them: it holds the policies, which play again on resume.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.engine.checkpoint import Arrays, pack, unpack
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
class Part:
    """The evaluation of one seed."""

    index: int
    standing: Row  # all that its row says apart from what is played
    policy: Policy | None = None  # on the host
    played: Played = field(default_factory=list)


@dataclass
class Evaluation:
    """Seeds that are evaluated at one moment. What is on the device is fetched when it is needed."""

    parts: list[Part]
    measured: tuple[jax.Array | None, dict[str, jax.Array], jax.Array] | None  # Q [seed, row], sums and counts [seed]

    @property
    def ready(self) -> bool:
        return all(future.done() for part in self.parts for future in part.played)

    def fetch(self, seeds: Sequence[int], where: str) -> None:
        """Complete the standings; stops where a sum is not a number."""
        if self.measured is None:
            return
        q, sums, counts = jax.device_get(self.measured)
        require_finite(sums, {part.index: seeds[part.index] for part in self.parts}, where)
        for part in self.parts:
            i = part.index
            part.standing["average_q"] = None if q is None else float(np.mean(q[i]))
            part.standing["means"] = {name: float(total[i] / counts[i]) for name, total in sums.items() if counts[i]}
        self.measured = None


class Evaluations:
    """Evaluations from falling due to their rows, first come first served."""

    def __init__(self, plan: Plan, counters: Counters, where: str) -> None:
        self._plan, self._options, self._counters, self._where = plan, plan.options, counters, where
        self.begun: list[Evaluation] = []  # to be played
        self.restored: list[Evaluation] = []  # to be played again
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
        chosen = [int(index) for index in np.flatnonzero(who)]
        parts = [Part(index, self._standing(index, online=online, switch=switch)) for index in chosen]
        self.begun.append(Evaluation(parts, (q, *copied((learning.sums, learning.counts)))))
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
            "collected_return": float(c.collected_return[index] / collected) if collected else None,
            "collected_success": float(c.collected_success[index] / collected) if collected else None,
        }

    def play(self, policies: Policy, crew: Crew) -> None:
        """Play what has begun, with the stacked policies of that moment (on the host)."""
        for evaluation in self.begun:
            for part in evaluation.parts:
                part.policy = lane(policies, part.index)
            self._play(evaluation, crew)
        self.begun.clear()

    def _play(self, evaluation: Evaluation, crew: Crew) -> None:
        for part in evaluation.parts:
            entropy = (self._plan.seeds[part.index], EVALUATE, part.standing["number"])
            requests = [Request((*entropy, n)) for n in range(self._options.evaluation_episodes)]
            part.played = submit(crew, part.policy, requests)
        self._playing.append(evaluation)

    def finished(self) -> Iterator[list[Row]]:
        """Rows of the evaluations that are ready, in the order in which they fell due."""
        while self._playing and self._playing[0].ready:
            evaluation = self._playing.popleft()
            evaluation.fetch(self._plan.seeds, self._where)
            yield [self._row(part) for part in evaluation.parts]

    @property
    def unfinished(self) -> int:
        """Being played, counted for each seed."""
        return sum(len(evaluation.parts) for evaluation in self._playing)

    @property
    def behind(self) -> bool:
        """Too many are unfinished: updates should wait for them."""
        return self.unfinished > BEHIND * len(self._plan.seeds)

    def wait(self, seconds: float) -> None:
        """For the one that is due next, at most so long."""
        if self._playing:
            wait([future for part in self._playing[0].parts for future in part.played], seconds)

    def _row(self, part: Part) -> Row:
        """What the evaluation of one seed says."""
        summaries = [summary for future in part.played for summary in future.result()]
        score, standing, c = self._plan.task.score(summaries), part.standing, self._counters
        online = standing["phase"] == "online"
        if online:
            c.online_scores[part.index] += 1.0 - score
            c.online_evaluations[part.index] += 1
        return {
            "seed": self._plan.seeds[part.index],
            **{name: standing[name] for name in ("phase", "switch", "update", "env_steps")},
            "score": score,
            "return": float(np.mean([s.total for s in summaries])),
            "success": float(np.mean([s.success for s in summaries])),
            "episode_length": float(np.mean([s.length for s in summaries])),
            "regret": c.online_scores[part.index] / c.online_evaluations[part.index] if online else None,
            "average_q": standing["average_q"],
            "average_return_to_go": float(np.mean(self._plan.logged_probe.return_to_go)),
            **{name: standing[name] for name in ("collected_episodes", "collected_return", "collected_success")},
            **standing["means"],
        }

    def pack(self) -> Arrays:
        """What is unfinished, as standings and policies; their episodes follow from these."""
        arrays: Arrays = {}
        for number, evaluation in enumerate(self._playing):
            evaluation.fetch(self._plan.seeds, self._where)
            for part in evaluation.parts:
                arrays |= pack(_name(number, part.index), part.policy)
                text = json.dumps(part.standing).encode()
                arrays[f"{_name(number, part.index)}/standing"] = np.frombuffer(text, np.uint8)
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], policies: Policy) -> None:
        """Begin again what was unfinished when the checkpoint was written; `policies` have the right shapes."""
        for number in count():
            parts = []
            for index in range(self._options.seeds):
                name = _name(number, index)
                if f"{name}/standing" in arrays:
                    standing = json.loads(arrays[f"{name}/standing"].tobytes())
                    parts.append(Part(index, standing, jax.device_get(unpack(name, arrays, lane(policies, index)))))
            if not parts:
                return
            self.restored.append(Evaluation(parts, None))

    def replay(self, crew: Crew) -> None:
        """Play it again."""
        for evaluation in self.restored:
            self._play(evaluation, crew)
        self.restored.clear()


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


def _name(number: int, index: int) -> str:
    return f"evaluation-{number}-{index}"


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
