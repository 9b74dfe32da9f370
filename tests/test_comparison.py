"""The comparison of all methods: what it changes, that it goes on where it stopped, what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calql import comparison
from calql.errors import UserError
from calql.methods import METHODS
from calql.runs.stops import Stopped
from calql.training import Outcome


def test_every_method_has_an_expectation() -> None:
    assert set(comparison.EXPECTED) == set(METHODS)
    for low, high in (expected.after for expected in comparison.EXPECTED.values()):
        assert 0.0 <= low < high <= 1.0
        assert high - low < 1.0  # or it could not fail


@pytest.mark.parametrize("name", METHODS)
def test_sizes_are_cut_and_kinds_are_kept(name: str) -> None:
    changes = comparison.settings(name, comparison.TASK, 4, {})
    assert changes["online_steps"] <= 4_000
    assert changes["offline_updates"] <= 5_000
    assert changes["seeds"] == 4
    if name in ("sac", "sac-offline", "hybrid", "rlpd"):
        assert changes["offline_updates"] == 0
    if name == "bc":
        assert changes["online_steps"] == 0


def test_finished_methods_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(name: str, folder: Path, *_: Any) -> Outcome:
        ran.append(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "status.json").write_text(json.dumps({"finished": name != "iql" or len(ran) > 2, "reason": ""}))
        return Outcome(folder, name != "iql" or len(ran) > 2, "", "Ctrl-C")

    monkeypatch.setattr(comparison, "_train", run)
    monkeypatch.setattr(comparison, "write_report", lambda folders, out: out)
    monkeypatch.setattr(comparison, "_write_verdicts", lambda *_: None)
    with pytest.raises(Stopped, match="go on with the same command") as stopped:
        comparison.compare(tmp_path, ["bc", "iql"], tell=lambda _: None)
    assert stopped.value.code == 130
    assert comparison.compare(tmp_path, ["bc", "iql"], tell=lambda _: None) == tmp_path / "report.html"
    assert ran == ["bc", "iql", "iql"]


def test_an_unknown_method_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no method is called"):
        comparison.compare(tmp_path, ["cal-kl"], tell=lambda _: None)
