"""The folder of a round that goes on from another: a run folder with the other's checkpoint, whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from calql.engine.checkpoint import as_disk_error, whole
from calql.runs.folder import ASIDE
from calql.system.run_files import (
    CHECKPOINTS,
    FILMS,
    LOCK,
    METRICS,
    PARTIAL,
    PLOTS,
    POLICY,
    REPORT,
    ROUNDS,
    SPEED,
    STANDING,
    SUMMARY,
    TENSORBOARD,
)

OF_THE_PARENT = {LOCK, POLICY, REPORT, SUMMARY, PLOTS, FILMS, TENSORBOARD, STANDING, CHECKPOINTS}
GROW = {METRICS, SPEED}  # files that are written to where they are; others are replaced, so that a link will do


def round_folder(project: Path, number: int) -> Path:
    return project / ROUNDS / f"{number:03d}"


def branch(parent: Path, folder: Path) -> None:
    """Make the folder of a round that begins where its parent ended."""
    aside = folder.with_name(f".{folder.name}{PARTIAL}")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        (aside / CHECKPOINTS).mkdir(parents=True)
        for path in parent.iterdir():
            if path.name not in OF_THE_PARENT and not ASIDE.fullmatch(path.name):
                _brought(path, aside / path.name)
        newest = max(whole(parent / CHECKPOINTS), key=lambda path: int(path.stem))
        _linked(newest, aside / CHECKPOINTS / newest.name)
        os.replace(aside, folder)
    except OSError as error:
        raise as_disk_error(error, folder) from error


def _brought(path: Path, to: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, to)
    elif path.name in GROW:
        shutil.copyfile(path, to)
    else:
        _linked(path, to)


def _linked(path: Path, to: Path) -> None:
    """The same file under two names: it is never written to again. Where there are no links, a copy."""
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)


def prune(folder: Path) -> None:
    """Of a round that has ended, the last checkpoint is enough to go on from."""
    for old in sorted(whole(folder / CHECKPOINTS), key=lambda path: int(path.stem))[:-1]:
        old.unlink(missing_ok=True)
