"""Optional sinks get the rows of metrics.jsonl."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from calql.results import make_sinks
from calql.results.loggers import numbers
from calql.system.errors import UserError
from event_files import steps

ROW = {"seed": 1, "phase": "offline", "update": 5, "env_steps": 0, "switch": True, "score": 0.5, "regret": None}


def test_none_asked_for(tmp_path: Path) -> None:
    assert make_sinks(tmp_path, False, False, {}) == []


def test_only_numbers_are_logged() -> None:
    assert dict(numbers(ROW)) == {"update": 5.0, "env_steps": 0.0, "score": 0.5}


def test_tensorboard_writes_events_per_seed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    (sink,) = make_sinks(tmp_path, True, False, {})
    sink.write([ROW, ROW | {"seed": 2}])
    sink.close()
    assert steps(tmp_path, 1) == steps(tmp_path, 2) == [5]


def test_tensorboard_repeats_no_step_after_a_resume(tmp_path: Path) -> None:
    """A killed run had written step 9, which its checkpoint did not know: it is written again, once."""
    pytest.importorskip("tensorboardX")
    (killed,) = make_sinks(tmp_path, True, False, {})
    for update in (0, 5, 9):
        killed.write([ROW | {"update": update}])
    killed.close()
    (resumed,) = make_sinks(tmp_path, True, False, {})
    resumed.go_on_after([ROW | {"update": 0}, ROW | {"update": 5}])
    for update in (9, 12):
        resumed.write([ROW | {"update": update}])
    resumed.close()
    assert steps(tmp_path, 1) == [0, 5, 9, 12]


def test_wandb_gets_columns_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict] = []
    run = SimpleNamespace(log=seen.append, finish=lambda: seen.append({}))
    given: dict = {}
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: given.update(options) or run))
    (sink,) = make_sinks(tmp_path, False, True, {"seeds": (1, 2)})
    sink.write([ROW])
    sink.close()
    assert given["config"] == {"seeds": [1, 2]}
    assert seen == [{"seed-1/update": 5.0, "seed-1/env_steps": 0.0, "seed-1/score": 0.5}, {}]


@pytest.mark.parametrize(("module", "flags"), [("tensorboardX", (True, False)), ("wandb", (False, True))])
def test_missing_package_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, flags: tuple[bool, bool]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"pip install 'calql\["):
        make_sinks(tmp_path, *flags, {})
