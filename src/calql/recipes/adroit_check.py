"""Whether a recording is of the hand: rewards that follow from what is seen, demonstrations that replay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calql.data.certify import Certifier, Check, Recording, spread_rows
from calql.data.dataset import Bools
from calql.envs.adroit import HANDS, AdroitBinary
from calql.recipes.adroit_human import read_human, replay, start_of, success_of

SHAPES = {"pen": ((45,), (24,)), "door": ((39,), (28,)), "relocate": ((39,), (30,))}


def check(task: str, recording: Recording) -> Sequence[Check]:
    """Binary rewards follow from the observations; recordings that know their states replay."""
    dataset = recording.dataset
    checks: list[Check] = []
    if set(np.unique(dataset.rewards)) <= {-1.0, 0.0}:
        solved = success_of(task, dataset.next_observations)
        unlike = (solved != (dataset.rewards == 0.0)) | (solved != dataset.terminals)
        checks.append(Check("share of rows whose reward or end differs", float(np.mean(unlike)), 0.001))
    if recording.path is not None and _knows_states(recording.path):
        checks += replay_checks(task, recording.path)
    if not checks:  # neither binary rewards nor states: nothing could be compared
        checks.append(Check("rows that can be compared", 0.0, 1.0, at_least=True))
    return checks


def replay_checks(task: str, path: Path) -> list[Check]:
    """Demonstrations replayed from where they start: door by its widest opening, relocate by its success."""
    env = AdroitBinary(task, ends=False)
    if task == "pen":
        error = float(np.median(pen_drift(env, path)))
        return [Check("one-step error of the pen's position, median (m)", error, 0.001)]
    pairs = [(d.observations, *replay(env, d)) for d in read_human(task, path)]
    if task == "door":
        widest = [abs(seen[:-1, 28].max() - recorded[:, 28].max()) for recorded, seen, _ in pairs]
        return [_share("whose widest opening is within 0.02 rad", np.asarray(widest) <= 0.02, 0.8)]
    return [_share("that succeeds again", np.array([successes.any() for *_, successes in pairs]), 1.0)]


def _share(what: str, passed: Bools, least: float) -> Check:
    """How many demonstrations pass."""
    detail = f"{int(passed.sum())} of {len(passed)}"
    return Check(f"share {what}", float(passed.mean()), least, at_least=True, detail=detail)


def pen_drift(env: AdroitBinary, path: Path, most: int = 200) -> NDArray[np.float64]:
    """Error of the pen's position after one step from recorded states: its spin outruns any longer replay."""
    with np.load(path, allow_pickle=False) as stored:
        columns = dict(stored)
    goes_on = np.flatnonzero(~(columns["timeouts"] | columns["terminals"])[:-1])
    errors = []
    for row in goes_on[spread_rows(len(goes_on), most)]:
        env.reset(options={"state": start_of("pen", columns, 0, slice(row, row + 1))})
        seen = env.step(columns["actions"][row])[0]
        errors.append(np.linalg.norm(seen[24:27] - columns["observations"][row + 1, 24:27]))
    return np.asarray(errors, np.float64)


def _knows_states(path: Path) -> bool:
    if path.suffix != ".npz" or not path.is_file():
        return False
    with np.load(path, allow_pickle=False) as stored:
        return "init_qpos" in stored or "infos_desired_orien" in stored


CERTIFIERS = {f"{task}-binary": Certifier(*SHAPES[task], partial(check, task)) for task in HANDS}
