"""What one action costs, ours and exported: `python docs/figures/action_latency.py`.

Fresh policies of the sizes that tasks have are written, exported to ONNX, StableHLO and .npz, and asked for one action
at a time. Microseconds are the median of the calls, on one core. `difference` is the largest between ONNX Runtime's
actions and ours, over 10,000 observations.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime
from gymnasium import spaces

import calql
from calql.domains.registry import get_task
from calql.methods import method_entry
from calql.networks import Spec
from calql.runs.export.numpy_policy import NumpyPolicy
from calql.runs.policy_folder import FORMAT, write_policies
from calql.runs.request import Choice, defaults
from calql.runs.spaces import in_words

CASES = (  # method, task, shape of an observation, numbers of an action
    ("cal-ql", "antmaze-medium-diverse", (29,), 8),
    ("td3-bc", "hopper-medium", (11,), 3),
    ("cal-ql", "pick-place", (48, 48, 3), 4),
    ("odt", "hopper-medium", (11,), 3),
)
KINDS = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}


def write(method: str, task: str, shape: tuple[int, ...], actions: int, root: Path) -> Path:
    """The policy folder of one seed that was never trained."""
    _, options = defaults(Choice(method=method), get_task(task))
    image = len(shape) == 3
    mean, std = ((), ()) if image else ((0.0,) * shape[0], (1.0,) * shape[0])
    spec = Spec(shape, actions, image=image, mean=mean, std=std)
    made = method_entry(method).make(options)
    policy = made.policy(made.init(jax.random.key(0), spec))
    described = {
        "format": FORMAT, "method": method, "options": vars(options), "seeds": [0], "arms": [], "phase": "offline",
        "action": in_words(spaces.Box(-1.0, 1.0, (actions,), np.float32)),
        "observation": {
            "shape": list(shape), "dtype": "uint8" if image else "float32", "low": None, "high": None,
            "mean": mean, "std": std,
        },
    }  # fmt: skip
    write_policies(root / "policy", described, jax.tree.map(lambda leaf: np.asarray(leaf)[None], policy))
    return root / "policy"


def median_us(act: Callable[[], Any], seconds: float) -> float:
    """Of one call, after a few that do not count."""
    for _ in range(20):
        act()
    taken, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        begun = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begun)
    return round(1e6 * float(np.median(taken)), 1)


def measure(case: tuple[str, str, tuple[int, ...], int], seconds: float, root: Path) -> dict[str, Any]:
    folder = write(*case, root)
    for to in ("onnx", "stablehlo", "npz"):
        calql.export_policy(folder, to, root / f"p.{to}")
    rng = np.random.default_rng(0)
    draw = (
        rng.integers(0, 256, (10_000, *case[2]), np.uint8) if len(case[2]) == 3 else rng.normal(size=(10_000, *case[2]))
    )
    seen = draw if draw.dtype == np.uint8 else draw.astype(np.float32)
    ours, numpy_policy = calql.load_policy(folder), NumpyPolicy(root / "p.npz")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(root / "p.onnx"), options)
    program = jax.jit(jax.export.deserialize(bytearray((root / "p.stablehlo").read_bytes())).call)

    def inputs(rows: np.ndarray) -> dict[str, np.ndarray]:
        ports = session.get_inputs()
        zeros = {port.name: np.zeros((len(rows), *port.shape[1:]), KINDS[port.type]) for port in ports}
        return {**zeros, "observation": rows}

    one, chunks = inputs(seen[:1]), [seen[start : start + 500] for start in range(0, len(seen), 500)]
    theirs = np.concatenate([session.run(["action"], inputs(rows))[0] for rows in chunks])
    right = []
    for rows in chunks:
        ours.reset()
        right.append(ours(rows))
    ours.reset()
    return {
        "method": case[0], "task": case[1],
        "ours_us": median_us(lambda: ours(seen[0]), seconds),
        "onnx_us": median_us(lambda: session.run(["action"], one), seconds),
        "numpy_us": median_us(lambda: numpy_policy(seen[0]), seconds),
        "stablehlo_us": median_us(lambda: jax.block_until_ready(program(*one.values())), seconds),
        "onnx_kb": round((root / "p.onnx").stat().st_size / 1e3),
        "difference": float(np.abs(theirs - np.concatenate(right)).max()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0, help="given to each measurement")
    seconds = parser.parse_args().seconds
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(case, seconds, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
