"""Time an update at AntMaze's or the door's shapes on the GPU, and list what its kernels take.

python docs/figures/profile.py SEEDS [fused] [door]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np

from calql.bench.updates import Bench, Shapes
from calql.methods.learner_options import ActorCriticOptions
from calql.networks import Kernel

BLOCK, TRACED, LISTED = 512, 64, 40
TASKS = {"antmaze": (29, 8, (256, 256), (256,) * 4), "door": (39, 28, (512, 512), (512,) * 3)}


def main(seeds: int, kernel: Kernel, task: str) -> None:
    observation, action, policy_widths, critic_widths = TASKS[task]
    options = ActorCriticOptions(
        precision="bfloat16", critic_kernel=kernel, policy_widths=policy_widths, critic_widths=critic_widths
    )
    bench = Bench("cal-ql", options, Shapes(observation, action, seeds=seeds))
    learning, times = bench.learning, []
    for updates in (1, *[BLOCK] * 6):
        begun = time.perf_counter()
        learning = bench.advance(learning, updates)
        jax.block_until_ready(learning.updates)
        times.append((time.perf_counter() - begun) / updates)
    update = float(np.median(times[2:]))
    print(f"{seeds} seeds: compiled in {times[0]:.1f} s, {1e6 * update:.0f} us an update")
    print(f"{seeds / update:.0f} seed-updates/s")
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(bench.advance(learning, TRACED).updates)
        (trace,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(trace))
    taken: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for plane in data.planes:
        for line in plane.lines if "GPU" in plane.name else ():
            for event in line.events if line.name.startswith("Stream") else ():
                taken[event.name] += event.duration_ns
                count[event.name] += 1
    print(f"busy for {taken.total() / 1e3 / TRACED:.0f} us in {count.total() / TRACED:.0f} kernels")
    for name, nanoseconds in taken.most_common(LISTED):
        print(f"{nanoseconds / 1e3 / TRACED:8.1f} us {count[name] / TRACED:5.1f} times {name[:90]}")


if __name__ == "__main__":
    main(int(sys.argv[1]), "fused" if "fused" in sys.argv else "plain", "door" if "door" in sys.argv else "antmaze")
