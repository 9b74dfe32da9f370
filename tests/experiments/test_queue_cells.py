"""results/cells.py: cells started beside each other, and their rows packed."""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_cells_run_apart_and_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("cells", ROOT / "results" / "cells.py")
    assert spec is not None
    assert spec.loader is not None
    cells = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cells)
    monkeypatch.setattr(cells, "CALQL", "echo")  # says what it would do, and ends
    (tmp_path / "begun" / "checkpoints").mkdir(parents=True)
    (tmp_path / "begun" / "checkpoints" / "0.npz").touch()
    (tmp_path / "begun" / "metrics.jsonl").write_text('{"seed": 0, "phase": "online", "env_steps": 70, "score": 0.5}\n')
    cells.start(tmp_path, ["fresh --online-steps 7", "begun --online-steps 7"])
    cells.watch(tmp_path, 30.0, tmp_path / "packed")
    said = capsys.readouterr().out
    assert "== fresh: ended" in said
    assert f"train --task fresh {cells.BOTH} --online-steps 7 --out {tmp_path / 'fresh'}" in said
    assert f"train --resume {tmp_path / 'begun'}\n" in said
    assert "'env_steps': 70" in said
    with tarfile.open(tmp_path / "packed" / "begun.tgz") as packed:
        assert packed.getnames() == ["begun/metrics.jsonl", "begun.log"]
