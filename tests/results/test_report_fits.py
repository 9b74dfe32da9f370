"""What was fitted before a run began is told where its result is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_runs import make_run

from calql.results.report import write_report


@pytest.mark.slow
def test_the_report_says_how_good_the_reference_value_is(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    told = ["reference value (SARSA): 20 updates", "the reference value is not good: <it> is too high"]
    (folder / "config.json").write_text(json.dumps(config | {"fits": told}))
    page = write_report([folder]).read_text()
    assert "Reference value (SARSA): 20 updates." in page
    assert "The reference value is not good: &lt;it&gt; is too high." in page
