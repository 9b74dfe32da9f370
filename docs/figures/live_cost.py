"""What a live page costs a run: the same seeds without it, with it, and with somebody who looks. Linux.

python docs/figures/live_cost.py FOLDER [REPEATS]
"""

from __future__ import annotations

import hashlib
import http.client
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

TRAIN = (
    "train --task point-maze-narrow --seeds 2 --offline-updates 3000 --online-steps 3000 --evaluate-offline-every 300 "
    "--evaluate-online-every 300 --evaluation-episodes 5 --policy-widths 64 64 --critic-widths 64 64"
)


def of_page(parent: int) -> float:
    """Processor seconds of the page's process."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(words[1]) == parent and b"results.live" in (entry / "cmdline").read_bytes():
                return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):
            continue
    return 0.0


def look(address: str) -> None:
    """As the page does: every two seconds, for what has changed."""
    place, version = urlsplit(address), ""
    while True:
        try:
            connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
            connection.request("GET", f"{place.path}now", headers={"If-None-Match": version})
            answer = connection.getresponse()
            answer.read()
            version = answer.getheader("ETag") or version
        except OSError:
            pass
        time.sleep(2.0)


def measure(kind: str, out: Path) -> str:
    words = [
        sys.executable,
        "-m",
        "calql",
        *TRAIN.split(),
        "--out",
        str(out),
        *(["--live"] if kind != "without" else []),
    ]
    begun, page = time.monotonic(), [0.0]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.stdout is not None
    if kind == "looked at":
        threading.Thread(target=look, args=(run.stdout.readline().split()[1],), daemon=True).start()
    threading.Thread(target=run.stdout.read, daemon=True).start()

    def sample() -> None:
        while True:
            page[0] = max(page[0], of_page(run.pid))
            time.sleep(0.5)

    threading.Thread(target=sample, daemon=True).start()
    _, _, used = os.wait4(run.pid, 0)
    rows = hashlib.sha256((out / "metrics.jsonl").read_bytes()).hexdigest()[:12]
    seconds = used.ru_utime + used.ru_stime
    wall = time.monotonic() - begun
    return f"| {kind} | {seconds:.2f} | {page[0]:.2f} | {wall:.1f} | {rows} |"


def main() -> None:
    folder, repeats = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print("| page | run, processor s | page, processor s | wall s | rows |\n|---|---|---|---|---|")
    measure("without", folder / "first")  # data and compiled programs are there from now on
    for place in range(repeats):
        for kind in ("without", "with", "looked at"):
            print(measure(kind, folder / f"{kind.replace(' ', '-')}-{place}"), flush=True)


if __name__ == "__main__":
    main()
