"""How many cores a process may use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from calql.system import cores as module


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, sys.maxsize),
        ({"cpu.max": "max 100000\n"}, sys.maxsize),
        ({"cpu.max": "1600000 100000\n"}, 16),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, sys.maxsize),
        ({"cpu/cpu.cfs_quota_us": "350000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_a_container_has_the_cores_it_is_given_the_time_of(files: dict[str, str], cores: int, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert module._quota(tmp_path) == cores
