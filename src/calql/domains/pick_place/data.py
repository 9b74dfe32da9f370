"""Pick-and-place data: a scripted policy with shaky aim, which succeeds about half the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calql.data.dataset import Bools, Dataset, concatenate
from calql.data.store import BuildContext, Recipe
from calql.domains.common.parallel import ordered_map
from calql.domains.pick_place.env import INNER, REACH, RIM, STEPS, PickPlace, State
from calql.domains.pick_place.raycast import Floats, vector

SIZE = 15_000  # transitions
EPISODES_PER_JOB = 25
AIM = 0.023  # m: spread of the place where an attempt closes its fingers, off the object's centre
SHAKE = 0.25  # spread of the noise on every action
MISTAKE = 0.3  # share of attempts that go for the distractor
HOVER = 0.12  # m above the table where it travels


class Scripted:
    """Reach over the task object, go down, close, lift, carry, open; all of it with noise.

    An attempt aims at the object's centre plus an error drawn once per attempt, so that some grasp
    beside it; it then opens and tries again. Some attempts go for the distractor and carry that.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self._aim()

    def _aim(self) -> None:
        self.error = vector([*self.rng.normal(0.0, AIM, 2), 0.0])
        self.drop_error = vector(self.rng.normal(0.0, AIM, 2))
        self.mistaken = bool(self.rng.random() < MISTAKE)

    def __call__(self, state: State) -> Floats:
        wanted, close = self._carry(state) if state.holds else self._reach(state)
        motion = (wanted - state.gripper) / REACH
        noise = self.rng.normal(0.0, SHAKE, 3)
        fingers = (1.0 if close else -1.0) + self.rng.normal(0.0, 0.1)
        return np.clip(np.append(motion + noise, fingers), -1.0, 1.0).astype(np.float32)

    def _reach(self, state: State) -> tuple[Floats, bool]:
        if state.closed:  # closed around nothing: open, and aim again
            self._aim()
            return state.gripper, False
        target = (state.distractor_at if self.mistaken else state.task_at) + self.error
        off = np.linalg.norm(target[:2] - state.gripper[:2])
        if off > 0.02:
            return np.append(target[:2], np.float32(HOVER)), False
        return target, bool(np.abs(target - state.gripper).max() < 0.012)

    def _carry(self, state: State) -> tuple[Floats, bool]:
        goal = state.container_at + self.drop_error
        off = np.abs(goal - state.gripper[:2]).max()
        if state.gripper[2] < RIM + 0.04 and off > INNER:
            return np.append(state.gripper[:2], np.float32(HOVER + 0.02)), True
        return np.append(goal, np.float32(HOVER)), bool(off > 0.025)


def episode(env: PickPlace, seed: int) -> Dataset:
    """One recorded episode; the seed decides the scene and the policy's noise."""
    policy = Scripted(np.random.default_rng([seed, 1]))
    images, actions, rewards = [env.reset(seed=seed)[0]], [], []
    terminated = truncated = False
    while not (terminated or truncated):
        actions.append(policy(env.state))
        image, reward, terminated, truncated, _ = env.step(actions[-1])
        images.append(image)
        rewards.append(reward)
    ends = np.arange(len(rewards)) == len(rewards) - 1
    return Dataset(
        observations=np.stack(images[:-1]),
        actions=np.stack(actions),
        rewards=np.asarray(rewards, np.float32),
        next_observations=np.stack(images[1:]),
        terminals=ends & terminated,
        truncated=ends & truncated,
        source="scripted",
    )


def episodes(seeds: range) -> Dataset:
    """A job for one process."""
    env = PickPlace()
    return concatenate([episode(env, seed) for seed in seeds], source="scripted")


def build(context: BuildContext) -> Dataset:
    """Whole episodes, in the order of their seeds, until there are as many transitions as asked for."""
    wanted = context.size or SIZE
    first = 1_000_000 * (context.seed + 1)  # apart from the seeds that runs start at
    most = wanted // (STEPS // 4) + EPISODES_PER_JOB
    jobs = (range(first + k, first + k + EPISODES_PER_JOB) for k in range(0, most, EPISODES_PER_JOB))
    parts: list[Dataset] = []
    collected = 0
    chunks = ordered_map(episodes, jobs, context.processes)
    for part in chunks:
        parts.append(part)
        collected += len(part)
        context.progress("pick-place episodes", min(collected, wanted), wanted)
        if collected >= wanted:
            break
    chunks.close()
    whole = concatenate(parts, source="pick-place")
    enough = int(np.searchsorted(whole.episode_ends + 1, wanted)) + 1
    return whole.select_episodes(np.arange(min(enough, len(whole.episode_ends))))


def successes(dataset: Dataset) -> Bools:
    """One flag per recorded trajectory."""
    return dataset.terminals[dataset.episode_ends]


def describe(dataset: Dataset) -> Mapping[str, Any]:
    return {"policy": {"aim": AIM, "shake": SHAKE, "mistake": MISTAKE, "hover": HOVER}}


RECIPES = {
    "pick-place": Recipe(
        "pick-place",
        1,
        build,
        summary="scripted pick-and-place with noise, about half of it successful; 48x48 images",
        size=SIZE,
        success=successes,
        describe=describe,
    )
}
