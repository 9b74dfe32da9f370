"""Work over processes: order, errors, and scripts without a main guard."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest

from calql.domains.common.parallel import ordered_map
from calql.domains.common.policies import load_policy
from calql.system.errors import UserError


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order(processes: int) -> None:
    assert list(ordered_map(math.factorial, range(20), processes)) == [math.factorial(n) for n in range(20)]


def test_endless_jobs_stop_when_the_reader_does() -> None:
    results = ordered_map(math.sqrt, itertools.count(), 2)
    assert [next(results) for _ in range(3)] == [0.0, 1.0, math.sqrt(2)]
    results.close()


def test_errors_cross_over() -> None:
    with pytest.raises(RuntimeError, match="ValueError in a worker"):
        list(ordered_map(math.sqrt, [-1.0], 2))
    with pytest.raises(UserError, match="not a readable"):
        list(ordered_map(load_policy, ["nowhere.npz"], 2))


def test_a_script_without_a_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(
        "import math\nfrom calql.domains.common.parallel import ordered_map\n"
        "print('once')\nprint(list(ordered_map(math.sqrt, [4.0], 2)))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "once\n[2.0]\n"
