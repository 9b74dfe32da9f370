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


@pytest.mark.parametrize(
    ("siblings", "threads"), [(("0", "1"), 1), (("0,8", "0,8"), 2), (("0-1", "0-1"), 2), ((), None)]
)
def test_processors_that_share_a_core_are_counted(
    siblings: tuple[str, ...], threads: int | None, tmp_path: Path
) -> None:
    for number, words in enumerate(siblings):
        (tmp_path / f"cpu{number}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{number}" / "topology" / "thread_siblings_list").write_text(f"{words}\n")
    assert module.threads_per_core(tmp_path) == threads


def test_a_machine_says_what_it_is_and_a_silent_one_nothing(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n")
    assert module.machine(tmp_path, tmp_path / "cpuinfo")["processor"] == "Some CPU @ 2 GHz"
    silent = module.machine(tmp_path, tmp_path / "none")
    assert (silent["processor"], silent["threads_per_core"]) == (None, None)
    assert silent["cores"] == module.available_cores()
