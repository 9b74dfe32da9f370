"""An environment that never comes back does not keep a run from being stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import robot

import corridor

pytestmark = pytest.mark.slow

WORDS = [
    "--seeds", "1", "--offline-updates", "4", "--online-steps", "40", "--evaluate-offline-every", "4",
    "--evaluate-online-every", "20", "--evaluation-episodes", "1", "--policy-widths", "8", "--critic-widths", "8",
    "--batch-size", "8", "--sampled-actions", "2", "--backup-actions", "2", "--no-probe", "--step-timeout", "0",
]  # fmt: skip


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("lag", ["0", "1"])
def test_a_signal_ends_a_run_whose_environment_hangs(workers: str, lag: str, tmp_path: Path) -> None:
    """In an evaluation in this process, which is then ended where it is; in a collected episode of a worker."""
    data, count, out = corridor.write_demonstrations(tmp_path), tmp_path / "counts", tmp_path / "run"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        robot.COUNTS: str(count),
        robot.FAULT: "hang:5",
    }
    command = [sys.executable, "-m", "calql", "train", "--dataset", str(data), "--env", "robot:Robot-v0"]
    process = subprocess.Popen(
        [*command, *WORDS, "--out", str(out), "--workers", workers, "--lag", lag],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while robot.times(count, "step") < 5:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert "SIGTERM: stopping" in errors
    assert "--resume" in (out / "status.json").read_text()
