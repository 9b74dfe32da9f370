"""What a policy costs to write and to load, with networks of AntMaze's sizes: `python docs/figures/policy_load.py`.

Writes `policy/` of six seeds beside a checkpoint of the same state, then loads one in a process of its own. Seconds are
of the call alone (`cpu`: of the processor, whoever else is at work), megabytes what the process has more than after its
imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from calql.domains.registry import get_task
from calql.engine.checkpoint import Checkpoints, pack
from calql.engine.program import Program
from calql.methods import method_entry
from calql.networks import Spec
from calql.runs.policy_folder import FORMAT, write_policies
from calql.runs.request import Choice, defaults
from calql.runs.spaces import in_words

SEEDS, OBSERVATION, ACTION = 6, 29, 8
LOAD = """
import json, sys, time
import numpy as np
import calql.runs.artifact
from calql.engine.speed import resident_mb

before, begun, cpu = resident_mb(), time.perf_counter(), time.process_time()
policy = calql.load_policy(sys.argv[1])
loaded_s, cpu_s, loaded = time.perf_counter() - begun, time.process_time() - cpu, resident_mb()
policy(np.zeros(29, np.float32))
first_s, then = time.perf_counter() - begun - loaded_s, time.perf_counter()
for _ in range(1000):
    policy(np.zeros(29, np.float32))
each_s = (time.perf_counter() - then) / 1000
policy(np.zeros((1000, 29), np.float32))
print(json.dumps({
    "load_s": round(loaded_s, 3), "load_cpu_s": round(cpu_s, 3), "load_mb": round(loaded - before),
    "first_action_s": round(first_s, 3),
    "action_ms": round(1e3 * each_s, 3), "after_actions_mb": round(resident_mb() - before),
}))
"""


def write(method: str, root: Path) -> dict[str, float]:
    """The policy folder, and a checkpoint of the learner's state alone beside it."""
    _, options = defaults(Choice(method=method), get_task("antmaze-medium-diverse"))
    program = Program(method_entry(method).make(options))
    spec = Spec((OBSERVATION,), ACTION, mean=(0.0,) * OBSERVATION, std=(1.0,) * OBSERVATION)
    states = program.start(jnp.stack([jax.random.key(seed) for seed in range(SEEDS)]), spec)
    policies = jax.device_get(jax.vmap(program.method.policy)(states))
    described = {
        "format": FORMAT, "method": method, "options": vars(options), "seeds": list(range(SEEDS)), "arms": [],
        "phase": "offline", "action": in_words(spaces.Box(-1.0, 1.0, (ACTION,), np.float32)),
        "observation": {
            "shape": [OBSERVATION], "dtype": "float32", "low": None, "high": None, "mean": spec.mean, "std": spec.std,
        },
    }  # fmt: skip
    begun = time.perf_counter()
    Checkpoints(root / "checkpoints").save(pack("state", states))
    checkpoint_s, begun = time.perf_counter() - begun, time.perf_counter()
    write_policies(root / "policy", described, policies)
    size = sum(path.stat().st_size for path in (root / "policy").iterdir())
    return {"checkpoint_s": checkpoint_s, "write_s": time.perf_counter() - begun, "file_mb": size / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", default="cal-ql")
    with tempfile.TemporaryDirectory() as folder:
        method = parser.parse_args().method
        written = {name: round(value, 3) for name, value in write(method, Path(folder)).items()}
        command = [sys.executable, "-c", LOAD, str(Path(folder) / "policy")]
        loaded = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(json.dumps({"method": method, "seeds": SEEDS, **written, **loaded}))


if __name__ == "__main__":
    main()
