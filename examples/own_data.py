"""Your own recordings and your own environment: from an .npz file to a policy that improved online.

    python own_data.py

A cart is to be parked at 0. Somebody has logged a controller that is too weak and noisy. Cal-QL learns from these logs,
then goes on in the environment, and what it learnt is loaded and played.
"""

import tempfile
from pathlib import Path

import gymnasium
import numpy as np

import calql

LIMIT = 40  # steps of an episode


class Parking(gymnasium.Env):
    """Position and speed in, a push out; the closer to 0, the better. Parked for good, the episode ends."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-5.0, 5.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # the seed decides where the cart starts
        self.place, self.speed = self.np_random.uniform(-2.0, 2.0), 0.0
        return self._seen(), {"success": False}

    def step(self, action):
        self.speed = 0.9 * self.speed + 0.3 * float(np.clip(action[0], -1.0, 1.0))
        self.place = float(np.clip(self.place + 0.3 * self.speed, -4.0, 4.0))
        parked = abs(self.place) < 0.1 and abs(self.speed) < 0.1
        # 'success' in the info makes the share of successes the score; without it, the return is.
        return self._seen(), -abs(self.place), parked, False, {"success": parked}

    def _seen(self):
        return np.array([self.place, self.speed], np.float32)

    def render(self):  # what `calql render RUN` films
        picture = np.full((40, 160, 3), 240, np.uint8)
        picture[:, 80] = (90, 170, 100)
        middle = int(80 + 19 * self.place)
        picture[15:25, max(middle - 4, 0) : middle + 5] = (210, 90, 60)
        return picture


def make_env(render_mode=None):
    return Parking(render_mode=render_mode)


def record(file, episodes=40):
    """Logs as anybody may have them: one row a step, under D4RL's key names."""
    env, rng, rows = make_env(), np.random.default_rng(0), []
    for episode in range(episodes):
        seen, _ = env.reset(seed=episode)
        for step in range(LIMIT):
            push = np.clip(-0.4 * seen[0] - 0.5 * seen[1] + rng.normal(0.0, 0.4), -1.0, 1.0)
            action = np.array([push], np.float32)
            after, reward, terminal, _, _ = env.step(action)
            # Terminal: the task is over. Time-out: only the recording stopped. They are not the same.
            rows.append((seen, action, reward, after, terminal, step == LIMIT - 1 and not terminal))
            seen = after
            if terminal:
                break
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
    np.savez(file, **{name: np.array(column) for name, column in zip(names, zip(*rows))})
    return sum(row[4] for row in rows) / episodes  # share of episodes that end with the cart parked


def play(policy, episodes=20):
    """Share of fresh episodes in which the cart is parked."""
    env, parked = make_env(), 0
    for episode in range(episodes):
        seen, info = env.reset(seed=1_000 + episode)
        policy.reset()  # an episode begins
        for _ in range(LIMIT):
            seen, _, over, _, info = env.step(policy(seen))
            if over:
                break
        parked += info["success"]
    return parked / episodes


def main():
    folder = Path(tempfile.mkdtemp())
    logged = record(folder / "cart.npz")
    # Everything after `episode_limit` only makes it quick; leave it out for your own data.
    outcome = calql.train(
        dataset=folder / "cart.npz", env=make_env, episode_limit=LIMIT, out=folder / "run", progress=False,
        seeds=2, offline_updates=400, online_steps=200, evaluate_offline_every=200, evaluate_online_every=100,
        evaluation_episodes=5, policy_widths=(32, 32), critic_widths=(32, 32), batch_size=64,
    )  # fmt: skip
    before, after = (np.mean([row["score"] for row in rows]) for rows in (at_switch(outcome.rows), outcome.rows[-2:]))
    print(f"logged: parked in {logged:.0%} of episodes")
    print(f"score at the switch {before:.2f}, at the end {after:.2f} (mean of two seeds)")
    print(f"parked in {play(calql.load_policy(outcome.folder)):.0%} of fresh episodes")
    print(f"run folder: {outcome.folder}")


def at_switch(rows):
    return [row for row in rows if row["switch"]]


if __name__ == "__main__":
    main()
