"""Rounds without a live connection: train on logs, play, hand the episodes in as files, train on, three times.

    python examples/rounds.py [FOLDER]

The cart of own_data.py stands for the robot: `play` is all that touches it, as a control loop would on another machine.
The same by commands: calql round start, add, train, status (docs/rounds.md).
"""

import sys
import tempfile
from pathlib import Path

from own_data import LIMIT, make_env, record
from rich.console import Console

import calql
from calql.results.rounds import rounds_table

# All of it only makes the example quick; leave it out for your own data.
SMALL = {
    "seeds": 1, "offline_updates": 400, "evaluate_offline_every": 400, "fqe_updates": 200, "policy_widths": (32, 32),
    "critic_widths": (32, 32), "batch_size": 64, "update_ratio": 4,
}  # fmt: skip


def play(policy_folder, episodes, to, first_seed):
    """The control loop: act with a policy folder that was copied here, and record."""
    env, policy = make_env(), calql.load_policy(policy_folder, explore=True)
    with calql.Recorder(to, policy) as recorder:
        for number in range(episodes):
            seen, _ = env.reset(seed=first_seed + number)
            policy.reset()
            recorder.start(seen)
            for step in range(LIMIT):
                action = policy(seen)
                seen, reward, parked, _, info = env.step(action)
                cut = step == LIMIT - 1 and not parked
                recorder.step(action, float(reward), seen, parked, cut, success=info["success"])
                if parked or cut:
                    break


def main(folder, episodes=10):
    record(folder / "cart.npz")
    project = calql.Rounds.start(
        folder / "project", dataset=folder / "cart.npz", action_low=(-1.0,), action_high=(1.0,), progress=False, **SMALL
    )
    for week in range(3):
        files = folder / f"week-{week}"
        play(project.policy, episodes, files, first_seed=100 * week)
        added = project.add(files)
        print(f"week {week}: {added.episodes} episodes, {added.steps} steps")
        if week < 2:
            project.train(progress=False)
    Console().print(rounds_table(project.rounds))
    for warning in project.warnings:
        print(warning)
    print(f"deploy {project.policy}; report: {project.folder / 'report.html'}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
