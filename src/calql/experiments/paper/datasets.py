"""What is known of the datasets that the paper trained on: as much as its text and public sources say.

`cloning` is the last score of behaviour cloning in the benchmark of CORL (github.com/tinkoff-ai/CORL, README, commit
022e449), which is of D4RL's files and not of the paper; kitchen and Adroit's binary tasks are not in it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class KnownDataset:
    """A dataset of the paper, in words."""

    task: str
    data: str
    cloning: float | None  # score of behaviour cloning on them, as a share of 1


@cache
def known_datasets() -> Mapping[str, KnownDataset]:
    """By task."""
    text = resources.files("calql.experiments").joinpath("paper", "datasets.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["task"]: KnownDataset(row["task"], row["data"], _share(row["cloning"])) for row in rows}


def _share(text: str) -> float | None:
    return float(text) if text else None
