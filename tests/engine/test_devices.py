"""Seeds on several devices: the numbers of one device to rounding, and runs that go from some to others.

What needs more than one device happens in a process of its own, which has eight parts of this machine's CPU as devices.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.sharding import PartitionSpec

from calql.engine.devices import SEED, devices_used, in_words, require_devices
from calql.runs.changes import elsewhere
from calql.system.errors import UserError

DEVICES = "--xla_force_host_platform_device_count=8"
HERE = Path(__file__).parent
CLOSE = 1e-5  # of rounding: the largest difference seen is 3e-7


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What on_devices.py found."""
    folder = tmp_path_factory.mktemp("devices")
    places = [*sys.path, str(HERE)]
    variables = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {DEVICES}", "PYTHONPATH": os.pathsep.join(places)}
    words = [sys.executable, str(HERE / "on_devices.py"), str(folder)]
    subprocess.run(words, env={**os.environ, **variables}, check=True, timeout=600)
    return json.loads((folder / "found.json").read_text())


def alike(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """The same but for rounding."""
    assert len(rows) == len(others) > 0
    for row, other in zip(rows, others, strict=True):
        assert row.keys() == other.keys()
        for name, value in other.items():
            expected = pytest.approx(value, rel=CLOSE, abs=CLOSE) if isinstance(value, float) else value
            assert row[name] == expected, name


@pytest.mark.slow
def test_eight_devices_come_to_the_numbers_of_one(found: dict[str, Any]) -> None:
    """Two arms of four seeds, offline and online, one of them on each device."""
    alike(found["eight"]["rows"], found["one"])
    assert {row["arm"] for row in found["one"]} == {"calibrate=true", "calibrate=false"}


@pytest.mark.slow
def test_seeds_stay_on_their_devices_and_logged_rows_are_on_all(found: dict[str, Any]) -> None:
    """Through updates, checks of health and insertions: anything else would travel between devices at every block."""
    expected = {name: [str(PartitionSpec(SEED))] for name in ("learning", "health", "replay")}
    assert found["eight"]["specs"] == expected | {"logged": [str(PartitionSpec())]}


@pytest.mark.slow
def test_a_run_goes_from_four_devices_to_two_to_eight(found: dict[str, Any]) -> None:
    """Killed on each of the first: what it comes to is what one device came to without a stop."""
    alike(found["moved"]["rows"], found["one"])
    assert [line["devices"] for line in found["moved"]["resumed"]] == [2, 8]
    assert [line["changed"]["devices"] for line in found["moved"]["resumed"]] == [[4, 2], [2, 8]]


@pytest.mark.slow
def test_updates_between_single_steps(found: dict[str, Any]) -> None:
    alike(found["step_two"], found["step_one"])


@pytest.mark.slow
def test_each_device_does_what_its_seeds_are_due_and_keeps_who_diverged(found: dict[str, Any]) -> None:
    alone, shared = found["uneven"]
    assert shared == alone == [[5, 0, 0, 2], [True, True, False, True], [-1, -1, 0, -1]]


@pytest.mark.slow
def test_growth_with_devices_gives_each_as_many_seeds(found: dict[str, Any]) -> None:
    assert found["growth"] == [["devices", 1, 1, 1], ["devices", 2, 2, 2]]  # axis, value, seeds, devices


@pytest.mark.parametrize(
    ("asked", "seeds", "there", "used"),
    [(1, 6, 8, 1), (0, 6, 8, 6), (4, 6, 8, 3), (8, 12, 8, 6), (8, 8, 2, 2), (0, 1, 8, 1), (0, 7, 4, 1), (3, 9, 8, 3)],
)
def test_as_many_devices_as_divide_the_seeds(asked: int, seeds: int, there: int, used: int) -> None:
    assert devices_used(asked, seeds, there) == used


def test_what_is_used_is_said_where_it_was_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_words(1, 6) is None
    assert in_words(0, 6) is None  # of one
    monkeypatch.setattr(jax, "local_device_count", lambda: 8)
    assert in_words(1, 6) is None
    assert in_words(3, 6) is None
    assert in_words(4, 6) == "3 devices, not 4: 2 of 6 seeds on each"
    assert in_words(0, 8) == "8 devices: 1 of 8 seeds on each"
    assert in_words(0, 7) == "7 devices, not 8: 1 of 7 seeds on each"
    assert in_words(5, 7) == "1 device, not 5: 7 of 7 seeds on each"
    monkeypatch.setattr(jax, "local_device_count", lambda: 2)
    assert in_words(4, 6) == "2 devices, of 2 that are there: 3 of 6 seeds on each"


def test_more_than_there_are_are_refused() -> None:
    require_devices(0)
    require_devices(1)
    with pytest.raises(UserError, match="--devices is 64, and 1 device is there; give at most 1, or 0 for all"):
        require_devices(64)


def test_a_run_that_goes_on_elsewhere_says_so() -> None:
    begun = {"cores": 16, "devices": 4}
    assert elsewhere(begun, begun) == ""
    assert elsewhere({}, begun) == ""  # of a version that did not write it down
    said = elsewhere(begun, {"cores": 16, "devices": 2})
    assert said == "the run was begun on 4 devices and goes on with 2: results may differ in their last digits"
