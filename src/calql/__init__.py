"""Offline-to-online reinforcement learning: pre-train on logged data, fine-tune online without the dip."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calql.data.dataset import Dataset
    from calql.data.recorder import Recorder
    from calql.runs.api import train
    from calql.runs.artifact import LoadedPolicy, load_policy
    from calql.runs.export.export import Exported, export_policy
    from calql.runs.life import Outcome, Watching, resume
    from calql.runs.register import register
    from calql.runs.rounds.api import Rounds
    from calql.runs.scores import Scores, evaluate

__version__ = "0.1.0"
__all__ = [
    "Dataset",
    "Exported",
    "LoadedPolicy",
    "Outcome",
    "Recorder",
    "Rounds",
    "Scores",
    "Watching",
    "__version__",
    "evaluate",
    "export_policy",
    "load_policy",
    "register",
    "resume",
    "train",
]

_HOMES = {
    "Dataset": "calql.data.dataset",
    "Exported": "calql.runs.export.export",
    "LoadedPolicy": "calql.runs.artifact",
    "Outcome": "calql.runs.life",
    "Recorder": "calql.data.recorder",
    "Rounds": "calql.runs.rounds.api",
    "Scores": "calql.runs.scores",
    "Watching": "calql.runs.life",
    "evaluate": "calql.runs.scores",
    "export_policy": "calql.runs.export.export",
    "load_policy": "calql.runs.artifact",
    "register": "calql.runs.register",
    "resume": "calql.runs.life",
    "train": "calql.runs.api",
}


if not TYPE_CHECKING:  # a type checker has the names above, and refuses others

    def __getattr__(name: str) -> Any:
        """What the package offers, loaded on first use: `import calql` alone stays quick."""
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'calql' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
