"""Environment steps/s of a task: raw stepping on one core, and whole rollouts with a policy."""

from __future__ import annotations

import time
from typing import Any

from calql.tasks import Task


def measure_env(task: Task, *, seconds: float = 3.0) -> dict[str, Any]:
    """Random actions in one environment, resets included, in this process."""
    env = task.make_env()
    env.action_space.seed(0)
    env.reset(seed=0)
    steps, episode, begun = 0, 1, time.process_time()
    actions = [env.action_space.sample() for _ in range(256)]
    since_reset = 0
    while (taken := time.process_time() - begun) < seconds:
        *_, terminated, truncated, _ = env.step(actions[steps % 256])
        steps += 1
        since_reset += 1
        if terminated or truncated or since_reset >= task.episode_limit:
            env.reset(seed=episode)
            episode, since_reset = episode + 1, 0
    env.close()
    return {"task": task.name, "env_steps_per_cpu_s": steps / taken, "steps": steps}
