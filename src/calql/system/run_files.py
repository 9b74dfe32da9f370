"""What lies in a run folder, by name."""

from __future__ import annotations

CONFIG = "config.json"  # what the run is
STATUS = "status.json"  # how far it came
METRICS = "metrics.jsonl"  # a row for each evaluation of each seed
SPEED = "speed.jsonl"
LOCK = ".lock"  # of the process at work
SUMMARY, REPORT = "summary.json", "report.html"
MAPS = "maps.json"  # Q over the places of a task that has a map
FILMS, FILM_LIST = "films", "films.json"  # a folder, and what lies in it
DATA = "data.npz"  # those that a program gave as a Dataset
CHECKPOINTS, POLICY, PLOTS, TENSORBOARD = "checkpoints", "policy", "plots", "tensorboard"  # folders
MOMENTS = ("switch", "end")  # when Q is compared with returns


def calibration(moment: str) -> str:
    """Q against return-to-go at a moment of the run."""
    return f"calibration-{moment}.npz"
