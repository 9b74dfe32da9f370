"""What lies in a run folder, by name."""

from __future__ import annotations

CONFIG = "config.json"  # what the run is
STATUS = "status.json"  # how far it came
METRICS = "metrics.jsonl"  # a row for each evaluation of each seed
SPEED = "speed.jsonl"
STANDING = "standing.jsonl"  # of a round: a row for each seed at its end, none of which is a row of the run
LOCK = ".lock"  # of the process at work
SUMMARY, REPORT = "summary.json", "report.html"
MAPS = "maps.json"  # Q over a plane of states, where the task has one
PROJECT, ROUNDS = "project.json", "rounds"  # of a project: its ledger, and the folder in which each round is a run
DATA = "data.npz"  # those that a program gave as a Dataset
CHECKPOINTS, POLICY, PLOTS, TENSORBOARD = "checkpoints", "policy", "plots", "tensorboard"  # folders
POLICY_AT_SWITCH = "policy-at-switch"  # as `policy`, as they were at the end of the offline phase
BENCHED = "bench.jsonl"  # of a benchmark that keeps its run: a row for each time the run was taken up
SOAKED = "soak.jsonl"  # likewise of a soak: a row for each sample
PARTIAL = ".partial"  # ends the name of what is being written, and is written anew after a kill
FILMS, FILM_LIST = "films", "films.json"  # a folder, and in it what its films show
CALIBRATED = ("switch", "end")  # when Q is compared with returns


def calibration(checkpoint: str) -> str:
    """Q against return-to-go, at one of those."""
    return f"calibration-{checkpoint}.npz"
