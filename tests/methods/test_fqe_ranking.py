"""The ranking check of docs/no-environment.md for discrete actions, shortened: values from logs against true ones."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "figures" / "fqe_ranking_choices.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("fqe_ranking_choices", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_truth_of_the_shortest_way_is_known_by_hand() -> None:
    """n steps to the goal are worth 0.9 ** (n - 1); of random moves alone, less everywhere, and never nothing."""
    known = script()
    best, worst = (known.truth(share, 0.9, masked=False) for share in (0.0, 1.0))
    for cell, value in best.items():
        assert value == pytest.approx(0.9 ** (known.FAR[cell] - 1))
        assert 0.0 < worst[cell] < value
    certain = known.truth(0.0, 1.0, masked=True)
    np.testing.assert_allclose(list(certain.values()), 1.0)


@pytest.mark.slow
def test_values_from_logs_rank_policies_as_the_truth_does() -> None:
    asked = argparse.Namespace(updates=600, most=0.9, logged=120, masked=True)
    found = script().measure(asked)
    assert found["rank_correlation"] > 0.9
    assert found["mean_error"] < 0.1
