"""Logged rows that are streamed to the device: the same batches, the same results to the byte, wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_task as toy
from test_run import TINY, stop_after

import calql
import corridor
from calql.data import Dataset, load, write
from calql.data.rewards import RewardRule
from calql.engine import mixing, placement, stream
from calql.engine.inputs import prepare
from calql.engine.options import RunOptions
from calql.engine.program import Learning, Program, UpdateInputs
from calql.engine.replay import Replay
from calql.engine.stream import Stream
from calql.methods.base import Transitions
from calql.methods.reference import Fit, batches, fit_reference, over_episodes
from calql.methods.reference.fqe import fit_policies
from calql.runs.life import Watching, resume

KEYS = jnp.stack([jax.random.key(seed) for seed in range(2)])
ROWS, SHAPE = 50, (2, 6)


def numbered() -> Transitions:
    """Rows that say which they are."""
    index = np.arange(ROWS, dtype=np.float32)
    return Transitions(index[:, None], index[:, None], index, index[:, None], index, index)  # type: ignore[arg-type]


def drawn(seed: int, update: int, start: int = 0) -> np.ndarray:
    """The rows of an update by the program's own rule."""
    key = jax.random.split(jax.random.split(jax.random.fold_in(KEYS[seed], update))[0])[0]
    return np.asarray(jax.random.randint(key, SHAPE, start, ROWS))


def pieces(streamed: Stream, done: list[int], calls: list[int], first: Any = (0, 0), share: Any = (6, 6), **more: Any):
    numbers = [np.array(values) for values in (done, calls, first, share)]
    yield from streamed.pieces(*numbers, more.get("loop"))


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(stream, "LONGEST", 3)
    made = Stream(numbered(), SHAPE, KEYS)
    yield made
    made.close()


def test_windows_hold_what_updates_draw(streamed: Stream) -> None:
    """Of seeds that are at different updates, and go on from there in parts of any length."""
    at = [0, 4]
    for calls in ([2, 7], [0, 1], [5, 3]):
        for due, window, _ in pieces(streamed, at, calls):
            for seed in np.flatnonzero(due).tolist():
                for update in range(at[seed], at[seed] + int(due[seed])):
                    slot = update - int(window.first[seed])
                    np.testing.assert_array_equal(window.rows.rewards[seed, slot], drawn(seed, update))
            at = [int(a + d) for a, d in zip(at, due, strict=True)]
    assert at == [7, 15]


def test_rows_of_the_buffer_are_not_read(streamed: Stream) -> None:
    due, window, _ = next(pieces(streamed, [0, 0], [1, 1], share=(6, 2)))
    assert due.tolist() == [1, 1]
    np.testing.assert_array_equal(window.rows.rewards[1, 0, :, :2], drawn(1, 0)[:, :2])
    assert not np.asarray(window.rows.rewards[1, :, :, 2:]).any()
    _, later, _ = next(pieces(streamed, [1, 1], [1, 1], share=(6, 6)))  # what was not read is read now
    np.testing.assert_array_equal(later.rows.rewards[1, 1 - int(later.first[1])], drawn(1, 1))


def test_logged_rows_that_were_pushed_out_are_not_drawn(streamed: Stream) -> None:
    list(pieces(streamed, [0, 0], [1, 1]))
    _, window, _ = next(pieces(streamed, [1, 1], [1, 1], first=(40, 40)))
    np.testing.assert_array_equal(window.rows.rewards[0, 0], drawn(0, 1, start=40))
    assert np.asarray(window.rows.rewards).min() >= 40


def test_loops_of_one_length_are_no_longer_than_a_window(streamed: Stream) -> None:
    found = list(pieces(streamed, [0, 0], [7, 7], loop=5))
    assert [due.tolist() for due, _, _ in found] == [[3, 3], [3, 3], [1, 1]]
    assert {loop for _, _, loop in found} == {3}


def test_the_device_is_given_no_more_than_it_can_hold(streamed: Stream) -> None:
    """Of windows that it has not done yet, there is one beside the one that it is given."""
    waited: list[int] = []

    class Mark:
        def __init__(self, number: int) -> None:
            self.number = number

        def block_until_ready(self) -> None:
            waited.append(self.number)

    for number, _ in enumerate(pieces(streamed, [0, 0], [12, 12])):
        streamed.used(Mark(number))  # type: ignore[arg-type]
    assert waited == [0, 1]


def test_windows_keep_to_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    row = 6 * 4  # numbers of one row
    monkeypatch.setattr(stream, "ROOM", 2 * 12 * row * 5)
    assert stream.window_length(numbered(), SHAPE, seeds=2) == 5
    monkeypatch.setattr(stream, "ROOM", 1)
    assert stream.window_length(numbered(), SHAPE, seeds=2) == 1


# -- whole programs ---------------------------------------------------------------------------------------


