"""How a run goes, apart from what is learned: sizes, seeds, evaluation, files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from calql.data.actions import LIMIT
from calql.methods.reference import REFERENCES
from calql.system.errors import unknown
from calql.system.options import (
    POOLED,
    Checked,
    Count,
    CountOrZero,
    Devices,
    NotNegative,
    OpenShare,
    Range,
    ShareBelowOne,
    require,
)


@dataclass(frozen=True)
class RunOptions(Checked):
    """Options of the engine. A task fills in the paper's numbers."""

    seeds: Count = 4
    """Independent runs that train as one program."""
    first_seed: CountOrZero = 0
    """Number of the first seed; the others follow."""
    offline_updates: CountOrZero = 1_000_000
    """Gradient steps on logged data before the switch."""
    online_steps: CountOrZero = 1_000_000
    """Environment steps of fine-tuning, per seed."""
    update_ratio: Count = 1
    """Gradient steps per environment step."""
    updates_per_episode: CountOrZero = 0
    """Gradient steps after each collected episode, whatever its length; 0: by --update-ratio."""
    trajectories: Count = 1
    """Trajectories that a seed collects before it does the updates that they earn."""
    lag: Literal[0, 1] = 0
    """1: they are played while the updates of those before them are done, with the policy before these updates."""
    update_schedule: Literal["trajectory", "step"] = "trajectory"
    """When updates happen: after each round of whole trajectories, or after each environment step (CORL)."""
    warmup_steps: CountOrZero = 0
    """Environment steps at the start of the online phase that earn no updates."""
    warmup_actions: Literal["policy", "random"] = "policy"
    """Who acts during them: the frozen policy, or uniform draws."""
    mixing: Annotated[float, Range(0.0, 1.0, also=POOLED)] = 0.5
    """Share of logged rows in an online batch; -1 pools all data."""
    rewards_online: Literal["source", "logged"] = "source"
    """Rewards of collected steps: as the method's source has them, or by the map of logged ones (IQL's locomotion)."""
    reference: str = "monte-carlo"
    """Reference value: monte-carlo, regression, sarsa or none."""
    failure_test: Literal["all", "last"] = "all"
    """With sparse rewards, an episode has failed if all of its rewards say so, or its last alone (CORL)."""
    split_at_jumps: bool = False
    """Also cut logged episodes where a row does not go on from the next observation of the one before (CORL)."""
    action_limit: OpenShare = LIMIT
    """Logged actions are clipped to plus and minus this, in units where the bounds are -1 and 1."""
    reference_updates: Count = 50_000
    """Most gradient steps that fit a reference value which is a network; its held-out error ends the fit sooner."""
    capacity: Count = 1_000_000
    """Transitions that the online buffer holds; the oldest make room."""
    keep_episodes: CountOrZero = 0
    """Episodes to draw from online: the best logged ones, the worst of which make room for collected ones; 0: all."""
    evaluate_offline_every: Count = 50_000
    """Gradient steps between evaluations offline."""
    evaluate_online_every: Count = 2_000
    """Environment steps between evaluations online."""
    evaluation_episodes: Count = 20
    """Episodes of each evaluation, with the deterministic policy."""
    hold_out: ShareBelowOne = 0.0
    """Share of logged episodes kept out of training for the calibration plot, where the task has no separate ones."""
    fqe_updates: Count = 10_000
    """Gradient steps of fitted Q evaluation, at each evaluation of a run without an environment."""
    block: Count = 100
    """Updates between two looks at the clock; changes nothing in the results."""
    devices: Devices = 1
    """GPUs that share the seeds out among them, equal numbers each; 0: all that are there."""
    stream: Literal["auto", "on", "off"] = "auto"
    """Where logged rows are: off: all on the device; on: where they were, on disk or in memory, from where those of the
    next updates are brought in time; auto: on if they would take much of the memory. Changes nothing in the results."""
    workers: Annotated[int, Range(-1.0, 1024.0)] = -1
    """Processes that step environments; 0: this one; -1: as the task declares."""
    real: bool = False
    """One environment in all, in this process: one episode at a time, and nothing is tried out before."""
    step_timeout: NotNegative = 60.0
    """Seconds that a step of an environment may take, ten times as many for a reset or its start; 0: any number."""
    checkpoint_minutes: NotNegative = 2.0
    """Minutes between checkpoints; there is also one at the switch and one at the end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reference not in REFERENCES:
            raise unknown("reference value", self.reference, REFERENCES, where="--reference")
        if self.update_schedule == "step":
            for name, default in (("lag", 0), ("trajectories", 1), ("updates_per_episode", 0)):
                value = getattr(self, name)
                require(value == default, name, value, f"{default} with --update-schedule step")
        if self.real:
            require(
                self.update_schedule == "trajectory", "update_schedule", self.update_schedule, "trajectory with --real"
            )
            require(self.workers <= 0, "workers", self.workers, "0 with --real")
            require(self.step_timeout > 0.0, "step_timeout", self.step_timeout, "above 0 with --real")
        pooled = not self.keep_episodes or self.mixing == POOLED
        require(pooled, "mixing", self.mixing, "-1 with --keep-episodes")
