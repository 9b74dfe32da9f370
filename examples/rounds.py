"""Rounds without a live connection: train on logs, play, hand the episodes in as files, train on, three times.

    python examples/rounds.py [FOLDER]

The maze stands for the robot: `play` is all that touches it, as a control loop would on another machine. Takes less
than a minute on two cores. The same by commands: calql round start, add, train, status (docs/rounds.md).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rich.console import Console

import calql
from calql.domains.registry import get_task
from calql.results.rounds import rounds_table

TASK = "point-maze-quick"
SMALL = {"seeds": 1, "offline_updates": 1_500, "evaluate_offline_every": 1_500, "evaluate_online_every": 2_000}


def play(policy_folder: Path, episodes: int, to: Path) -> None:
    """The control loop: act with a policy folder that was copied here, and record."""
    task = get_task(TASK)
    env, policy = task.make_env(), calql.load_policy(policy_folder, explore=True)
    with calql.Recorder(to, policy) as recorder:
        for number in range(episodes):
            seen, _ = env.reset(seed=number)
            policy.reset()
            recorder.start(seen)
            for step in range(task.episode_limit):
                action = policy(seen)
                seen, reward, over, cut, info = env.step(action)
                cut = cut or step + 1 == task.episode_limit
                recorder.step(action, float(reward), seen, over, cut, success=bool(info["success"]))
                if over or cut:
                    break


def main(folder: Path, episodes: int = 10) -> calql.Rounds:
    project = calql.Rounds.start(folder / "project", TASK, **SMALL)
    for number in range(3):
        files = folder / f"week-{number}"
        play(project.policy, episodes, files)
        added = project.add(files)
        print(f"week {number}: {added.episodes} episodes, {added.steps} steps")
        if number < 2:
            project.train()
    Console().print(rounds_table(project.rounds))
    for warning in project.warnings:
        print(warning)
    print(f"deploy {project.policy}; report: {project.folder / 'report.html'}")
    return project


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
