"""Offline-to-online reinforcement learning: pre-train on logged data, fine-tune online without the dip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calql.training import Outcome, train

__version__ = "0.1.0"
__all__ = ["Outcome", "__version__", "train"]


def __getattr__(name: str) -> Any:
    """`calql.train` and what it returns, loaded on first use: `import calql` alone stays quick."""
    if name in ("train", "Outcome"):
        from calql import training

        return getattr(training, name)
    raise AttributeError(f"module 'calql' has no attribute '{name}'")