def trained(method: Any, logged: Transitions | Stream, like: Transitions, blocks: list[list[int]]) -> Learning:
    """Two seeds, one of which has half of its batches from its buffer."""
    program, rows = Program(method), 5
    one = Replay(jax.tree.map(lambda column: column[:rows], like), jnp.asarray(rows, jnp.int32))
    replay = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 2, axis=0), one)
    learning = program.fresh(program.start(KEYS, toy.spec()), jnp.zeros(2, jnp.int32), like)
    share = np.array([method.batch_size, method.batch_size // 2], np.int32)
    returns = np.tile(np.array([-100.0, 100.0], np.float32), (2, 1)) if method.bounds_targets else None
    done = np.zeros(2, np.int32)
    for calls in blocks:
        stands = (done * method.minibatches, done)
        given = UpdateInputs((logged, replay), KEYS, share, np.zeros(2, np.int32), returns, stands)
        learning = program.looped(learning, given, np.array(calls), loop=None)
        done = done + np.array(calls, np.int32)
    return learning


@pytest.mark.slow
@pytest.mark.parametrize("name", ["odt"])  # stretches of episodes, and columns of its own
def test_a_streamed_program_is_the_same_to_the_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST", 3)
    method = toy.tiny(name)
    resident = toy.logged(method)
    source = Stream(jax.tree.map(np.asarray, resident), mixing.batch_shape(method), KEYS)
    whole = trained(method, resident, resident, [[5, 5]])
    toy.same(trained(method, source, resident, [[1, 4], [3, 0], [1, 1]]), whole)
    source.close()


@pytest.mark.slow
def test_a_run_on_data_on_disk_is_the_run_in_memory_also_when_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte: offline, switch and online, taken up wherever it was stopped, once with its data in memory."""
    monkeypatch.setattr(stream, "LONGEST", 5)
    write(corridor.demonstrations(), tmp_path / "walks.columns")
    own: dict[str, Any] = {"dataset": tmp_path / "walks.columns", "env": "corridor:Corridor-v0", **TINY}
    whole = calql.train(out=tmp_path / "whole", stream="off", **own)
    stop_after(monkeypatch, lambda: 4)
    cut = calql.train(out=tmp_path / "cut", stream="on", **own)
    stops = 0
    while not cut.finished:
        cut = resume(tmp_path / "cut", Watching(), stream="off" if stops == 1 else "on")
        stops += 1
    assert stops >= 3
    assert (tmp_path / "cut" / "metrics.jsonl").read_bytes() == (whole.folder / "metrics.jsonl").read_bytes()
    for name in ("calibration-switch.npz", "calibration-end.npz"):
        np.testing.assert_array_equal(np.load(whole.folder / name)["q"], np.load(cut.folder / name)["q"])


def test_policies_are_valued_to_the_same_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = corridor.demonstrations()
    monkeypatch.setattr(batches, "ROOM", 2**16)
    after = np.stack([np.full((len(data), 1), value, np.float32) for value in (0.5, -0.5)])
    both = []
    for each, streams in ((data, False), (places(data, tmp_path), True)):
        fit = Fit(each, RewardRule(), 0.9, updates=20, widths=(8,), stream=streams)
        both.append(fit_policies(fit, after)(each.observations[:9], after[:, :9]))
    np.testing.assert_array_equal(*both)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sarsa", "regression"])
def test_a_reference_value_is_fitted_to_the_same_from_disk(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = corridor.demonstrations()
    write(data, tmp_path / "walks.columns")
    monkeypatch.setattr(batches, "ROOM", 2**16)  # several blocks
    both = []
    for each, streams in ((data, False), (load(tmp_path / "walks.columns"), True)):
        fit = Fit(each, RewardRule(), 0.9, updates=30, widths=(8,), stream=streams)
        both.append(over_episodes(fit_reference(name, fit), fit))
    np.testing.assert_array_equal(*both)


# -- where rows are -------------------------------------------------------------------------------------------


def places(data: Dataset, folder: Path) -> Dataset:
    write(data, folder / "walks.columns")
    return load(folder / "walks.columns")


def test_rows_are_streamed_where_they_would_take_much_of_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, auto = places(corridor.demonstrations(), tmp_path), RunOptions()
    size = placement.logged_bytes(data)
    assert size == len(data) * (2 * 8 + 4)
    same, told = placement.placed(data, auto)
    assert (same.stored, told) == (False, [])
    monkeypatch.setattr(placement, "device_memory", lambda: 2 * size)
    same, told = placement.placed(data, auto)
    assert same.stored
    assert len(told) == 1
    assert "stay on disk and are streamed" in told[0]
    assert placement.placed(data, RunOptions(stream="off"))[0].stored is False
    assert placement.placed(data, RunOptions(stream="on")) == (data, [])
    in_memory = data.in_memory()
    assert "in the host's memory" in placement.placed(in_memory, auto)[1][0]


def test_streamed_columns_stay_where_they_are(tmp_path: Path) -> None:
    data = places(corridor.demonstrations(), tmp_path)
    inputs = prepare(toy.tiny("cal-ql"), "monte-carlo", Fit(data, RewardRule(), 0.99, stream=True))
    assert inputs.streamed
    assert inputs.logged.observations is data.observations
    resident = prepare(toy.tiny("cal-ql"), "monte-carlo", Fit(data.in_memory(), RewardRule(), 0.99)).logged
    for name, column in inputs.logged._asdict().items():
        if column is not None:
            np.testing.assert_array_equal(np.asarray(column), np.asarray(getattr(resident, name)))
            assert column.dtype == getattr(resident, name).dtype
