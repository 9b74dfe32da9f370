"""Made-up run folders in the engine's format, for tests of what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from calql.results import read_runs
from calql.results.metrics import MetricsLog
from calql.results.page import Material, report_page

OFFLINE, ONLINE, EVERY = 20_000, 10_000, 500


def make_run(
    folder: Path,
    *,
    method: str = "cal-ql",
    task: str = "point-maze-narrow",
    seeds: int = 4,
    dip: float = 0.0,
    offline: int = OFFLINE,
    online: int = ONLINE,
    with_q: bool = True,
    finished: bool = True,
    stop_at: int | None = None,
) -> Path:
    """A run whose score rises to about 0.6 offline, falls by `dip` after the switch and ends near 0.95."""
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    generators = [np.random.default_rng([seed, len(method)]) for seed in range(seeds)]
    for update in range(0, offline + 1, 2_000) if offline else [0]:
        for seed, rng in enumerate(generators):
            score = 0.6 * (1 - np.exp(-update / 7_000)) + rng.normal(0, 0.03)
            row = _row(seed, "offline", update, 0, score, rng, with_q and update > 0, dip)
            rows.append({**row, "switch": update == offline, "regret": None})
    before = [[] for _ in range(seeds)]
    for due in range(EVERY, online + 1, EVERY):
        if stop_at is not None and due > stop_at:
            break
        for seed, rng in enumerate(generators):
            steps = due + int(rng.integers(0, 150))
            score = 0.6 + 0.36 * (1 - np.exp(-steps / 4_000)) - dip * np.exp(-(((steps - 1_200) / 1_100) ** 2))
            row = _row(seed, "online", offline + steps, steps, score + rng.normal(0, 0.04), rng, with_q, dip)
            before[seed].append(1 - row["score"])
            rows.append({**row, "switch": False, "regret": float(np.mean(before[seed]))})
    MetricsLog(folder / "metrics.jsonl").append(rows)
    MetricsLog(folder / "speed.jsonl").append(
        {"update": u, "env_steps": max(u - offline, 0), "phase": "offline" if u <= offline else "online",
         "updates_per_s": 900.0 if u <= offline else 450.0, "env_steps_per_s": None if u <= offline else 450.0,
         "elapsed_s": u / 700}
        for u in range(2_000, offline + online + 1, 2_000)
    )  # fmt: skip
    if with_q:
        _calibration(folder, seeds, dip)
    _config(folder, method, task, seeds, offline, online)
    status = {"finished": finished, "phase": "online", "reason": None if finished else "time limit"}
    (folder / "status.json").write_text(json.dumps(status))
    return folder


def page_of(*folders: Path) -> Path:
    """Without the pictures beside it."""
    page = folders[0] / "report.html"
    page.write_text(report_page(Material.of([run for folder in folders for run in read_runs(folder)]), page))
    return page


def _row(
    seed: int, phase: str, update: int, steps: int, score: float, rng: np.random.Generator, with_q: bool, dip: float
) -> dict[str, Any]:
    score = float(np.round(np.clip(score, 0, 1), 2))
    row: dict[str, Any] = {
        "seed": seed, "phase": phase, "update": update, "env_steps": steps, "score": score, "return": score,
        "success": score, "episode_length": 300 - 200 * score, "average_return_to_go": -42.0, "average_q": None,
    }  # fmt: skip
    if with_q:
        progress = update / 20_000
        row["average_q"] = -40 - 45 * (dip > 0) * np.exp(-steps / 3_000) + rng.normal(0, 1)
        row |= {
            "conservative_gap": 3 * np.exp(-progress) + rng.normal(0, 0.1),
            "alpha": np.exp(-progress), "alpha_prime": 5.0 - 2 * progress, "td_loss": 2 + np.exp(-progress),
            "entropy": -2.0 + rng.normal(0, 0.1),
        }  # fmt: skip
        for critic in ("q1", "q2"):
            for source in ("policy", "next"):
                row[f"bound_rate/{critic}/{source}"] = float(np.clip(0.55 - 0.1 * progress + rng.normal(0, 0.03), 0, 1))
    return row


def _calibration(folder: Path, seeds: int, dip: float) -> None:
    rng = np.random.default_rng(0)
    returns = -100 * rng.beta(2, 2, 1_000)
    for moment, shift in (("switch", 40 * (dip > 0)), ("end", 0)):
        q = 0.9 * returns - shift + rng.normal(0, 6, (seeds, 1_000))
        np.savez(folder / f"calibration-{moment}.npz", q=q, return_to_go=returns, held_out=True)


def _config(folder: Path, method: str, task: str, seeds: int, offline: int, online: int) -> None:
    config = {
        "task": task, "method": method, "seeds": list(range(seeds)),
        "run": {"offline_updates": offline, "online_steps": online, "evaluate_offline_every": 2_000,
                "evaluate_online_every": EVERY, "evaluation_episodes": 20, "mixing": 0.5, "update_ratio": 1,
                "discount": 0.99},
        "options": {"calibrate": method == "cal-ql", "batch_size": 256},
        "dataset": {"source": "built", "transitions": 20_000, "episodes": 100, "reward_min": -1.0, "reward_max": 0.0},
        "versions": {"calql": "0.1.0", "jax": "0.10.0"}, "command": f"calql train --method {method} --note '<b>&'",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
