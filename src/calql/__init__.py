"""Offline-to-online reinforcement learning: pre-train on logged data, fine-tune online without the dip."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from farama_notifications import notifications

if TYPE_CHECKING:
    from calql.policy import load_policy
    from calql.training import Outcome, train

notifications.pop("gymnasium_robotics", None)  # a notice about dense Adroit rewards, which no task here uses

__version__ = "0.1.0"
__all__ = ["Outcome", "__version__", "load_policy", "train"]

_HOMES = {"train": "calql.training", "Outcome": "calql.training", "load_policy": "calql.policy"}


def __getattr__(name: str) -> Any:
    """What the package offers, loaded on first use: `import calql` alone stays quick."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'calql' has no attribute '{name}'")
