"""Logs alone whose actions are discrete, some of them with masks: every kind of method, from a file to a policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_logs_alone import OPTIONS

import calql
from calql.data import Dataset, write_npz
from calql.domains.own.logs import choices
from calql.results import logs_tables, read_rows, read_runs
from calql.results.logs_alone import best
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

LENGTH = 6


def walk(episodes: int = 12, first: int = 0, *, masked: bool = True) -> Dataset:
    """A line of cells: back, stay or forth, counted from `first`; the last cell ends it with reward 1. At the first
    cell nobody can go back, and masks say so."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(episodes):
        cell = 0
        while cell < LENGTH:
            choice = int(rng.choice([1, 2] if cell == 0 else [0, 1, 2], p=[0.3, 0.7] if cell == 0 else [0.1, 0.2, 0.7]))
            after = cell + choice - 1
            rows.append((cell, choice + first, float(after == LENGTH), after, after == LENGTH))
            cell = after
    cell, choice, reward, following, ends = (np.array(column) for column in zip(*rows, strict=True))
    allowed: Any = np.stack([[where > 0, True, True] for where in np.append(cell, following)])
    masks = {"action_masks": allowed[: len(cell)], "next_action_masks": allowed[len(cell) :]} if masked else {}
    seen, after = (np.stack([at / LENGTH, np.ones(len(at))], axis=1).astype(np.float32) for at in (cell, following))
    return Dataset(
        seen, choice, reward.astype(np.float32), after, ends.astype(bool), np.zeros(len(ends), bool), **masks
    )


def options(method: str) -> dict[str, Any]:
    """Those that the method has."""
    unknown = {"sampled_actions", "backup_actions"} | {"dqn": {"policy_widths"}, "bc": {"critic_widths"}}.get(
        method, set()
    )
    return {name: value for name, value in OPTIONS.items() if name not in unknown} | {"seeds": 1, "method": method}


@pytest.mark.parametrize("method", ["cal-ql", "iql", "bc", "dqn"])  # one of each class of discrete learners
def test_every_discrete_learner_is_valued_from_its_logs(method: str, tmp_path: Path) -> None:
    write_npz(walk(), tmp_path / "walk.npz")
    folder = calql.train(dataset=tmp_path / "walk.npz", offline=True, out=tmp_path / "run", **options(method)).folder
    for row in read_rows(folder / "metrics.jsonl"):
        assert row["fqe_low"] <= row["fqe_value"] <= row["fqe_high"]
        assert 0.0 <= row["held_out_agreement"] <= 1.0
        assert (row["held_out_likelihood"] is None) == (method == "dqn")
        assert (row["average_q"] is None) == (method == "bc")
        assert "action_distance" not in row
    (run,) = read_runs(folder)
    headings = [cell.text for cell in logs_tables.results(["mine"], [run], [0]).grid.heads]
    assert headings[4:6] == (["agrees", "Q"] if method == "dqn" else ["agrees", "log p"])
    policy = calql.load_policy(folder, seed=best(run.rows))
    assert policy(np.array([0.0, 1.0], np.float32), mask=np.array([0, 1, 0])) == 1
    known = json.loads((folder / "config.json").read_text())["environment"]["action"]
    assert known == {"choices": 3, "start": 0}  # as wide as the masks are


def test_choices_are_as_far_as_masks_or_data_reach_unless_given() -> None:
    space, notes = choices(walk(first=4, masked=False), (), ())
    assert (int(space.start), int(space.n)) == (4, 3)
    assert "choices are taken from the data: 4 to 6" in notes[0]
    space, notes = choices(walk(first=4, masked=False), (3.0,), (9.0,))
    assert (int(space.start), int(space.n), notes) == (3, 7, [])
    space, notes = choices(walk(first=1), (1.0,), ())
    assert (int(space.start), int(space.n), notes) == (1, 3, [])
    with pytest.raises(UserError, match="logged actions go from 1 to 3, and choices from 0 to 2; give the first"):
        choices(walk(first=1), (), ())
    with pytest.raises(UserError, match="of discrete actions it is one whole number"):
        choices(walk(), (0.5,), ())


def test_the_size_of_a_run_says_nothing_of_samples(tmp_path: Path) -> None:
    """What was made smaller for the machine is not told as if the user had set it."""
    from calql.runs import preparation, request

    choice = request.Choice(dataset=str(tmp_path / "walk.npz"), offline=True)
    write_npz(walk(), tmp_path / "walk.npz")
    task, data, notes = request.resolve_task(choice)
    found = request.resolve(choice, task, {})
    prepared = preparation.prepare(choice, task, data, found.run, found.options, notes)
    assert not any("change nothing" in note for note in prepared.notes)
