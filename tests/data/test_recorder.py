"""What a control loop records is a file like any other, whole, and says whose it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from calql.data import load
from calql.data.recorder import Recorder
from calql.system.errors import UserError

POLICY = SimpleNamespace(description={"seeds": [0, 1], "checksums": ["aa", "bb"]}, member=1)


def test_an_episode_is_a_dataset(tmp_path: Path) -> None:
    with Recorder(tmp_path, POLICY) as recorder:
        seen = np.zeros(2)
        recorder.start(seen)
        for step in range(3):
            seen += 1.0  # a loop may reuse its array
            written = recorder.step(np.array([0.5]), float(step), seen, terminated=step == 2, success=step == 1)
    assert written == tmp_path / "episode-00000.npz"
    data = load(written)
    assert data.observations.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert data.next_observations.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert (data.rewards.tolist(), data.terminals.tolist()) == ([0, 1, 2], [False, False, True])
    assert json.loads(np.load(written)["collected"].tobytes()) == {"policy": "bb", "seed": 1, "success": True}


def test_masks_discrete_actions_and_cuts(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.start([0.0], mask=[1, 0])
    recorder.step(0, 1.0, [1.0], mask=[1, 1])
    recorder.cut()
    recorder.start([5.0])
    recorder.step(1, 1.0, [6.0])
    recorder.start([7.0])  # the one before never ended
    recorder.step(1, 1.0, [8.0], truncated=True)
    first, second = (load(path) for path in sorted(tmp_path.glob("*.npz")))
    assert (first.actions.dtype, first.truncated.tolist()) == (np.int64, [True])
    masks = {name: mask.tolist() for name, mask in first.masks.items()}
    assert masks == {"action_masks": [[True, False]], "next_action_masks": [[True, True]]}
    assert second.observations.tolist() == [[7.0]]


def test_two_recorders_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see the same next free name; the second gives it up."""
    numbers = iter([0, 0, 1])
    monkeypatch.setattr("calql.data.recorder.next_free", lambda folder: next(numbers))
    for value in (1.0, 2.0):
        recorder = Recorder(tmp_path)
        recorder.start([value])
        recorder.step([0.0], 0.0, [value], truncated=True)
    assert [load(path).observations.tolist() for path in sorted(tmp_path.iterdir())] == [[[1.0]], [[2.0]]]


def test_what_is_no_number_is_told_at_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with pytest.raises(UserError, match=r"call start\(observation\)"):
        recorder.step([0.0], 0.0, [0.0])
    recorder.start([0.0])
    with pytest.raises(UserError, match="NaN or inf"):
        recorder.step([float("nan")], 0.0, [0.0])
    recorder.step([0.0], 0.0, [0.0])
    with pytest.raises(UserError, match=r"an observation of shape \(2,\)"):
        recorder.step([0.0], 0.0, [0.0, 1.0])
    with pytest.raises(UserError, match="a mask with some observations"):
        recorder.step([0.0], 0.0, [0.0], mask=[1, 0])
    with pytest.raises(UserError, match="no step to cut after"):
        Recorder(tmp_path).cut()
    assert recorder.cut().exists()
    assert len(list(tmp_path.iterdir())) == 1
