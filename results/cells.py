"""Cells of queue.md, several side by side on one machine; their rows are packed while they run.

    python results/cells.py start FOLDER "door-binary --offline-updates 20000 --online-steps 300000" "TASK OPTION ..."
    python results/cells.py watch FOLDER SECONDS PACKED    # until all have ended, or for so long; PACKED/TASK.tgz

`start` returns at once, and goes on with what is in FOLDER already. Each cell builds its data first, and runs in a
session of its own, so that it outlives the shell that it was started from.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from calql.results.metrics import read_rows
from calql.system.run_files import CHECKPOINTS, CONFIG, METRICS, SPEED, STATUS

BOTH = "--vary calibrate=true,false --seeds 6 --precision bfloat16 --critic-kernel fused --lag 1 --checkpoint-minutes 4"
KEPT = (CONFIG, METRICS, SPEED, STATUS)
CALQL = f"{shlex.quote(sys.executable)} -m calql"


def start(folder: Path, cells: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        task, _, options = cell.partition(" ")
        run = folder / task
        if any((run / CHECKPOINTS).glob("*")):
            train = f"{CALQL} train --resume {run}"
        else:
            train = f"{CALQL} train --task {task} {BOTH} {options} --out {run}"
        script = f"{CALQL} data build {task}; {train}"
        with (folder / f"{task}.log").open("a") as log:
            process = subprocess.Popen(["sh", "-c", script], stdout=log, stderr=log, start_new_session=True)
        (folder / f"{task}.pid").write_text(str(process.pid))


def watch(folder: Path, seconds: float, packed: Path) -> None:
    packed.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + seconds
    tasks = sorted(path.stem for path in folder.glob("*.pid"))
    while time.monotonic() < until and any(is_running(folder, task) for task in tasks):
        time.sleep(2)
    for task in tasks:
        lines = (folder / f"{task}.log").read_text().splitlines()
        print(f"== {task}: {'running' if is_running(folder, task) else 'ended'}", *lines[-3:], sep="\n")
        pack(folder, task, packed / f"{task}.tgz")


def is_running(folder: Path, task: str) -> bool:
    """By the state that the kernel gives: one that nobody waited for is still there when it has ended."""
    status = Path("/proc", (folder / f"{task}.pid").read_text(), "stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def pack(folder: Path, task: str, path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name in (*(f"{task}/{each}" for each in KEPT), f"{task}.log"):
            if (folder / name).exists():
                archive.add(folder / name, name)
    for row in read_rows(folder / task / METRICS)[-1:]:
        print({name: row.get(name) for name in ("phase", "update", "env_steps", "arm", "score", "average_q")})


if __name__ == "__main__":
    order, where, *rest = sys.argv[1:]
    if order == "start":
        start(Path(where), rest)
    else:
        watch(Path(where), float(rest[0]), Path(rest[1]))
