"""What may change when a run is gone on with, and what would make it another run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from calql.engine.options import RunOptions
from calql.errors import UserError

GROW = ("online_steps", "offline_updates")  # more of the same; offline updates only before the switch
FREE = ("workers", "checkpoint_minutes", "step_timeout", "block")  # change nothing in the results
ALLOWED = (
    "more --online-steps, or more --offline-updates before the switch, --workers, --checkpoint-minutes, "
    "--step-timeout, --block"
)


def changed(run: RunOptions, changes: Mapping[str, Any], where: str) -> RunOptions:
    """The options of a run as they go on; refuses what would make it another run."""
    for name, value in changes.items():
        before = getattr(run, name, None)
        if value == before:
            continue
        if name not in (*GROW, *FREE):
            raise refused(name, value, before, where)
        if name in GROW and value < before:
            raise UserError(
                f"--{_dashed(name)} {value} is less than the run was begun with ({before})",
                where=where,
                mend="it can only grow; a shorter run is another one",
            )
    return dataclasses.replace(run, **{name: value for name, value in changes.items() if hasattr(run, name)})


def refused(name: str, value: Any, before: Any, where: str) -> UserError:
    was = "it was not given" if before is None else f"it is {before}"
    return UserError(
        f"--{_dashed(name)} {value} would make another run of this one ({was})",
        where=where,
        mend=f"leave it out, or start a new run; with --resume may change: {ALLOWED}, and how it is watched",
    )


def grows(config: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Whether a finished run is to go on."""
    return any(name in GROW and value > config["run"][name] for name, value in changes.items())


def noted(config: Mapping[str, Any], run: RunOptions, cores: int) -> dict[str, Any]:
    """The configuration with the options that hold from now on, and a line about this resumption."""
    now = dataclasses.asdict(run)
    before = config["run"]
    line = {
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "cores": cores,
        "changed": {name: [before.get(name), value] for name, value in now.items() if before.get(name) != value},
    }
    return {**config, "run": now, "resumed": [*config.get("resumed", []), line]}


def _dashed(name: str) -> str:
    return name.replace("_", "-")
