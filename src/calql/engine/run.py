"""One run: offline phase, switch, online phase, for all seeds; stops and goes on at any block."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from calql.engine.checkpoint import Saved
from calql.engine.counters import Counts, Seeds
from calql.engine.episodes import Episode
from calql.engine.health import Health, duplicate, lost_in
from calql.engine.logged import Logged
from calql.engine.maps import BEFORE, END, FIRST, Maps, states_of
from calql.engine.plan import Plan, Probe
from calql.engine.program import Learning, Program, UpdateInputs, clear_sums, insert_all, short_part, whole_loops
from calql.engine.run_state import RunState
from calql.engine.speed import DeviceWatch, Stopwatch
from calql.engine.stop import PATIENCE_S, Never, Stop
from calql.engine.workers import Pools
from calql.methods.base import Policy
from calql.results import Display, Row, Sink
from calql.results.arms import in_words
from calql.system.errors import Diverged


class Run(RunState):
    """The steps that move a run on."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        display: Display,
        sinks: Sequence[Sink] = (),
        stop: Stop = Never(),
        on_save: Callable[[Saved], None] | None = None,
        on_switch: Callable[[Saved], None] | None = None,
    ) -> None:
        super().__init__(plan, folder, display, sinks, stop, on_save)
        self._on_switch = on_switch
        roots = [jax.random.key(seed) for seed in plan.seeds]
        self._update_keys = self._shards.shared_out(jnp.stack([jax.random.fold_in(root, 1) for root in roots]))
        self._logged = Logged(plan, self._shards, self._update_keys, self.counters)
        self._pools = Pools(self._setup, plan.workers, self._count * self.options.trajectories, stop.asked)
        self._watches, self._device = {"offline": Stopwatch(), "online": Stopwatch()}, DeviceWatch()
        self._dispatcher = ThreadPoolExecutor(1, thread_name_prefix="calql-dispatcher")
        self._short = short_part(self.options.block)
        self._block = self.options.block // self._short * self._short
        # A GPU is given loops of one length fixed for good: it takes the next while it is still at the last one. Where
        # updates follow single steps, most of such a loop would be for nothing.
        self._piece = self._short if plan.on_accelerator and self.options.update_schedule != "step" else None

    # -- the course of a run ------------------------------------------------------------------------------

    def execute(self, should_stop: Callable[[], bool]) -> bool:
        """Go on until the end (True) or until told to stop at the next block (False); checkpoints either way."""
        self.output.announce()
        self.output.phase(online=self.online)
        self._take_up()
        last_saved = time.monotonic()
        while not self.finished or self._rows_to_come:
            if len(self.lost) == self._count:
                self._give_up()
            if should_stop():
                self._note_speed()
                self.save()
                return False
            if self.finished or self.evaluations.behind:
                with self.watch.waiting("evaluations"):
                    self.evaluations.wait(PATIENCE_S)
                self._write_evaluations()
            else:
                self._advance()
            if time.monotonic() - last_saved >= 60.0 * self.options.checkpoint_minutes:
                self.save()
                last_saved = time.monotonic()
        self._write_calibration("end")
        self._map(END, np.ones(self._count, bool))
        if self.plan.handed_in is not None:
            self._write_standing()
        self._note_speed()
        self.save()
        return True

    def _give_up(self) -> None:
        """No seed learns any more: what was written up to here is all that there will be."""
        self._note_speed()
        self.save()
        first = min(self.lost.items(), key=lambda each: each[1]["update"])
        raise Diverged(
            f"every seed has diverged, first {in_words(first[0])} at update {first[1]['update']:,} "
            f"(environment step {first[1]['env_steps']:,})",
            where=str(self.folder),
            mend="start a new run with a lower --critic-rate or --policy-rate, or check the rewards",
        )

    @property
    def finished(self) -> bool:
        """Every seed has had its steps and its updates, and its last evaluation has begun."""
        if self.plan.logs_alone:
            return self.ended
        return self.online and not np.any(self.collector.unfinished | ~self._idle | self.evaluations.due)

    @property
    def _rows_to_come(self) -> bool:
        """Whether evaluations are waited for; where episodes are handed in, those that wait for seeds which are behind
        them are written when these have more episodes."""
        return bool(self.evaluations.unfinished if self.plan.handed_in is None else self.evaluations.playing)

    @property
    def watch(self) -> Stopwatch:
        """Of the phase that goes on."""
        return self._watches["online" if self.online else "offline"]

    @property
    def _idle(self) -> Seeds:
        """Seeds that have no updates to do: they owe none, or have nothing to draw from yet."""
        return (self.counters.debt < self.program.method.minibatches) | (self.counters.episodes == 0)

    def _advance(self) -> None:
        """One block offline, or one round of evaluate, collect and update online."""
        if not self.online:
            self._advance_offline()
        elif self.options.update_schedule == "step":
            self._advance_by_a_step()
        else:
            self._advance_online()
        self._write_evaluations()

    def _advance_offline(self) -> None:
        per_call = self.program.method.minibatches
        done = int(self.counters.gradient_steps[0])
        target, interval = self.options.offline_updates, self.options.evaluate_offline_every
        if done >= target:
            self._end_without_switch() if self.plan.logs_alone else self._switch()
            return
        due = self.counters.evaluations[0] <= done // interval
        policies = self._begin_evaluation(np.full(self._count, due))
        boundary = min((done // interval + 1) * interval, target)
        calls = min(-(-(boundary - done) // per_call), self._block)
        self._train(np.full(self._count, calls), partial(self._play_evaluations, policies))

    def _advance_online(self) -> None:
        """The device is given its next block before anything waits for the last one, wherever that is allowed."""
        idle, collector = self._idle, self.collector
        policies = self._begin_evaluation(idle & self.evaluations.due, also=idle & collector.unfinished)
        self._launch(idle & collector.unfinished & ~collector.in_flight, policies)
        received = self._receive(idle & collector.in_flight)
        ahead = received & collector.unfinished & bool(self.options.lag)

        def play() -> None:
            self._launch(ahead, policies)
            self._play_evaluations(policies)

        self._train(self._online_block(), play)

    def _advance_by_a_step(self) -> None:
        """One environment step of each seed that owes nothing, then the updates it earned."""
        idle, unfinished = self._idle, self.collector.unfinished
        policies = self._begin_evaluation(idle & self.evaluations.due, also=idle & unfinished)
        if np.any(idle & unfinished):
            self._insert(self.stepper.step(idle & unfinished, policies, self.watch))
        self._train(self._online_block(), partial(self._play_evaluations, policies))

    def _switch(self) -> None:
        """Evaluate as 'offline', then go on online with the same parameters, moments and data.

        What shows the switch later is written before the checkpoint behind it: who resumes there need not come back.
        """
        self._play_evaluations(self._begin_evaluation(np.ones(self._count, bool), switch=True))
        self._write_calibration("switch")
        self._map(BEFORE, np.ones(self._count, bool))
        if self._on_switch is not None:
            self._on_switch(self.saved)
        method, state = self._switched(self.learning.state)
        self.program = Program(method, self._shards)
        self.learning = self._shards.shared_out(
            self.program.fresh(state, self.learning.updates, self.plan.inputs.logged)
        )
        self._note_speed()
        self.watch.ended = time.monotonic()
        self.online = True
        self.output.phase(online=True)
        self.save()

    def _end_without_switch(self) -> None:
        """Of logs alone: nothing changes but that it is over, so that more updates may follow another day."""
        self._play_evaluations(self._begin_evaluation(np.ones(self._count, bool)))
        self.ended = True

    def _note_speed(self) -> None:
        """At the end of a phase, or of this process: evaluations, with which it is told otherwise, may be late."""
        self._device.settle()
        phase = "online" if self.online else "offline"
        updates, steps = float(self.counters.gradient_steps.mean()), float(self.counters.env_steps.mean())
        self.output.speed(phase, updates, steps, self.watch, self.evaluations.unfinished)

    # -- updates ------------------------------------------------------------------------------------------

    def _online_block(self) -> Counts:
        """Updates that each seed does next: those with the least left set the pace, so that none waits long.

        Nor does a seed whose round is still being played: the others go on by short blocks until it is received.
        """
        calls = np.where(self._idle, 0, self.counters.debt // self.program.method.minibatches)
        if not calls.any():
            return calls
        waiting = np.any(self._idle & self.collector.in_flight)
        least = 1 if waiting else max(int(calls[calls > 0].min()) // self._short, 1)
        return np.minimum(calls, min(least * self._short, self._block))

    def _train(self, calls: Counts, meanwhile: Callable[[], None]) -> None:
        """Give the device a block and do something else; the device may still be busy when this returns.

        A GPU holds up who gives it more than it can note down, so another thread gives it.
        """
        if not calls.any():
            meanwhile()
            return
        begun = time.monotonic()
        given = self._dispatcher.submit(self._dispatch, calls, self._update_inputs())
        meanwhile()
        self.learning, self.health = given.result()
        gradient_steps = calls * self.program.method.minibatches
        self.counters.gradient_steps += gradient_steps
        if self.online:
            self.counters.debt -= gradient_steps
        self._device.given(
            self.watch,
            begun,
            duplicate(self.learning.updates),
            updates=int(gradient_steps.sum()),
            rounds=whole_loops(int(calls.max()), self._piece) * self.program.method.minibatches,
        )
        self.output.progress(self.counters, self.watch)

    def _dispatch(self, calls: Counts, given: UpdateInputs) -> tuple[Learning, Health]:
        """The learning after `calls` updates of each seed, given at once or by pieces."""
        return self.program.advance(self.learning, self.health, given, calls, loop=self._piece)

    def _update_inputs(self) -> UpdateInputs:
        """What the next updates draw from."""
        method, c = self.program.method, self.counters
        first, shares = np.zeros(self._count, np.int64), [method.batch_size] * self._count
        if self.online:
            first = self._logged.first()
            shares = self._logged.shares(method, first, c.env_steps - self.stepper.open_steps)
        stands = c.gradient_steps.astype(np.int32), c.env_steps.astype(np.int32)
        returns = self.returns if method.bounds_targets else None
        rows = self._logged.rows(method), self.replay
        return UpdateInputs(
            rows, self._update_keys, np.array(shares, np.int32), first.astype(np.int32), returns, stands
        )

    # -- environments -------------------------------------------------------------------------------------

    def _launch(self, who: Seeds, policies: Policy) -> None:
        if who.any():
            with self.watch.waiting("policies"):
                fetched = jax.device_get(policies)
            self.collector.launch(who, fetched, self._pools.collectors)

    def _receive(self, who: Seeds) -> Seeds:
        """Take in the trajectories of the chosen seeds, valued now that they have ended; gives whose they were.

        With lag, those still played are waited for only if no seed has updates to do: no seed holds up another.
        Told to stop, nobody waits: a checkpoint holds what is under way.
        """
        with self.watch.waiting("collection"):
            if self.options.lag:
                who = who & self.collector.ready(self._stop.asked, wait=bool(self._idle.all()))
            elif not self.collector.over(who, self._stop.asked):
                who = np.zeros_like(who)
            received = self.collector.receive(who, self.watch)
        for episodes in received:
            self._insert(episodes)
        return who

    def _insert(self, episodes: Sequence[Episode | None]) -> None:
        """Put whole episodes, one of each seed or none, into the buffers."""
        if any(episode is not None for episode in episodes):
            padded, lengths = self.plan.inputs.pad(episodes, self.plan.task.episode_limit, self.replay.capacity)
            self.replay = insert_all(self.replay, padded, lengths, shards=self._shards)
            self.returns = self.plan.inputs.widened(self.returns, episodes)

    def _take_up(self) -> None:
        """What was under way when the checkpoint was written is under way again."""
        if self.evaluations.restored:
            self.evaluations.replay(self._pools.evaluators)
        if self.collector.restored:
            self.collector.relaunch(self._pools.collectors)
        for note in self.stepper.replay():
            self.output.message(note)

    def _begin_evaluation(self, who: Seeds, *, also: Seeds | None = None, switch: bool = False) -> Policy:
        """Note where the chosen seeds stand. Gives the policies as they are if they or `also` need them."""
        needed = who if also is None else who | also
        policies = self.program.policies(self.learning.state) if needed.any() else None
        if who.any():
            if self.online:
                self._map(FIRST, who & (self.counters.evaluated_at == 0))
            q = self._values(self.plan.logged_probe)
            self.evaluations.begin(who, self.learning, self.health, q, online=self.online, switch=switch)
            self.learning = clear_sums(self.learning, jnp.asarray(who))
        return policies

    def _play_evaluations(self, policies: Policy) -> None:
        if self.evaluations.begun and self.plan.assess is not None:
            self.output.message(f"valuing the policies (fitted Q evaluation, {self.options.fqe_updates:,} updates) ...")
            self.evaluations.assess(jax.device_get(policies))
        elif self.evaluations.begun:
            self.evaluations.play(jax.device_get(policies), self._pools.evaluators)

    def _write_evaluations(self) -> None:
        for rows in self.evaluations.finished():
            self._note_lost(rows)
            self.output.write(rows, self._watches[rows[0]["phase"]], self.evaluations.unfinished)

    def _write_standing(self) -> None:
        """How things stand now that no episode is left, apart from the rows of the run: it may go on with more."""
        policies = jax.device_get(self.program.policies(self.learning.state))
        held = self.learning, self.health, self._values(self.plan.logged_probe)
        self.output.standing(self.evaluations.aside(*held, policies, self._pools.evaluators))

    def _note_lost(self, rows: Sequence[Row]) -> None:
        """Say once of each seed that it has diverged."""
        for member, at in lost_in(rows).items():
            if member not in self.lost:
                self.lost[member] = at
                self.output.message(
                    f"{in_words(member)} diverged at update {at['update']:,} (environment step {at['env_steps']:,}): "
                    f"it stays as it was before and learns no more; the others go on"
                )

    def _values(self, probe: Probe) -> jax.Array | None:
        return self.program.values(self.learning.state, jnp.asarray(probe.observations), jnp.asarray(probe.actions))

    def _map(self, checkpoint: str, who: Seeds) -> None:
        """Q of the chosen seeds' policies over the task's plane of states, if it has one and they have a Q."""
        plane = self.plan.state_map
        if plane is None or not who.any():
            return
        q = self.program.values_of_policies(self.learning.state, jnp.asarray(states_of(plane)))
        if q is not None:
            values, members = np.asarray(q), self.plan.members
            Maps(self.folder, plane).add(checkpoint, {members[i]: values[i] for i in np.flatnonzero(who).tolist()})

    def _write_calibration(self, checkpoint: str) -> None:
        probe = self.plan.calibration_probe
        q = self._values(probe)
        if q is not None:
            self.output.calibration(checkpoint, probe, np.asarray(q))

    def close(self) -> None:
        self._pools.close()
        self.stepper.close()
        self._dispatcher.shutdown()
        self._logged.close()
        self._device.close()
        self.output.close()
