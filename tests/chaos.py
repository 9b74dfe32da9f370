"""Kill real runs at random moments, resume them, and compare what they come to: `python -m tests.chaos --kills 100`.

Moments are drawn from the life of a process: imports, checks, compiling, training, writing, at times the last report.
A run that was killed is resumed until it ends; its metrics.jsonl must then hold the bytes of a run that nobody touched.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
SIZES = [
    "--seeds", "2", "--offline-updates", "150", "--online-steps", "300", "--evaluate-offline-every", "50",
    "--evaluate-online-every", "40", "--evaluation-episodes", "2", "--block", "10", "--checkpoint-minutes", "0.004",
    "--policy-widths", "8", "--critic-widths", "8", "--batch-size", "8", "--sampled-actions", "2",
    "--backup-actions", "2",
]  # fmt: skip
WAYS = {
    "trajectory": [],
    "workers": ["--lag", "1", "--workers", "1"],
    "step": ["--update-schedule", "step", "--online-steps", "200"],
    "real": ["--real", "--score", "success", "--online-steps", "200"],
}
CODES = {
    signal.SIGKILL: (-signal.SIGKILL,),
    signal.SIGTERM: (143, -signal.SIGTERM),
    signal.SIGINT: (130, -signal.SIGINT),
}
ENDED = 0
REFUSED = 2


@dataclass
class Tally:
    """What came of it."""

    runs: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    same_bytes: int = 0
    begun_anew: int = 0  # killed before there was anything to resume
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def in_a_line(self) -> str:
        """For who watches, or ends it early."""
        kills, same = sum(self.kills.values()), f"{self.same_bytes} of {self.runs} with the same bytes"
        return f"{kills} kills, {same}, {len(self.faults)} faults, {self.seconds:.0f} s"


def start(*words: str) -> subprocess.Popen[str]:
    """`calql train` with the corridor of these tests at hand."""
    env = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "JAX_COMPILATION_CACHE_DIR": str(Path(tempfile.gettempdir()) / f"calql-tests-{os.getuid()}" / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "MPLBACKEND": "Agg",
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "calql", "train", *words],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_ctrl_c,
    )


def _heed_ctrl_c() -> None:
    """What a shell starts in the background ignores it from its first instruction on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def uninterrupted(words: list[str], folder: Path) -> Path:
    process = start(*words, "--out", str(folder))
    _, errors = process.communicate(timeout=600)
    assert process.returncode == ENDED, errors
    return folder


