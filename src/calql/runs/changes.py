"""What may change when a run is gone on with, and what would make it another run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from calql.engine.options import RunOptions
from calql.runs.origins import resumed
from calql.system.errors import UserError

GROW = ("online_steps", "offline_updates")  # more of the same; offline updates before the switch, or of logs alone
# These change nothing in the results; the number of devices their last digits.
FREE = ("devices", "workers", "checkpoint_minutes", "step_timeout", "block", "stream")
ALLOWED = (
    "more --online-steps, more --offline-updates before the switch or of logs alone, --devices, --workers, "
    "--checkpoint-minutes, --step-timeout, --block, --stream"
)
COMPARED: dict[str, tuple[str, ...]] = {  # parts of config.json that follow from code, and which of them count
    "rewards": (),
    "environment": ("episode_limit",),
}


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


def of_the_code(config: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What the task is today and was not when the run was begun, in words; runs of before did not write it down."""
    found = []
    for part, names in COMPARED.items():
        before, today = config.get(part, {}), now[part]
        found += [
            f"{name.replace('_', ' ')} ({part}): {before[name]} then, {today[name]} now"
            for name in names or today
            if name in before and before[name] != today[name]
        ]
    return found


def noted(config: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with what holds from now on, and a line about this resumption."""
    before, today = config["run"], now["run"]
    line: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "cores": now["cores"],
        "devices": now["devices"],
        "changed": {name: [before.get(name), value] for name, value in today.items() if before.get(name) != value},
        "accepted": of_the_code(config, now),
        "versions": {
            name: [config["versions"].get(name), version]
            for name, version in now["versions"].items()
            if config["versions"].get(name) != version
        },
    }
    held = {part: now[part] for part in ("run", *COMPARED)}
    if "origins" in config:
        held["origins"] = resumed(config["origins"], line["changed"])
    return {**config, **held, "resumed": [*config.get("resumed", []), line]}


def elsewhere(config: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What keeps the rest of a run from being the same to the byte; empty where nothing does."""
    found = [
        f"{config[what]} {what} and goes on with {now[what]}"
        for what in ("cores", "devices")
        if config.get(what, now[what]) != now[what]
    ]
    return f"the run was begun on {', on '.join(found)}: results may differ in their last digits" if found else ""


def _dashed(name: str) -> str:
    return name.replace("_", "-")
