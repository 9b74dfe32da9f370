"""Figures of the domain pages: a film strip of pick-and-place, stills of Adroit and the kitchen.

The last two need OpenGL: MUJOCO_GL=egl python docs/figures/pick_place.py
"""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as imageio
import numpy as np

from calql.domains.adroit.env import HANDS, AdroitBinary
from calql.domains.kitchen.env import Kitchen
from calql.domains.pick_place.data import Scripted
from calql.domains.pick_place.env import PickPlace

HERE = Path(__file__).parent


def strip(seed: int, count: int = 8) -> np.ndarray:
    """Pictures of one scripted episode: as the policy sees them, below as they are rendered for people."""
    env, policy = PickPlace(), Scripted(np.random.default_rng([seed, 1]))
    seen, shown, done = [env.reset(seed=seed)[0]], [env.render()], False
    while not done:
        image, _, terminated, truncated, _ = env.step(policy(env.state))
        seen.append(image)
        shown.append(env.render())
        done = terminated or truncated
    chosen = np.linspace(0, len(seen) - 1, count).round().astype(int)
    small = [seen[i].repeat(10, 0).repeat(10, 1) for i in chosen]
    return np.concatenate([np.concatenate(small, 1), np.concatenate([shown[i] for i in chosen], 1)])


def still(env: AdroitBinary | Kitchen) -> np.ndarray:
    env.reset(seed=0)
    picture = np.asarray(env.render())
    env.close()
    return picture[::2, ::2]


if __name__ == "__main__":
    imageio.imwrite(HERE / "pick_place.png", strip(seed=2)[::5, ::5])
    hands = [still(AdroitBinary(task, render_mode="rgb_array")) for task in HANDS]
    imageio.imwrite(HERE / "adroit.png", np.concatenate(hands, 1))
    imageio.imwrite(HERE / "kitchen.png", still(Kitchen("complete", render_mode="rgb_array")))
