"""Whether a finished run is gone on with: what makes it longer, and where that is too late."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calql.runs import record
from calql.runs.changes import changed, grows
from calql.runs.folder import has_checkpoint
from calql.system.errors import UserError
from calql.system.run_files import CHECKPOINTS, PROJECT


def extends(folder: Path, changes: Mapping[str, Any], *, played: bool) -> bool:
    """Whether a finished run is extended, which needs its last checkpoint; a round takes its episodes from files."""
    config = record.read_config(folder)
    changed(record.recorded_options(config, folder)[0], changes, str(folder))
    if not grows(config, changes):
        return False
    if played and (folder.resolve().parent.parent / PROJECT).is_file():
        raise UserError(
            "is a round of a project, which later rounds go on from as it is",
            where=str(folder),
            mend="give the project more episodes: calql round add, then calql round train",
        )
    if changes.get("offline_updates", 0) > config["run"]["offline_updates"] and not _of_logs_alone(config):
        raise too_late(folder)
    if not has_checkpoint(folder):
        raise UserError(
            "is finished and its checkpoints are gone, so it cannot be extended",
            where=str(folder),
            mend=f"put the folder '{CHECKPOINTS}' back, or start a new run; nothing was changed",
        )
    return True


def _of_logs_alone(config: Mapping[str, Any]) -> bool:
    return bool(config["choice"].get("offline"))


def longer(folder: Path) -> str:
    """What a finished run is extended by."""
    return "--offline-updates" if _of_logs_alone(record.read_config(folder)) else "--online-steps"


def too_late(folder: Path) -> UserError:
    return UserError(
        "more --offline-updates come too late: the run has gone online",
        where=str(folder),
        mend="extend it with --online-steps",
    )
