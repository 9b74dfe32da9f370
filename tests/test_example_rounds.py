"""The example of rounds runs as it is, in small."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[1] / "examples" / "rounds.py"


def test_three_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.spec_from_file_location("example_rounds", EXAMPLE)
    assert found is not None
    assert found.loader is not None
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    tiny = {"offline_updates": 8, "evaluation_episodes": 1, "policy_widths": (8,), "critic_widths": (8,)}
    monkeypatch.setattr(example, "SMALL", {**example.SMALL, **tiny, "batch_size": 8})
    project = example.main(tmp_path, episodes=2)
    assert [(each.number, each.parent, each.episodes, len(each.returns)) for each in project.rounds] == [
        (0, None, 0, 2),
        (1, 0, 2, 2),
        (2, 1, 2, 2),
    ]
    assert (project.folder / "report.html").exists()
    assert "mean" in capsys.readouterr().out