def rows(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for_rows(process: subprocess.Popen[str], folder: Path, more: int) -> None:
    """Until the run has gone on by some evaluations, or has ended."""
    base, limit = rows(folder), time.monotonic() + 120
    while process.poll() is None and rows(folder) < base + more and time.monotonic() < limit:
        time.sleep(0.02)


def children(pid: int) -> set[int]:
    """Processes that a process has started, where the system tells."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.add(int(path.parent.name))
    return found


def outlived(pids: set[int], patience_s: float = 10.0) -> set[int]:
    """Those that still live after a while."""
    until = time.monotonic() + patience_s
    while pids and time.monotonic() < until:
        pids = {pid for pid in pids if Path(f"/proc/{pid}").exists() and _state(pid) != "Z"}
        time.sleep(0.05)
    return pids


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def strike(process: subprocess.Popen[str], number: signal.Signals, folder: Path, tally: Tally) -> int:
    """Send a signal and look what is left; the exit code."""
    workers = children(process.pid)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    if left := outlived(workers):
        tally.faults.append(f"{folder.name}: {len(left)} processes outlived {number.name}")
    if process.returncode not in (ENDED, *CODES[number]):
        tally.faults.append(f"{folder.name}: exit code {process.returncode} after {number.name}: {errors[-300:]}")
    began = (folder / "config.json").exists()  # before that, the interpreter itself may be interrupted
    if began and "Traceback" in errors and "Exception ignored" not in errors:
        tally.faults.append(f"{folder.name}: a traceback after {number.name}: {errors[-300:]}")
    if process.returncode != ENDED:
        tally.kills[number.name] = tally.kills.get(number.name, 0) + 1
    return process.returncode


def torment(words: list[str], whole: Path, folder: Path, lasts_s: float, kills: int, chance: random.Random) -> Tally:
    """One run, killed so many times at most, then left alone to its end."""
    tally, begun = Tally(runs=1), time.monotonic()
    resuming = False
    while True:
        process = start("--resume", str(folder)) if resuming else start(*words, "--out", str(folder))
        if sum(tally.kills.values()) < kills:
            try:
                process.wait(chance.uniform(0.0, 0.7 * lasts_s))
            except subprocess.TimeoutExpired:
                number = chance.choices([signal.SIGKILL, signal.SIGTERM, signal.SIGINT], [6, 2, 1])[0]
                strike(process, number, folder, tally)
        _, errors = process.communicate(timeout=600)
        if process.returncode == ENDED:
            break
        if process.returncode == REFUSED and "before it had begun" not in errors:
            tally.faults.append(f"{folder.name}: {errors[-300:]}")
            break
        resuming = (folder / "config.json").exists()
        if not resuming:
            tally.begun_anew += 1
            shutil.rmtree(folder, ignore_errors=True)  # as its message says
    _compare(whole, folder, tally)
    tally.seconds = time.monotonic() - begun
    return tally


def _compare(whole: Path, folder: Path, tally: Tally) -> None:
    path = folder / "metrics.jsonl"
    same = path.exists() and path.read_bytes() == (whole / "metrics.jsonl").read_bytes()
    tally.same_bytes += same
    if not same:
        tally.faults.append(f"{folder.name}: other rows than the run that nobody touched")
    if left := [path.name for path in folder.rglob(".*")] + [path.name for path in folder.rglob("*.partial")]:
        tally.faults.append(f"{folder.name}: left over: {left}")


def run(kills: int, seed: int, place: Path) -> Tally:
    """As many runs as it takes, a few kills each, one way of running after the other."""
    sys.path.insert(0, str(TESTS))
    import corridor

    data = corridor.write_demonstrations(place)
    chance, total, begun = random.Random(seed), Tally(), time.monotonic()
    shared = set(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else set()
    wholes: dict[str, tuple[Path, float]] = {}
    while sum(total.kills.values()) < kills and not total.faults:
        way = list(WAYS)[total.runs % len(WAYS)]
        words = ["--dataset", str(data), "--env", "corridor:Corridor-v0", *SIZES, *WAYS[way]]
        if way not in wholes:
            since = time.monotonic()
            wholes[way] = uninterrupted(words, place / f"{way}-whole"), time.monotonic() - since
        left = kills - sum(total.kills.values())
        folder = place / f"{way}-{total.runs}"
        found = torment(words, wholes[way][0], folder, wholes[way][1], min(left, chance.randint(2, 6)), chance)
        total = _sum(total, found)
        print(f"{folder.name}: {found.in_a_line}; in all: {total.in_a_line}", file=sys.stderr, flush=True)
    if shared and (new := set(os.listdir("/dev/shm")) - shared):
        total.faults.append(f"left in shared memory: {sorted(new)}")
    total.seconds = time.monotonic() - begun
    return total


def _sum(left: Tally, right: Tally) -> Tally:
    kills = {name: left.kills.get(name, 0) + right.kills.get(name, 0) for name in {**left.kills, **right.kills}}
    return Tally(
        left.runs + right.runs,
        kills,
        left.same_bytes + right.same_bytes,
        left.begun_anew + right.begun_anew,
        left.faults + right.faults,
        left.seconds + right.seconds,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the signals")
    parser.add_argument("--keep", type=Path, help="a folder for the runs, which are thrown away otherwise")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = given.keep or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        tally = run(given.kills, given.seed, place)
    print(json.dumps(asdict(tally), indent=2))
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
