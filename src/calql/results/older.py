"""What files of runs of before say in other words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILMS = {"before": "switch", "after": "final"}


def checkpoint_of(entry: Mapping[str, Any]) -> str:
    """Of a map or a film, whose policies it shows; that was its `moment`, and films had words of their own for it."""
    if "checkpoint" in entry:
        return str(entry["checkpoint"])
    return FILMS.get(str(entry["moment"]), str(entry["moment"]))
