"""Each wrong file ends in one line that says what is wrong, where, and how to mend it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from recordings import Arrays, recording

from calql.cli.data import inspect
from calql.data import from_d4rl_arrays, load
from calql.data.columns import ALSO_CALLED, KNOWN
from calql.system.errors import UserError


def good() -> Arrays:
    return recording([0, 0, 1, 0, 0], [0, 0, 0, 0, 1])


def changed(**columns: Any) -> Arrays:
    """The good recording with some columns replaced, or left out where None."""
    return {k: v for k, v in {**good(), **columns}.items() if v is not None}


def with_value(key: str, row: int, value: float) -> Arrays:
    arrays = changed(**{key: good()[key].astype(np.float64)})
    arrays[key][row] = value
    return arrays


BAD: dict[str, tuple[Arrays, str]] = {
    "missing key": (changed(rewards=None, reward=np.zeros(5)), "no 'rewards' among its keys .*rename 'reward'"),
    "missing rewards": (changed(rewards=None), "no 'rewards' among its keys .*; say what is rewarded: --reward end"),
    "missing keys": (
        changed(observations=None, actions=None),
        "no 'observations', 'actions' among its keys .*D4RL's key names",
    ),
    "no ends": (changed(terminals=None, timeouts=None), "nothing says where episodes end; add 'terminals'"),
    "lengths": (
        changed(actions=np.zeros((4, 1)), rewards=np.zeros(6)),
        "lengths disagree: 'observations' has 5 rows, 'actions' has 4, 'rewards' has 6; write one row",
    ),
    "episode lengths": (changed(episode_lengths=np.array([3, 3])), "'episode_lengths' adds up to 6 and .* has 5"),
    "empty episode": (changed(episode_lengths=np.array([5, 0])), "'episode_lengths' holds values that are not"),
    "NaN": (with_value("observations", 1, np.nan), "'observations' holds 2 NaN values in 1 row, the first in row 1"),
    "inf": (
        with_value("actions", 3, np.inf),
        "'actions' holds 1 inf value in 1 row, the first in row 3; .* --drop-bad-episodes",
    ),
    "too large": (with_value("rewards", 2, 1e300), "'rewards' holds 1 inf value in 1 row, the first in row 2"),
    "flat actions": (changed(actions=np.zeros(5)), r"'actions' has shape \(5,\) and type float64; store"),
    "masked box": (changed(action_masks=np.ones((5, 3))), "has 'action_masks' and continuous actions"),
    "flat masks": (
        changed(actions=np.arange(5), action_masks=np.ones(5)),
        r"'action_masks' has shape \(5,\); one flag per action",
    ),
    "mask of numbers": (
        changed(actions=np.arange(5), action_masks=np.full((5, 3), 2)),
        r"'action_masks' holds \[2 2 2\] in row 0; flags must be 0 or 1",
    ),
    "short masks": (changed(actions=np.arange(5), action_masks=np.ones((4, 3))), "'action_masks' has 4"),
    "flat observations": (changed(observations=np.zeros(5)), r"'observations' has shape \(5,\); one row per step"),
    "wide rewards": (changed(rewards=np.zeros((5, 2))), r"'rewards' has shape \(5, 2\); one number per row"),
    "other next": (
        changed(next_observations=np.zeros((5, 3))),
        r"'next_observations' is float32 \(5, 3\) and 'observations' is float32 \(5, 2\)",
    ),
    "strange flag": (with_value("terminals", 2, 7.0), "'terminals' holds 7.0 in row 2; flags must be 0 or 1"),
    "text": (changed(rewards=np.array(list("abcde"))), "'rewards' holds .*, not numbers"),
    "no rows": ({k: v[:0] for k, v in good().items()}, "'observations' has no rows"),
    "zero episodes": (
        recording([0, 0, 0], [0, 0, 0]),
        "holds no episode: none of its 3 rows ends one; set 'terminals' or 'timeouts'",
    ),
    "nothing usable": (recording([0, 0], [1, 1]), "holds no usable transition in 2 rows; store 'next_observations'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_columns(case: str, tmp_path: Path) -> None:
    arrays, message = BAD[case]
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=message) as raised:
        load(tmp_path / "bad.npz")
    text = str(raised.value)
    assert text.startswith(str(tmp_path / "bad.npz"))
    assert "\n" not in text
    assert raised.value.mend


@pytest.mark.parametrize("case", ["missing key", "lengths", "NaN", "zero episodes"])
def test_bad_columns_in_hdf5(case: str, tmp_path: Path) -> None:
    arrays, message = BAD[case]
    with h5py.File(tmp_path / "bad.hdf5", "w") as file:
        file.update(arrays)
    with pytest.raises(UserError, match=message):
        load(tmp_path / "bad.hdf5")


def test_no_such_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "hopper.npz", **good())  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"hoper.npz: no such file; did you mean '.*hopper.npz'"):
        load(tmp_path / "hoper.npz")
    with pytest.raises(UserError, match="no such file; check the path"):
        load(tmp_path / "nowhere" / "a.hdf5")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(UserError, match="is a folder that no format knows; known are npz"):
        load(tmp_path / "folder.npz")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "closed.npz", **good())  # type: ignore[arg-type]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="may not be read; change its permissions"):
        load(tmp_path / "closed.npz")


def test_unknown_suffix(tmp_path: Path) -> None:
    """The name says nothing; where the content says nothing either, it says whose error it is."""
    (tmp_path / "data.csv").write_text("nothing\n")
    with pytest.raises(UserError, match=r"does not begin with a line of column names"):
        load(tmp_path / "data.csv")
    (tmp_path / "data").write_text("nothing\n")
    with pytest.raises(UserError, match="is a file that no format knows"):
        load(tmp_path / "data")
    (tmp_path / "log.json").write_text('{"observations": [[0.5, 1.0]], "rewards": [0]}')
    with pytest.raises(UserError, match="is a file that no format knows"):  # commas and all, it is no table
        load(tmp_path / "log.json")
    np.savez(tmp_path / "good.npz", **good())  # type: ignore[arg-type]
    (tmp_path / "good.npz").rename(tmp_path / "good.hdf5")
    assert len(load(tmp_path / "good.hdf5")) == 4


def hdf5_of(arrays: Arrays, path: Path) -> bytes:
    with h5py.File(path, "w") as file:
        file.update(arrays)
    return path.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_files_cut_short(suffix: str, share: float, tmp_path: Path) -> None:
    path = tmp_path / f"cut{suffix}"
    arrays = {k: np.repeat(v, 200, axis=0) for k, v in good().items()}
    if suffix == ".npz":
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
        whole = path.read_bytes()
    else:
        whole = hdf5_of(arrays, path)
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UserError, match=r"is not a whole .*; copy or download it again"):
        load(path)


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_not_that_kind_of_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_text("this is no data file\n" * 100)
    with pytest.raises(UserError, match="is not a whole"):
        load(path)


def test_damage_inside_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    np.savez_compressed(path, **{k: np.repeat(v, 200, axis=0) for k, v in good().items()})  # type: ignore[arg-type]
    content = bytearray(path.read_bytes())
    content[80:160] = bytes(80)
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match="copy or download it again"):
        load(path)


class Trap:
    """Unpickling this would be seen."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Trap, "sprung", True)


