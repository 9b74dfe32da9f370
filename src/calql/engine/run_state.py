"""Where a run stands, and how it is saved and restored: everything that decides the rest of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from calql.engine.checkpoint import Arrays, Checkpoints, Saved, pack, unpack
from calql.engine.collect import Collector
from calql.engine.counters import Counters
from calql.engine.evaluation import Evaluations
from calql.engine.handed_in import HandedIn
from calql.engine.health import Health, lost_in, require_sound
from calql.engine.output import Output
from calql.engine.plan import Plan
from calql.engine.program import Learning, Program
from calql.engine.replay import Replay, empty_like, first_rows, refilled
from calql.engine.rollout import RolloutSetup
from calql.engine.stepwise import Stepper
from calql.engine.stop import Never, Stop
from calql.engine.sweep import by_arm
from calql.results import Display, Sink
from calql.results.arms import Member
from calql.system.blas import one_thread
from calql.system.run_files import CHECKPOINTS


class RunState:
    """The state of a run.

    A checkpoint needs no environment state: an episode follows from the seed and its number, together
    with the policy where it is being played, or its actions so far where updates happen within it.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        display: Display,
        sinks: Sequence[Sink] = (),
        stop: Stop = Never(),
        on_save: Callable[[Saved], None] | None = None,
    ) -> None:
        self.plan, self.options, self.folder, self._stop = plan, plan.options, folder, stop
        self._on_save = on_save
        self._count = len(plan.members)
        self.output = Output(plan, folder, display, sinks)
        self.checkpoints = Checkpoints(folder / CHECKPOINTS)
        self.online = False
        self.ended = False  # of logs alone: the offline phase is all there is, and it has had its last evaluation
        self.counters = Counters.zeros(self._count)
        self.collector = self._source()
        self.evaluations = Evaluations(plan, self.counters)
        self._shards = plan.shards
        self.program = Program(plan.method, self._shards)
        self.learning = self._fresh()
        self.health = self._shards.shared_out(Health.fresh(self._count))
        self.lost: dict[Member, dict[str, int]] = {}  # where seeds that diverged stood then; known from their rows
        self.replay = self._empty_replay()
        self.returns = np.tile(np.array(plan.inputs.possible, np.float32), (self._count, 1))
        limits = plan.task.episode_limit, self.options.step_timeout
        kind = {"real": self.options.real, "masked": plan.inputs.masked}
        self._setup = RolloutSetup(plan.task.make_env, plan.method, *limits, **kind, form=plan.inputs.spec.layout)
        self.stepper = Stepper(plan, self._setup, self.counters)

    def _source(self) -> Collector | HandedIn:
        """Where episodes come from: played by the policies, or handed in."""
        if self.plan.handed_in is None:
            return Collector(self.options, self.plan.seeds, self.counters)
        return HandedIn(self.plan.handed_in, self.options, self.counters)

    def _fresh(self) -> Learning:
        plan = self.plan
        keys = jnp.stack([jax.random.fold_in(jax.random.key(seed), 0) for seed in plan.seeds])
        with one_thread():  # orthogonal kernels are decompositions
            start = by_arm(plan, lambda method, part: Program(method).start(part, plan.inputs.spec), keys)
            state = jax.block_until_ready(start)
        zero = jnp.zeros(self._count, jnp.int32)
        return self._shards.shared_out(self.program.fresh(state, zero, plan.inputs.logged))

    def _empty_replay(self) -> Replay:
        row = jax.tree.map(lambda column: column[0], self.plan.inputs.logged)
        return self._shards.repeated(empty_like(row, self.plan.capacity), self._count)

    def _switched(self, state: Any) -> tuple[Any, Any]:
        """The method of the online phase, and the state that it goes on from."""
        of_one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), state)
        # Of shapes alone: a seed taken out of the state, leaf by leaf, goes through all devices each time.
        method, _ = eqx.filter_eval_shape(self.plan.method.switch, of_one)
        return method, by_arm(self.plan, lambda own, part: jax.vmap(lambda one: own.switch(one)[1])(part), state)

    def save(self) -> None:
        """A checkpoint, if all that it would hold is sound: it takes the place of one that is."""
        packed = self._packed()
        require_sound(packed, self._column_names, str(self.folder))
        with self._stop.shield():
            self.checkpoints.save(packed)
            if self._on_save is not None:
                self._on_save(self.saved)

    @property
    def saved(self) -> Saved:
        """The policies as a checkpoint that is written now has them: no copies where the device is the host."""
        policies = jax.device_get(jax.vmap(self.program.method.policy)(self.learning.state))
        c = self.counters
        return Saved(policies, self.online, c.gradient_steps.tolist(), c.env_steps.tolist())

    @property
    def _column_names(self) -> list[str]:
        """Of the buffer's arrays, in the order in which they are packed."""
        return [name for name, column in self.replay.rows._asdict().items() if column is not None]

    def _packed(self) -> Arrays:
        """Everything that decides the rest of the run."""
        sums, counts = jax.device_get((self.learning.sums, self.learning.counts))
        filled = min(int(self.counters.env_steps.max()), self.replay.capacity)
        arrays = pack("state", self.learning.state) | pack("sums", sums)
        arrays |= {"updates": np.asarray(self.learning.updates), "counts": np.asarray(counts)}
        arrays |= (
            self.health.pack()
            | self.counters.pack()
            | self.collector.pack()
            | self.stepper.pack()
            | self.evaluations.pack()
        )
        arrays |= {"online": np.array(self.online), "rows": np.array(self.output.rows_written)}
        arrays |= {"ended": np.array(self.ended)} if self.ended else {}
        arrays["returns"] = self.returns
        if filled:
            arrays |= pack("replay", first_rows(self.replay.rows, filled))
            arrays["inserted"] = np.asarray(self.replay.inserted)
        return arrays

    def restore(self) -> None:
        """Go back to the newest checkpoint."""
        arrays = self.checkpoints.load()
        self.online = bool(arrays["online"])
        self.lost = lost_in(self.output.go_on_after(int(arrays["rows"])))
        state = self.learning.state
        if self.online:
            method, state = self._switched(state)
            self.program = Program(method, self._shards)
        fresh = self.program.fresh(state, self.learning.updates, self.plan.inputs.logged)
        learning = Learning(
            unpack("state", arrays, fresh.state),
            jnp.asarray(arrays["updates"]),
            unpack("sums", arrays, fresh.sums),
            jnp.asarray(arrays["counts"]),
        )
        self.learning = self._shards.shared_out(learning)
        self.health = self._shards.shared_out(self.health.restored(arrays))
        self.returns = arrays.get("returns", self.returns)
        self.counters.restore(arrays)
        self.ended = "ended" in arrays and int(self.counters.gradient_steps[0]) >= self.options.offline_updates
        policies = self.program.policies(self.learning.state)
        self.collector.restore(arrays, policies)
        self.stepper.restore(arrays, policies)
        self.evaluations.restore(arrays, policies)
        self.evaluations.reopen()
        self.replay = refilled(self._empty_replay(), arrays, self._shards.shared_out)
