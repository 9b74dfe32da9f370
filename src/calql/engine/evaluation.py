"""Evaluation beside training: the policy as it was when the evaluation fell due, played while updates go on.

A row says what held at that moment. Rows are handed out by the number of the evaluation, those of all seeds
together, whichever was ready first: when a row is ready decides nothing but when it is written. A checkpoint
does not wait for them: it holds the policies, which play again on resume.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from calql.data.rewards import EpisodeSummary
from calql.engine.checkpoint import Arrays, pack, unpack
from calql.engine.counters import Counters, Seeds
from calql.engine.episodes import AFRESH, EVALUATE, Request
from calql.engine.health import Health, duplicate, mark
from calql.engine.plan import Plan
from calql.engine.program import Learning
from calql.engine.rollout import Evaluate, policy_of
from calql.engine.workers import Pool
from calql.methods.base import Metrics, Policy
from calql.methods.vocabulary import AVERAGE_Q, AVERAGE_RETURN_TO_GO
from calql.results import Row
from calql.results.arms import Member, named

TOGETHER = 10  # episodes of a policy that a worker steps side by side
BEHIND = 4  # evaluations of each seed that may be being played before updates wait for them
PACKED, STANDING = "evaluation-{}-{}", "/standing"  # names in a checkpoint
ASSESSED = "assessed"  # in a standing: what was said from logs, where there is no environment
NEVER_AGAIN = np.iinfo(np.int64).max

UNPLAYED: Row = dict.fromkeys(("score", "return", "success", "episode_length", "regret"))

Played = list[Future[list[EpisodeSummary]]]


class Measured:
    """What the device knew of all seeds at one moment; fetched when it is needed."""

    def __init__(self, q: jax.Array | None, sums: Metrics, counts: jax.Array, health: Health) -> None:
        self._held = (q, sums, counts, health)

    @cached_property
    def fetched(self) -> tuple[NDArray[np.float32] | None, dict[str, NDArray[np.float32]], NDArray[np.int32], Health]:
        """Q [seed, row], sums and counts [seed], and which seeds had diverged."""
        host: Any = jax.device_get(self._held)
        return host


@dataclass
class Evaluation:
    """One evaluation of one seed."""

    index: int  # of the seed
    standing: Row  # all that its row says apart from what is played
    measured: Measured | None  # not in the standing yet
    policy: Policy | None = None  # on the host
    played: Played = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return ASSESSED in self.standing or (bool(self.played) and all(future.done() for future in self.played))

    @property
    def place(self) -> tuple[int, int]:
        """Where its row stands among all rows."""
        return self.standing["number"], self.index


class Evaluations:
    """Evaluations from falling due to their rows."""

    def __init__(self, plan: Plan, counters: Counters) -> None:
        self._plan, self._options, self._counters = plan, plan.options, counters
        self.begun: list[Evaluation] = []  # to be played
        self.restored: list[Evaluation] = []  # to be played again
        self._unwritten: dict[tuple[int, int], Evaluation] = {}  # by place

    @property
    def due(self) -> Seeds:
        """Online: each time a seed's steps pass a multiple of the interval, and at its end."""
        c = self._counters
        passed = c.env_steps // self._options.evaluate_online_every > c.evaluated_at
        ended = (c.env_steps >= max(self._plan.last_step, 1)) & (c.evaluated_at != NEVER_AGAIN)
        return passed | ended

    def begin(
        self, who: Seeds, learning: Learning, health: Health, q: jax.Array | None, *, online: bool, switch: bool
    ) -> None:
        """Note how things stand; the next block may then change them."""
        measured = Measured(q, *duplicate((learning.sums, learning.counts, health)))
        for index in np.flatnonzero(who).tolist():
            evaluation = Evaluation(index, self._standing(index, online=online, switch=switch), measured)
            self.begun.append(evaluation)
            self._unwritten[evaluation.place] = evaluation
        self._counters.reset_collected(who)

    def _standing(self, index: int, *, online: bool, switch: bool) -> Row:
        c = self._counters
        if online:
            at_end = c.env_steps[index] >= self._plan.last_step
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

    def assess(self, policies: Policy) -> None:
        """Value what has begun from logs, with the stacked policies of that moment."""
        assert self._plan.assess is not None
        found = self._plan.assess(policies)
        for evaluation in self.begun:
            evaluation.policy = policy_of(policies, evaluation.index)
            evaluation.standing[ASSESSED] = found[evaluation.index]
        self.begun.clear()

    def play(self, policies: Policy, pool: Pool) -> None:
        """Play what has begun, with the stacked policies of that moment (on the host)."""
        for evaluation in self.begun:
            evaluation.policy = policy_of(policies, evaluation.index)
            self._play(evaluation, pool)
        self.begun.clear()

    def _play(self, evaluation: Evaluation, pool: Pool) -> None:
        entropy = (self._plan.seeds[evaluation.index], EVALUATE, evaluation.standing["number"])
        requests = [Request((*entropy, n)) for n in range(self._options.evaluation_episodes)]
        evaluation.played = submit(pool, evaluation.policy, requests)

    def finished(self) -> Iterator[list[Row]]:
        """Rows of those that are ready, all seeds of one number at a time."""
        while self._unwritten:
            number = min(number for number, _ in self._unwritten)
            found = [self._unwritten.get((number, index)) for index in range(len(self._plan.seeds))]
            if any(self._to_come(index) if one is None else not one.ready for index, one in enumerate(found)):
                return
            yield [self._row(self._unwritten.pop(one.place)) for one in found if one is not None]

    def _to_come(self, index: int) -> bool:
        """Whether a seed has evaluations before it."""
        return bool(self._counters.evaluated_at[index] != NEVER_AGAIN)

    @property
    def unfinished(self) -> int:
        """Begun and not written yet."""
        return len(self._unwritten)

    @property
    def playing(self) -> list[Evaluation]:
        """Those whose episodes have not all ended."""
        return [evaluation for evaluation in self._unwritten.values() if not evaluation.ready]

    @property
    def behind(self) -> bool:
        """Too many are being played: updates should wait for them."""
        return len(self.playing) > BEHIND * len(self._plan.seeds)

    def wait(self, seconds: float) -> None:
        """For the one that is due next, at most so long."""
        if playing := self.playing:
            wait(min(playing, key=lambda evaluation: evaluation.place).played, seconds)

    def aside(self, learning: Learning, health: Health, q: jax.Array | None, policies: Policy, pool: Pool) -> list[Row]:
        """Rows of this moment of the online phase, apart from those of the run: they change nothing that it keeps."""
        other = Evaluations(self._plan, copy.deepcopy(self._counters))
        everyone = np.ones(len(self._plan.seeds), bool)
        other.begin(everyone, learning, health, q, online=True, switch=False)
        begun = list(other.begun)
        other.assess(policies) if self._plan.assess is not None else other.play(policies, pool)
        wait([future for evaluation in begun for future in evaluation.played])
        return [other._row(evaluation) for evaluation in begun]

    def _complete(self, evaluation: Evaluation) -> None:
        """What was measured goes into the standing, and where the seed diverged, if it did."""
        if evaluation.measured is None:
            return
        (q, sums, counts, health), i = evaluation.measured.fetched, evaluation.index
        evaluation.standing["mark"] = mark(health, i)
        evaluation.standing[AVERAGE_Q] = None if q is None else float(np.mean(q[i]))
        evaluation.standing["means"] = {name: float(total[i] / counts[i]) for name, total in sums.items() if counts[i]}
        evaluation.measured = None

    def _row(self, evaluation: Evaluation) -> Row:
        self._complete(evaluation)
        standing = evaluation.standing
        said = UNPLAYED | standing[ASSESSED] if ASSESSED in standing else self._played(evaluation)
        return {
            **named(self._plan.members[evaluation.index]),
            **{name: standing[name] for name in ("phase", "switch", "update", "env_steps")},
            **said,
            AVERAGE_Q: standing[AVERAGE_Q],
            AVERAGE_RETURN_TO_GO: float(np.mean(self._plan.logged_probe.return_to_go)),
            **{name: standing[name] for name in ("collected_episodes", "collected_return", "collected_success")},
            **standing["means"],
            **standing.get("mark", {}),
        }

    def _played(self, evaluation: Evaluation) -> Row:
        """What its episodes came to."""
        summaries = [summary for future in evaluation.played for summary in future.result()]
        score, c = self._plan.task.score(summaries), self._counters
        online = evaluation.standing["phase"] == "online"
        if online:
            c.online_scores[evaluation.index] += 1.0 - score
            c.online_evaluations[evaluation.index] += 1
        return {
            "score": score,
            "return": float(np.mean([s.total for s in summaries])),
            "success": float(np.mean([s.success for s in summaries])),
            "episode_length": float(np.mean([s.length for s in summaries])),
            "regret": c.online_scores[evaluation.index] / c.online_evaluations[evaluation.index] if online else None,
        }

    def pack(self) -> Arrays:
        """What is unwritten, as standings and policies; their episodes follow from these."""
        arrays: Arrays = {}
        for evaluation in self._unwritten.values():
            self._complete(evaluation)
            name = PACKED.format(*evaluation.place)
            text = json.dumps(evaluation.standing).encode()
            arrays |= pack(name, evaluation.policy) | {f"{name}{STANDING}": np.frombuffer(text, np.uint8)}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], policies: Policy) -> None:
        """Begin again what was unwritten when the checkpoint was made; `policies` have the right shapes."""
        for name in (key.removesuffix(STANDING) for key in arrays if key.endswith(STANDING)):
            standing, index = json.loads(arrays[f"{name}{STANDING}"].tobytes()), int(name.split("-")[-1])
            policy = jax.device_get(unpack(name, arrays, policy_of(policies, index)))
            self.restored.append(Evaluation(index, standing, None, policy))
            self._unwritten[self.restored[-1].place] = self.restored[-1]

    def reopen(self) -> None:
        """Seeds that had come to their end and have steps before them again are evaluated further.

        Of logs alone, an end between two evaluations is none of those that are due by the interval.
        """
        c, options = self._counters, self._options
        if self._plan.assess is not None:
            c.evaluations[:] = np.minimum(c.evaluations, c.gradient_steps // options.evaluate_offline_every + 1)
        again = (c.evaluated_at == NEVER_AGAIN) & (c.env_steps < self._plan.last_step)
        c.evaluated_at[again] = c.env_steps[again] // options.evaluate_online_every

    def replay(self, pool: Pool) -> None:
        """Play it again."""
        for evaluation in self.restored:
            if ASSESSED not in evaluation.standing:
                self._play(evaluation, pool)
        self.restored.clear()


def evaluate_afresh(
    policies: Mapping[Member, Policy], pool: Pool, episodes: int, start: int
) -> dict[Member, list[EpisodeSummary]]:
    """What each policy comes to over episodes that training never played."""
    played: dict[Member, Played] = {}
    for member, policy in policies.items():
        requests = [Request((named(member)["seed"], AFRESH, start + n)) for n in range(episodes)]
        played[member] = submit(pool, policy, requests)
    return {whose: [summary for future in futures for summary in future.result()] for whose, futures in played.items()}


def submit(pool: Pool, policy: Policy, requests: Sequence[Request]) -> Played:
    """Episodes of one policy, in jobs of a size that depends on nothing but their number."""
    groups = [tuple(requests[first : first + TOGETHER]) for first in range(0, len(requests), TOGETHER)]
    return [pool.submit(Evaluate(policy, group)) for group in groups]
