"""One run: offline phase, switch, online phase, for all seeds; stops and goes on at any block."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.engine.checkpoint import Arrays, Checkpoints, pack, unpack
from calql.engine.mixing import offline_rows
from calql.engine.plan import Plan
from calql.engine.program import Learning, Program, clear_sums, insert_all
from calql.engine.replay import Replay, empty_like
from calql.engine.rollout import Episode, Request, Stage
from calql.engine.workers import Rollouts, make_rollouts
from calql.errors import Diverged
from calql.results import Display, MetricsLog, Row, Sink

COLLECT, EVALUATE, AFRESH = 0, 1, 2  # purposes of an episode; with seed and number they decide its randomness
Counts = NDArray[np.int64]


@dataclass
class Counters:
    """Where each seed stands. Every field [seed]."""

    env_steps: Counts
    gradient_steps: Counts
    episodes: Counts  # collected
    debt: Counts  # gradient steps earned by collected steps and not done yet
    evaluations: Counts
    evaluated_at: Counts  # env_steps // interval at the last evaluation
    online_scores: NDArray[np.float64]  # sum over online evaluations of 1 - score
    online_evaluations: Counts
    collected_return: NDArray[np.float64]  # sums since the last evaluation
    collected_success: NDArray[np.float64]
    collected_episodes: Counts

    @classmethod
    def zeros(cls, seeds: int) -> Counters:
        sums = {"online_scores", "collected_return", "collected_success"}
        kinds: dict[str, Any] = {f.name: np.float64 if f.name in sums else np.int64 for f in fields(cls)}
        return cls(**{name: np.zeros(seeds, kind) for name, kind in kinds.items()})


@dataclass
class Stopwatch:
    """Work done and time taken since the process started; never part of the results."""

    begun: float = field(default_factory=time.monotonic)
    training: float = 0.0
    collecting: float = 0.0
    updates: int = 0  # of all seeds
    env_steps: int = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    def rates(self) -> tuple[float, float]:
        """Updates/s while updating and env steps/s while collecting, over all seeds."""
        return self.updates / max(self.training, 1e-9), self.env_steps / max(self.collecting, 1e-9)


class Run:
    """The state of a run and the steps that move it on.

    Between two blocks every seed is between two trajectories, so a checkpoint needs no environment
    state: the next episode follows from the seed and its number.
    """

    def __init__(self, plan: Plan, folder: Path, display: Display, sinks: Sequence[Sink] = ()) -> None:
        self.plan, self.folder, self.display, self.sinks = plan, folder, display, list(sinks)
        self.options = plan.options
        self.metrics = MetricsLog(folder / "metrics.jsonl")
        self.speed = MetricsLog(folder / "speed.jsonl")
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.watch = Stopwatch()
        self.rows_written = 0
        self.online = False
        self.counters = Counters.zeros(self.options.seeds)
        self.program = Program(plan.method)
        roots = [jax.random.key(seed) for seed in plan.seeds]
        self._update_keys = jnp.stack([jax.random.fold_in(root, 1) for root in roots])
        state = self.program.start(jnp.stack([jax.random.fold_in(root, 0) for root in roots]), plan.inputs.spec)
        zero = jnp.zeros(self.options.seeds, jnp.int32)
        self.learning = self.program.fresh(state, zero, plan.inputs.logged)
        self.replay = self._empty_replay()
        self._rollouts: Rollouts | None = None

    # -- the course of a run ------------------------------------------------------------------------------

    def execute(self, should_stop: Callable[[], bool]) -> bool:
        """Go on until the end (True) or until told to stop at the next block (False); checkpoints either way."""
        self._announce()
        last_saved = time.monotonic()
        while not self.finished:
            if should_stop():
                self.save()
                return False
            self._advance()
            if time.monotonic() - last_saved >= 60.0 * self.options.checkpoint_minutes:
                self.save()
                last_saved = time.monotonic()
        self._write_calibration("end")
        self.save()
        return True

    @property
    def finished(self) -> bool:
        """Every seed has had its steps, its updates and its last evaluation."""
        if not self.online:
            return False
        c = self.counters
        done = (c.env_steps >= self.options.online_steps) & (c.debt < self.program.method.minibatches)
        return bool(np.all(done & ~self._evaluation_due()))

    def _advance(self) -> None:
        """One block offline, or one round of evaluate, collect and update online."""
        if not self.online:
            self._advance_offline()
            return
        idle = self.counters.debt < self.program.method.minibatches
        self._evaluate(idle & self._evaluation_due())
        self._collect(idle & (self.counters.env_steps < self.options.online_steps))
        self._train(self._online_block())

    def _advance_offline(self) -> None:
        per_call = self.program.method.minibatches
        done = int(self.counters.gradient_steps[0])
        target, interval = self.options.offline_updates, self.options.evaluate_offline_every
        if done < target and self.counters.evaluations[0] <= done // interval:
            self._evaluate(np.ones(self.options.seeds, bool))
        if done >= target:
            self._switch()
            return
        boundary = min((done // interval + 1) * interval, target)
        calls = min(-(-(boundary - done) // per_call), self.options.block)
        self._train(np.full(self.options.seeds, calls))

    def _switch(self) -> None:
        """Evaluate as 'offline', then go on online with the same parameters, moments and data."""
        self._evaluate(np.ones(self.options.seeds, bool), switch=True)
        self._write_calibration("switch")
        method, state = self._switched(self.learning.state)
        self.program = Program(method)
        self.learning = self.program.fresh(state, self.learning.updates, self.plan.inputs.logged)
        self.online = True
        self.watch = Stopwatch(begun=self.watch.begun)
        self.display.phase("online")
        self.save()

    def _switched(self, state: Any) -> tuple[Any, Any]:
        method, _ = self.plan.method.switch(jax.tree.map(lambda leaf: leaf[0], state))
        return method, jax.vmap(lambda one: self.plan.method.switch(one)[1])(state)

    # -- updates ------------------------------------------------------------------------------------------

    def _online_block(self) -> Counts:
        """Updates that each seed does next: those with the least left set the pace, so that none waits long."""
        calls = self.counters.debt // self.program.method.minibatches
        if not calls.any():
            return calls
        length = min(max(int(calls[calls > 0].min()), self.options.block // 4), self.options.block)
        return np.minimum(calls, length)

    def _train(self, calls: Counts) -> None:
        if not calls.any():
            return
        begun = time.monotonic()
        batch, logged = self.program.method.batch_size, len(self.plan.inputs.return_to_go)
        first = self._first_logged_rows()
        share = [
            offline_rows(self.options.mixing, batch, logged - int(start), int(steps)) if self.online else batch
            for steps, start in zip(self.counters.env_steps, first, strict=True)
        ]
        self.learning = self.program.train(
            self.learning,
            self.plan.inputs.logged,
            self.replay,
            self._update_keys,
            jnp.asarray(share, jnp.int32),
            jnp.asarray(calls, jnp.int32),
            jnp.asarray(first, jnp.int32),
        )
        jax.block_until_ready(self.learning.updates)
        gradient_steps = calls * self.program.method.minibatches
        self.counters.gradient_steps += gradient_steps
        if self.online:
            self.counters.debt -= gradient_steps
        self.watch.training += time.monotonic() - begun
        self.watch.updates += int(gradient_steps.sum())
        self._show_progress()

    def _first_logged_rows(self) -> Counts:
        """Where each seed's logged data begin: with --keep-episodes, collected episodes push out the worst."""
        starts, kept = self.plan.inputs.episode_starts, self.options.keep_episodes
        if not (self.online and kept):
            return np.zeros(self.options.seeds, np.int64)
        dropped = np.clip(len(starts) + self.counters.episodes - kept, 0, len(starts))
        return np.append(starts, len(self.plan.inputs.return_to_go))[dropped]

    # -- environments -------------------------------------------------------------------------------------

    def _collect(self, who: NDArray[np.bool_]) -> None:
        """One whole trajectory with the present policy for each chosen seed, valued and inserted."""
        if not who.any():
            return
        begun = time.monotonic()
        chosen = np.flatnonzero(who)
        requests = [
            Request(int(i), (self.plan.seeds[i], COLLECT, int(self.counters.episodes[i])), self._acts_at_random(int(i)))
            for i in chosen
        ]
        episodes: list[Episode | None] = [None] * self.options.seeds
        for index, episode in zip(chosen, self._play(requests, explore=True), strict=True):
            episodes[index] = episode
            self._count(int(index), episode)
        padded, lengths = self.plan.inputs.pad(episodes, self.plan.task.episode_limit)
        self.replay = insert_all(self.replay, padded, jnp.asarray(lengths))
        self.watch.collecting += time.monotonic() - begun
        self.watch.env_steps += int(lengths.sum())

    def _acts_at_random(self, index: int) -> bool:
        warming_up = self.counters.env_steps[index] < self.options.warmup_steps
        return bool(warming_up and self.options.warmup_actions == "random")

    def _count(self, index: int, episode: Episode) -> None:
        summary, c = episode.summary(), self.counters
        c.env_steps[index] += summary.length
        earning = min(summary.length, max(int(c.env_steps[index]) - self.options.warmup_steps, 0))
        per_episode = self.options.updates_per_episode * (earning > 0)
        c.debt[index] += per_episode or earning * self.options.update_ratio
        c.episodes[index] += 1
        c.collected_episodes[index] += 1
        c.collected_return[index] += summary.total
        c.collected_success[index] += summary.success

    def _play(self, requests: Sequence[Request], *, explore: bool) -> list[Episode]:
        if self._rollouts is None:
            stage = Stage(self.plan.task.make_env, self.plan.method, self.plan.task.episode_limit)
            self._rollouts = make_rollouts(stage, self.plan.workers)
        policies = jax.device_get(self.program.policies(self.learning.state))
        return self._rollouts.play(policies, requests, explore=explore)

    # -- evaluation ---------------------------------------------------------------------------------------

    def _evaluation_due(self) -> NDArray[np.bool_]:
        """Online: each time a seed's steps pass a multiple of the interval, and at its end."""
        c = self.counters
        passed = c.env_steps // self.options.evaluate_online_every > c.evaluated_at
        ended = (c.env_steps >= max(self.options.online_steps, 1)) & (c.evaluated_at != np.iinfo(np.int64).max)
        return passed | ended

    def _evaluate(self, who: NDArray[np.bool_], *, switch: bool = False) -> None:
        if not who.any():
            return
        chosen = np.flatnonzero(who)
        repeats = range(self.options.evaluation_episodes)
        requests = [
            Request(int(i), (self.plan.seeds[i], EVALUATE, int(self.counters.evaluations[i]), n))
            for i in chosen
            for n in repeats
        ]
        played = self._play(requests, explore=False)
        q = self._values(self.plan.logged_probe.observations, self.plan.logged_probe.actions)
        sums, counts = jax.device_get((self.learning.sums, self.learning.counts))
        self._require_finite(sums, chosen)
        rows = []
        for position, index in enumerate(chosen):
            episodes = played[position * len(repeats) : (position + 1) * len(repeats)]
            means = {name: total[index] / counts[index] for name, total in sums.items() if counts[index]}
            rows.append(self._row(int(index), episodes, None if q is None else q[index], means, switch=switch))
        self._reset_means(who)
        self._write(rows)

    def evaluate_afresh(self, episodes: int, start: int) -> dict[str, Any]:
        """Score, return and length of each seed over episodes that training never played; changes nothing."""
        requests = [
            Request(index, (seed, AFRESH, start + n))
            for index, seed in enumerate(self.plan.seeds)
            for n in range(episodes)
        ]
        played = [episode.summary() for episode in self._play(requests, explore=False)]
        each = [played[i * episodes : (i + 1) * episodes] for i in range(self.options.seeds)]
        return {
            "seeds": self.plan.seeds,
            "score": [self.plan.task.score(summaries) for summaries in each],
            "return": [float(np.mean([s.total for s in summaries])) for summaries in each],
            "episode_length": [float(np.mean([s.length for s in summaries])) for summaries in each],
        }

    def _row(
        self, index: int, episodes: Sequence[Episode], q: NDArray[np.float32] | None, means: Row, *, switch: bool
    ) -> Row:
        """What one evaluation of one seed says; also moves its counters on."""
        summaries, c = [episode.summary() for episode in episodes], self.counters
        score = self.plan.task.score(summaries)
        c.evaluations[index] += 1
        if self.online:
            c.online_scores[index] += 1.0 - score
            c.online_evaluations[index] += 1
            at_end = c.env_steps[index] >= self.options.online_steps
            interval = self.options.evaluate_online_every
            c.evaluated_at[index] = np.iinfo(np.int64).max if at_end else c.env_steps[index] // interval
        collected = int(c.collected_episodes[index])
        return {
            "seed": self.plan.seeds[index],
            "phase": "online" if self.online else "offline",
            "switch": switch,
            "update": int(c.gradient_steps[index]),
            "env_steps": int(c.env_steps[index]),
            "score": score,
            "return": float(np.mean([s.total for s in summaries])),
            "success": float(np.mean([s.success for s in summaries])),
            "episode_length": float(np.mean([s.length for s in summaries])),
            "regret": c.online_scores[index] / c.online_evaluations[index] if self.online else None,
            "average_q": None if q is None else float(np.mean(q)),
            "average_return_to_go": float(np.mean(self.plan.logged_probe.return_to_go)),
            "collected_episodes": collected,
            "collected_return": c.collected_return[index] / collected if collected else None,
            "collected_success": c.collected_success[index] / collected if collected else None,
            **{name: float(value) for name, value in means.items()},
        }

    def _reset_means(self, who: NDArray[np.bool_]) -> None:
        self.learning = clear_sums(self.learning, jnp.asarray(who))
        for sums in (self.counters.collected_return, self.counters.collected_success, self.counters.collected_episodes):
            sums[who] = 0

    def _require_finite(self, sums: dict[str, NDArray[np.float32]], chosen: NDArray[np.int64]) -> None:
        for name, total in sums.items():
            bad = [self.plan.seeds[i] for i in chosen if not np.isfinite(total[i])]
            if bad:
                raise Diverged(
                    f"'{name}' is not a number for seed {bad[0]}",
                    where=str(self.folder),
                    mend="the last good checkpoint is kept: lower --critic-rate or --policy-rate, or check the rewards",
                )

    def _values(self, observations: NDArray[Any], actions: NDArray[np.float32]) -> NDArray[np.float32] | None:
        q = self.program.values(self.learning.state, jnp.asarray(observations), jnp.asarray(actions))
        return None if q is None else np.asarray(q)

    # -- what is written ------------------------------------------------------------------------------------

    def _write(self, rows: list[Row]) -> None:
        self.metrics.append(rows)
        self.rows_written += len(rows)
        updates_per_s, env_steps_per_s = self.watch.rates()
        self.speed.append(
            [
                {
                    "phase": rows[0]["phase"],
                    "update": float(np.mean([row["update"] for row in rows])),
                    "env_steps": float(np.mean([row["env_steps"] for row in rows])),
                    "updates_per_s": updates_per_s,
                    "env_steps_per_s": env_steps_per_s,
                    "elapsed_s": self.watch.elapsed,
                }
            ]
        )
        self.display.evaluation(rows)
        for sink in self.sinks:
            sink.write(rows)

    def _write_calibration(self, moment: str) -> None:
        """Q against return-to-go on logged states, for the report."""
        probe = self.plan.calibration_probe
        q = self._values(probe.observations, probe.actions)
        if q is not None:
            path = self.folder / f"calibration-{moment}.npz"
            temporary = path.with_name(f".{path.name}")
            np.savez(temporary, q=q, return_to_go=probe.return_to_go, held_out=np.array(probe.held_out))
            temporary.rename(path)

    def _announce(self) -> None:
        self.display.start(self.options.offline_updates, self.options.online_steps, self.plan.label)
        self.display.phase("online" if self.online else "offline")

    def _show_progress(self) -> None:
        updates = float(self.counters.gradient_steps.mean())
        rates = [rate / self.options.seeds for rate in self.watch.rates()]
        self.display.advance(round(updates), round(float(self.counters.env_steps.mean())), *rates)

    # -- checkpoints --------------------------------------------------------------------------------------

    def save(self) -> None:
        """Everything that decides the rest of the run."""
        sums, counts = jax.device_get((self.learning.sums, self.learning.counts))
        self._require_finite(sums, np.arange(self.options.seeds))
        filled = min(int(self.counters.env_steps.max()), self.replay.capacity)
        arrays = pack("state", self.learning.state) | pack("sums", sums)
        arrays |= {"updates": np.asarray(self.learning.updates), "counts": np.asarray(counts)}
        arrays |= {f"counters/{name}": value for name, value in vars(self.counters).items()}
        arrays |= {"online": np.array(self.online), "rows": np.array(self.rows_written)}
        if filled:
            rows = jax.tree.map(lambda column: column[:, :filled], self.replay.rows)
            arrays |= pack("replay", rows) | {"inserted": np.asarray(self.replay.inserted)}
        self.checkpoints.save(arrays)

    def restore(self) -> None:
        """Go back to the newest checkpoint."""
        arrays = self.checkpoints.load()
        self.online, self.rows_written = bool(arrays["online"]), int(arrays["rows"])
        state = self.learning.state
        if self.online:
            method, state = self._switched(state)
            self.program = Program(method)
        fresh = self.program.fresh(state, self.learning.updates, self.plan.inputs.logged)
        self.learning = Learning(
            unpack("state", arrays, fresh.state),
            jnp.asarray(arrays["updates"]),
            unpack("sums", arrays, fresh.sums),
            jnp.asarray(arrays["counts"]),
        )
        self.counters = Counters(**{name: np.array(arrays[f"counters/{name}"]) for name in vars(self.counters)})
        self.replay = self._refilled(arrays)

    def _empty_replay(self) -> Replay:
        row = jax.tree.map(lambda column: column[0], self.plan.inputs.logged)
        empty = empty_like(row, self.plan.capacity)
        return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], self.options.seeds, axis=0), empty)

    def _refilled(self, arrays: Arrays) -> Replay:
        replay = self._empty_replay()
        if "inserted" not in arrays:
            return replay
        filled = arrays["replay/0000"].shape[1]
        saved = unpack("replay", arrays, jax.tree.map(lambda column: column[:, :filled], replay.rows))
        rows = jax.tree.map(lambda column, part: column.at[:, :filled].set(part), replay.rows, saved)
        return Replay(rows, jnp.asarray(arrays["inserted"]))

    def close(self) -> None:
        if self._rollouts is not None:
            self._rollouts.close()
        self.checkpoints.close()
        for sink in self.sinks:
            sink.close()
        self.display.close()
