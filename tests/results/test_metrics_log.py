"""Rows on disk: what is written comes back, whatever a kill leaves behind."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calql.results import MetricsLog, read_rows
from calql.system.errors import UserError

values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
rows = st.lists(st.dictionaries(st.text(min_size=1, max_size=8), values, max_size=5), max_size=6)


@given(rows=rows, cut=st.integers(0, 200), keep=st.integers(0, 6))
def test_round_trip_survives_any_cut(tmp_path_factory: pytest.TempPathFactory, rows: list, cut: int, keep: int) -> None:
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    log = MetricsLog(path)
    log.append(rows)
    assert read_rows(path) == rows
    content = path.read_bytes()
    path.write_bytes(content[: max(len(content) - cut, 0)])
    left = read_rows(path)
    assert left == rows[: len(left)]  # a kill takes whole rows from the end, and never makes one up
    keep = min(keep, len(left))
    log.truncate(keep)
    log.append(rows[keep:])
    assert path.read_bytes() == content


def test_numpy_and_what_is_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    row = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": math.nan,
        "d": math.inf,
        "e": np.array(2.0),
        "f": np.bool_(True),
    }
    MetricsLog(path).append([row])
    assert json.loads(path.read_text()) == {"a": 0.5, "b": 3, "c": None, "d": None, "e": 2.0, "f": True}


def test_append_drops_a_torn_line_first(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n{"a": 2')
    MetricsLog(path).append([{"a": 3}])
    assert path.read_text() == '{"a": 1}\n{"a": 3}\n'


def test_truncate_leaves_no_other_file_and_refuses_to_invent_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    log.append([{"a": 1}, {"a": 2}])
    log.truncate(1)
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.jsonl"]
    with pytest.raises(UserError, match="1 rows are there, but the checkpoint was made after 2"):
        log.truncate(2)


def test_a_line_broken_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\noops\n{"a": 2}\n')
    with pytest.raises(UserError, match="line 2"):
        read_rows(path)


def test_no_file_is_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "metrics.jsonl") == []
