"""Images as observations, and choices as actions: a small world that is only seen.

    python images.py

A dot is to reach a field; it moves by four choices, and moves off the board are forbidden by a mask. Observations are
8-bit pictures [row, column, channel], in the file and from the environment: an encoder is used for them by itself.
"""

import tempfile
from pathlib import Path

import gymnasium
import numpy as np

import calql

SIDE, LIMIT = 4, 12  # cells along a side, steps of an episode
MOVES = np.array([(0, 1), (-1, 0), (0, -1), (1, 0)])
GOAL = np.array([0, SIDE - 1])


class Board(gymnasium.Env):
    """Reward 1 and the end at the goal."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0, 255, (4 * SIDE, 4 * SIDE, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = np.array([SIDE - 1, int(self.np_random.integers(SIDE - 1))])
        return self._seen(), self._info()

    def step(self, action):
        self.cell = self.cell + MOVES[action]
        there = bool((self.cell == GOAL).all())
        return self._seen(), float(there), there, False, self._info()

    def _seen(self):
        board = np.full((SIDE, SIDE, 3), 230, np.uint8)
        board[tuple(GOAL)] = (90, 170, 100)
        board[tuple(self.cell)] = (210, 90, 60)
        return board.repeat(4, axis=0).repeat(4, axis=1)

    def _info(self):
        """What is allowed, 1 for each move that stays on the board, and whether the goal is reached."""
        after = self.cell + MOVES
        allowed = ((after >= 0) & (after < SIDE)).all(axis=1)
        return {"action_mask": allowed.astype(np.int8), "success": bool((self.cell == GOAL).all())}


def record(file, episodes=40):
    """Somebody who goes the right way in two of three steps."""
    env, rng, rows = Board(), np.random.default_rng(0), []
    for number in range(episodes):
        seen, info = env.reset(seed=number)
        for step in range(LIMIT):
            allowed = np.flatnonzero(info["action_mask"])
            towards = [move for move in (0, 1) if move in allowed]  # right, up
            action = int(rng.choice(towards if rng.random() < 0.67 else allowed))
            mask = info["action_mask"]
            after, reward, terminal, _, info = env.step(action)
            cut = step == LIMIT - 1 and not terminal
            rows.append((seen, action, reward, after, terminal, cut, mask, info["action_mask"]))
            seen = after
            if terminal:
                break
    names = (
        "observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "action_masks",
        "next_action_masks",
    )  # fmt: skip
    np.savez(file, **{name: np.array(column) for name, column in zip(names, zip(*rows))})
    return sum(row[2] for row in rows) / episodes


def main():
    folder = Path(tempfile.mkdtemp())
    logged = record(folder / "board.npz")
    outcome = calql.train(
        dataset=folder / "board.npz", env=Board, episode_limit=LIMIT, out=folder / "run", progress=False, seeds=1,
        offline_updates=100, online_steps=20, evaluate_offline_every=100, evaluate_online_every=20,
        evaluation_episodes=4, policy_widths=(32,), critic_widths=(32,), batch_size=32, conservative_weight=0.5,
        discount=0.9,
    )  # fmt: skip
    print(f"logged: the goal is reached in {logged:.0%} of episodes")
    for row in outcome.rows:
        print(f"{row['phase']:>7}, {row['update']:>3} updates: success {row['success']:.2f}")
    policy = calql.load_policy(outcome.folder)
    seen, info = Board().reset(seed=3)
    print(f"a picture {seen.shape} in, a choice out: {policy(seen, mask=info['action_mask'])}")
    print(f"run folder: {outcome.folder}")


if __name__ == "__main__":
    main()
