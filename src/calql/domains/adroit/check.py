"""Whether a recording is of the hand: rewards that follow from what is seen, demonstrations that replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Bools
from calql.data.formats.npz import read_npz_arrays
from calql.domains.adroit.env import HANDS, AdroitBinary, State
from calql.domains.adroit.human import read_human, replay, start_of_row, success_of
from calql.domains.checks import Certifier, Check, Recording, spread_rows

SHAPES = {"pen": ((45,), (24,)), "door": ((39,), (28,)), "relocate": ((39,), (30,))}


# what the hand moves: its entries in an observation, and the most that one step may miss them by (median)
MOVED = {
    "pen": (slice(24, 27), "the pen's position (m)", 0.001),
    "door": (slice(28, 29), "the hinge (rad)", 0.005),
    "relocate": (slice(36, 39), "the ball's position (m)", 0.002),
}
JOINTS = {"pen": 24, "door": 27, "relocate": 30}  # of the hand, first in an observation
MOST_STEPS = 200

Columns = Mapping[str, NDArray[Any]]


def check(task: str, recording: Recording) -> Sequence[Check]:
    """Binary rewards follow from the observations; recordings that know their states are replayed."""
    dataset = recording.dataset
    checks: list[Check] = []
    if set(np.unique(dataset.rewards)) <= {-1.0, 0.0}:
        solved = success_of(task, dataset.next_observations)
        unlike = (solved != (dataset.rewards == 0.0)) | (solved != dataset.terminals)
        checks.append(Check("share of rows whose reward or end differs", float(np.mean(unlike)), 0.001))
    columns = _columns(recording.path)
    if "infos_qpos" in columns:
        checks += one_step_checks(task, columns)
    elif recording.path is not None and "init_qpos" in columns:
        checks += replay_checks(task, recording.path)
    if not checks:  # neither binary rewards nor states: nothing could be compared
        checks.append(Check("rows that can be compared", 0.0, 1.0, at_least=True))
    return checks


def _columns(path: Path | None) -> Columns:
    if path is None or path.suffix != ".npz":
        return {}
    return read_npz_arrays(path)


def replay_checks(task: str, path: Path) -> list[Check]:
    """Demonstrations replayed from where they start: door by its widest opening, relocate by its success."""
    env = AdroitBinary(task, ends=False)
    pairs = [(d.observations, *replay(env, d)) for d in read_human(task, path)]
    if task == "door":
        widest = [abs(seen[:-1, 28].max() - recorded[:, 28].max()) for recorded, seen, _ in pairs]
        hinge = [np.abs(seen[:-1, 28] - recorded[:, 28]).mean() for recorded, seen, _ in pairs]
        return [
            _share("whose widest opening is within 0.02 rad", np.asarray(widest) <= 0.02, 0.8),
            _share("whose hinge is within 0.02 rad on average", np.asarray(hinge) <= 0.02, 0.8),
        ]
    return [_share("that succeeds again", np.array([successes.any() for *_, successes in pairs]), 1.0)]


def _share(what: str, passed: Bools, least: float) -> Check:
    """How many demonstrations pass."""
    detail = f"{int(passed.sum())} of {len(passed)}"
    return Check(f"share {what}", float(passed.mean()), least, at_least=True, detail=detail)


def one_step_checks(task: str, columns: Columns) -> list[Check]:
    """D4RL's layout, in which every row knows its state: one step from each, as a pen's spin outruns longer replays."""
    env = AdroitBinary(task, ends=False)
    entries, what, limit = MOVED[task]
    goes_on = np.flatnonzero(~(columns["timeouts"] | columns["terminals"]).astype(bool)[:-1])
    moved, hand = [], []
    for row in goes_on[spread_rows(len(goes_on), MOST_STEPS)]:
        env.reset(seed=0, options={"state": recorded_state(env, columns, row)})
        error = env.step(columns["actions"][row])[0] - columns["observations"][row + 1]
        moved.append(float(np.linalg.norm(error[entries])))
        hand.append(float(np.abs(error[: JOINTS[task]]).max()))
    return [
        Check(f"one-step error of {what}, median", float(np.median(moved)), limit, detail=_high(moved)),
        Check("one-step error of the worst joint (rad), median", float(np.median(hand)), 0.02, detail=_high(hand)),
    ]


def recorded_state(env: AdroitBinary, columns: Columns, row: int) -> State:
    """The state of a row, as the environment takes it; what D4RL's v0 files lack of it follows from what was seen."""
    if f"infos_{PLACED.get(env.task)}" in columns:
        return start_of_row(env.task, columns, row)
    joints = {name: columns[f"infos_{name}"][row].astype(np.float64) for name in ("qpos", "qvel")}
    return {**joints, **PLACES[env.task](env, joints, columns["observations"][row])}


def _ball_and_target(env: AdroitBinary, joints: State, seen: NDArray[Any]) -> State:
    """The recorded places of ball and target are not those of the observations: put them where these saw them."""
    env.reset(seed=0, options={"state": {**joints, "obj_pos": np.zeros(3), "target_pos": np.zeros(3)}})
    data = env.simulation.data
    palm, displaced = data.site_xpos[env.scene.S_grasp_site_id].copy(), data.xpos[env.scene.obj_body_id].copy()
    return {"obj_pos": palm - seen[30:33] - displaced, "target_pos": palm - seen[33:36]}


def _door(env: AdroitBinary, joints: State, seen: NDArray[Any]) -> State:
    """The door stands where its handle was seen."""
    env.reset(seed=0, options={"state": {**joints, "door_body_pos": np.zeros(3)}})
    handle = env.simulation.data.site_xpos[env.scene.handle_site_id]
    return {"door_body_pos": seen[32:35] - handle}


def _wanted_pen(env: AdroitBinary, joints: State, seen: NDArray[Any]) -> State:
    """How the pen should be held moves nothing: any orientation will do."""
    return {"desired_orien": np.array([1.0, 0.0, 0.0, 0.0])}


PLACED = {"pen": "desired_orien", "door": "door_body_pos"}  # what a state has beside the joints, in later files
PLACES: Mapping[str, Callable[[AdroitBinary, State, NDArray[Any]], State]] = {
    "relocate": _ball_and_target,
    "door": _door,
    "pen": _wanted_pen,
}


def _high(errors: Sequence[float]) -> str:
    return f"90%: {np.quantile(errors, 0.9):.4f}"


CERTIFIERS = {f"{task}-binary": Certifier(*SHAPES[task], partial(check, task)) for task in HANDS}