@pytest.mark.parametrize("key", KNOWN)
def test_pickles_are_never_loaded(key: str, tmp_path: Path) -> None:
    without = {ALSO_CALLED[key]: None} if key in ALSO_CALLED else {}
    np.savez(tmp_path / "p.npz", **changed(**without, **{key: np.array([Trap()] * 5, object)}))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"'{key}' holds pickled Python objects, which are never loaded; save it"):
        load(tmp_path / "p.npz")
    assert not Trap.sprung


def test_pickles_in_other_keys_are_not_touched(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", **changed(infos=np.array([Trap()], object)))  # type: ignore[arg-type]
    assert len(load(tmp_path / "p.npz")) == 4
    assert not Trap.sprung


def test_groups_and_minari_insides(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "group.hdf5", "w") as file:
        file.update({k: v for k, v in good().items() if k != "actions"})
        file["actions/arm"] = np.zeros(5)
    with pytest.raises(UserError, match="'actions' is a group of arm; store"):
        load(tmp_path / "group.hdf5")
    with h5py.File(tmp_path / "main_data.hdf5", "w") as file:
        file["episode_0/rewards"] = np.zeros(5)
    with pytest.raises(UserError, match="inside of a Minari dataset; load it by its name"):
        load(tmp_path / "main_data.hdf5")


def test_inspect_lists_bad_values_instead_of_refusing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "nan.npz", **with_value("observations", 1, np.nan))  # type: ignore[arg-type]
    assert inspect(str(tmp_path / "nan.npz")) == 0
    shown = capsys.readouterr().out
    assert "'observations' holds 2 NaN values in 1 row, the first in row 1" in shown
    assert "Errors, which training refuses:" in shown
    assert "4 in 'observations'" not in shown
    with pytest.raises(UserError):
        inspect(str(tmp_path / "none.npz"))


def test_several_columns_of_bad_values_are_all_collected() -> None:
    arrays = with_value("observations", 1, np.nan)
    arrays["rewards"] = np.full(5, np.inf)
    found: list[UserError] = []
    from_d4rl_arrays(arrays, "made", on_problem=found.append)
    assert [problem.what.split()[0] for problem in found] == ["'observations'", "'rewards'"]
