"""A run folder as it is read back: its config, its rows, how fast it went, and whether it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from calql.results.arms import ARM, arms_of, known_as
from calql.results.metrics import Row, read_rows
from calql.system.archives import read_archive
from calql.system.errors import UserError, shown
from calql.system.run_config import check_parts, read_object, refuse_links
from calql.system.run_files import CALIBRATED, CONFIG, METRICS, SPEED, STATUS, calibration

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Q of each seed against the return-to-go of the same logged states and actions."""

    q: Floats  # [seed, state]
    return_to_go: Floats  # [state]
    held_out: bool  # never trained on


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """What a run folder holds. Any part but the config may still be missing while the run goes on."""

    folder: Path
    config: dict[str, Any]
    rows: list[Row]
    speed: list[Row]
    status: dict[str, Any]
    calibration: dict[str, Calibration]  # by CALIBRATED
    arm: str = ""  # of a sweep: whose part of the folder this is

    @property
    def task(self) -> str:
        return shown(str(self.config.get("task", "unnamed task")))

    @property
    def method(self) -> str:
        """The method, with the value that an arm of a sweep has."""
        return shown(known_as(self.config, self.arm))

    @property
    def finished(self) -> bool:
        return bool(self.status.get("finished", False))

    @property
    def seeds(self) -> list[int]:
        """Seeds in the order of the config, then any that only the rows know."""
        found = [int(seed) for seed in self.config.get("seeds", [])]
        return found + sorted({int(row["seed"]) for row in self.rows} - set(found))

    @property
    def offline_updates(self) -> int:
        """Planned gradient steps before the switch."""
        return int(self.option("offline_updates") or 0)

    @property
    def online_steps(self) -> int:
        """Planned environment steps of fine-tuning; what was done, where the config does not say."""
        planned = self.option("online_steps")
        done = max((int(row["env_steps"]) for row in self.rows if row["phase"] == "online"), default=0)
        return done if planned is None else int(planned)

    def option(self, name: str) -> Any:
        """An option of the run or of its method, None where it has none of that name."""
        for part in ("run", "options"):
            value = (self.config.get(part) or {}).get(name)
            if value is not None:
                return value
        return None

    def of_seed(self, seed: int) -> list[Row]:
        return [row for row in self.rows if row["seed"] == seed]


def read_runs(folder: Path | str) -> list[RecordedRun]:
    """A run folder, whole or in the making; of a sweep its arms, each as a run of its own."""
    return arms_apart(_read(Path(folder)))


def arms_apart(whole: RecordedRun) -> list[RecordedRun]:
    """The arms of a sweep, each as a run of its own; a run without arms by itself."""
    arms = arms_of(whole.config)
    return [_of_arm(whole, arm, place, arms[arm]) for place, arm in enumerate(arms)] or [whole]


def read_run(folder: Path | str) -> RecordedRun:
    """A folder of a single run."""
    runs = read_runs(folder)
    if len(runs) > 1:
        raise UserError("is a sweep of several arms", where=str(folder), mend="look at it with 'calql report'")
    return runs[0]


def _of_arm(whole: RecordedRun, arm: str, place: int, sets: Mapping[str, Any]) -> RecordedRun:
    """What a run with the arm's options alone would have left; seeds of an arm stand together in arrays."""
    seeds = slice(place * len(whole.seeds), (place + 1) * len(whole.seeds))
    return replace(
        whole,
        arm=arm,
        config={**whole.config, "options": {**whole.config.get("options", {}), **sets}},
        rows=[row for row in whole.rows if row.get(ARM) == arm],
        calibration={checkpoint: replace(each, q=each.q[seeds]) for checkpoint, each in whole.calibration.items()},
    )


def _read(place: Path) -> RecordedRun:
    if not place.is_dir():
        raise UserError("no such run folder", where=str(place), mend="give the folder that 'calql train' printed")
    if not (place / CONFIG).is_file():
        raise UserError(f"not a run folder: it holds no {CONFIG}", where=str(place), mend="give the folder of one run")
    refuse_links(place)
    found = {checkpoint: _calibration(place / calibration(checkpoint)) for checkpoint in CALIBRATED}
    return RecordedRun(
        folder=place,
        config=_config(place / CONFIG),
        rows=[row for row in read_rows(place / METRICS) if {"seed", "phase", "score"} <= row.keys()],
        speed=read_rows(place / SPEED),
        status=read_object(place / STATUS) if (place / STATUS).is_file() else {},
        calibration={checkpoint: read for checkpoint, read in found.items() if read is not None},
    )


class Named(Protocol):
    """What has a run's names: the run, or its summary."""

    @property
    def method(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def folder(self) -> Path: ...


def labels(runs: Sequence[Named]) -> list[str]:
    """Shortest names that tell the runs apart: the method, with the task, else the folder."""
    forms: tuple[Callable[[Named], str], ...] = (
        lambda run: run.method,
        lambda run: f"{run.method} · {run.task}",
        lambda run: f"{run.method} · {shown(run.folder.resolve().name)}",
    )
    for name in forms:
        names = [name(run) for run in runs]
        if len(set(names)) == len(names):
            return names
    return [f"{run.method} · {shown(str(run.folder))}" for run in runs]


def _config(path: Path) -> dict[str, Any]:
    config = read_object(path)
    check_parts(config, path)
    return config


def _calibration(path: Path) -> Calibration | None:
    """None where it is not there; a file that cannot be read costs its plot, not the report."""
    try:
        file = read_archive(path)
        q = np.atleast_2d(np.asarray(file["q"], np.float64))
        return_to_go = np.asarray(file["return_to_go"], np.float64).reshape(-1)
        held_out = bool(file["held_out"]) if "held_out" in file else False
    except (OSError, UserError, KeyError, ValueError):
        return None
    return Calibration(q, return_to_go, held_out) if q.shape[1] == return_to_go.size > 0 else None
