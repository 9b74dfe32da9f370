"""What `calql bench --soak` makes of its samples, and one run of a few seconds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from calql.bench import sampling, soak
from calql.bench.sampling import Sample, descendants, require_proc, sampled, take
from calql.bench.soak import Buffer, in_a_line, report, soak_options
from calql.bench.trend import slope_per_hour, summary, warm_from
from calql.cli import main
from calql.system.errors import UserError

TINY = ["--critic-widths", "8", "--policy-widths", "8", "--batch-size", "4", "--sampled-actions", "2"]
TIMES = [2.0 * index for index in range(300)]  # ten minutes
BUFFER = Buffer(row_bytes=1_000, rows=1_000, seeds=2)  # 2 MB


def sample(seconds: float, resident_mb: float = 600.0, **values: Any) -> Sample:
    usual = {"anonymous_mb": 400.0, "workers_mb": 0.0, "workers": 0, "shared_mb": 0.0}
    counts = {"open_files": 9, "threads": 20, "mappings": 1_000, "online": True}
    return Sample(seconds, resident_mb, **{**usual, **counts, **values})


# -- slopes -----------------------------------------------------------------------------------------------


def test_a_leak_is_found_to_its_rate() -> None:
    """60 MB an hour under noise of a few MB that repeats."""
    values = [600.0 + 60.0 * at / 3600.0 + math.sin(7.0 * at) for at in TIMES]
    slope, spread = slope_per_hour(TIMES, values)
    assert slope is not None
    assert spread is not None
    assert slope == pytest.approx(60.0, abs=3.0)
    assert 0.0 < spread < slope


def test_peaks_of_checkpoints_are_no_growth() -> None:
    """Every tenth sample falls into one, and they get higher: the largest shows them, the slope does not."""
    values = [600.0 + (at / 10.0 if index % 10 == 0 else 0.0) for index, at in enumerate(TIMES)]
    found = summary(TIMES, values, warm=0.0)
    assert (found["slope_per_hour"], found["spread_per_hour"]) == (0.0, 0.0)
    assert found["largest"] == 600.0 + 290 * 2.0 / 10.0


def test_one_step_has_a_spread_as_large_as_itself() -> None:
    """A step in the middle of ten minutes says little about an hour."""
    slope, spread = slope_per_hour(TIMES, [600.0 if at < 300.0 else 610.0 for at in TIMES])
    steady = slope_per_hour(TIMES, [600.0 + 10.0 * at / 600.0 for at in TIMES])
    assert slope is not None
    assert spread is not None
    assert spread > 0.25 * slope
    assert steady[1] == pytest.approx(0.0, abs=1e-6)


def test_what_came_before_the_warm_up_ended_does_not_count() -> None:
    values = [float(at) if at < 200.0 else 600.0 for at in TIMES]
    assert summary(TIMES, values, warm=200.0) == {
        "first": 600.0,
        "last": 600.0,
        "largest": 600.0,
        "slope_per_hour": 0.0,
        "spread_per_hour": 0.0,
    }
    assert summary(TIMES, values, warm=0.0)["slope_per_hour"] > 1_000.0


@pytest.mark.parametrize("count", [1, 2])
def test_few_samples_have_no_slope(count: int) -> None:
    assert slope_per_hour(TIMES[:count], [600.0] * count) == (None, None)
    assert summary(TIMES[:count], [600.0] * count, warm=0.0)["last"] == 600.0


def test_the_warm_up_is_a_third_of_the_time_from_the_switch_on() -> None:
    times = [0.0, 10.0, 20.0, 40.0, 80.0]
    assert warm_from(times, [False, False, True, True, True]) == 20.0 + 60.0 / 3
    assert warm_from(times, [False] * 5) == pytest.approx(80.0 / 3)


# -- the report -------------------------------------------------------------------------------------------


def test_a_buffer_that_fills_is_told_from_a_leak() -> None:
    """Both runs grow alike; only one of them has rows to show for it."""
    steps = [round(at) for at in TIMES]
    held = [600.0 + BUFFER.filled_mb(count) for count in steps]
    filling = report([sample(*at, env_steps=n) for *at, n in zip(TIMES, held, steps, strict=True)], BUFFER)
    leaking = report([sample(*at) for at in zip(TIMES, held, strict=True)], BUFFER)
    assert filling["resident_mb"] == leaking["resident_mb"]
    assert filling["resident_mb"]["slope_per_hour"] == pytest.approx(7.2, rel=0.01)  # 2,000 bytes a second
    assert filling["buffer_filled_mb"]["slope_per_hour"] == pytest.approx(7.2, rel=0.01)
    assert leaking["buffer_filled_mb"]["slope_per_hour"] == 0.0


def test_a_full_ring_takes_no_more() -> None:
    assert [BUFFER.filled_mb(steps) for steps in (0, 500, 1_000, 5_000)] == [0.0, 1.0, 2.0, 2.0]
    assert BUFFER.size_mb == 2.0


def test_files_threads_and_mappings_are_followed() -> None:
    found = report([sample(at, open_files=9 + int(at) // 100, workers=2, workers_mb=300.0) for at in TIMES], BUFFER)
    assert found["open_files"]["last"] == 14.0
    assert found["open_files"]["slope_per_hour"] > 20.0
    assert found["threads"]["slope_per_hour"] == 0.0
    line = in_a_line({**found, "task": "toy", "method": "bc"})
    assert "open files 11 to 14" in line
    assert "memory 600 to 600 MB (+0.0 ± 0.0 MB an hour), largest 600" in line
    assert "2 processes below it 300 to 300 MB" in line


def test_a_soak_goes_on_until_the_clock_ends_it_with_the_buffer_of_a_usual_run() -> None:
    found = soak_options("point-maze-narrow", "cal-ql", {"offline_updates": 7})
    assert found["online_steps"] > 1_000_000_000
    assert found["capacity"] == 5_000
    assert found["offline_updates"] == 7


# -- looking at processes ---------------------------------------------------------------------------------


def test_processes_below_this_one_are_seen_while_they_live() -> None:
    """One that starts another, which the system tells as a child of its own."""
    nested = f"import subprocess, sys; subprocess.run([{sys.executable!r}, '-c', 'print(1, flush=True); input()'])"
    process = subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # both are up
        found = descendants(os.getpid())
        looked = take(os.getpid(), 0.0)
        assert process.pid in found
        assert len(set(descendants(process.pid))) == 1
        assert set(descendants(process.pid)) < set(found)
        assert looked.workers >= 2
        assert looked.workers_mb > 2.0
    finally:
        process.communicate(b"\n")
    assert process.pid not in descendants(os.getpid())


def test_memory_and_files_that_are_taken_show(tmp_path: Path) -> None:
    before = take(os.getpid(), 0.0)
    held = bytearray(b"x") * 50_000_000
    with (tmp_path / "open").open("w"):
        after = take(os.getpid(), 1.0)
    assert after.resident_mb - before.resident_mb > 0.9 * len(held) / 1e6
    assert after.anonymous_mb - before.anonymous_mb > 0.9 * len(held) / 1e6
    assert after.open_files >= before.open_files + 1
    assert after.mappings > 100


def test_however_short_there_is_a_sample() -> None:
    """And nobody looks any more once it is over."""
    with sampled(sample, every_s=60.0) as samples:
        pass
    assert len(samples) == 1
    assert "calql-soak" not in [thread.name for thread in threading.enumerate()]


def test_a_system_that_does_not_tell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="soak on Linux"):
        require_proc(tmp_path)


# -- the command ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not sampling.PROC.exists(), reason="needs /proc")
def test_a_short_soak_of_a_real_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are taken, so the run is over before its time: an episode and its updates of one seed."""
    monkeypatch.setattr(soak, "EVERY_S", 0.05)
    engine = ["offline_updates=4", "online_steps=1", "evaluation_episodes=1", "block=2", "reference=none", "workers=0"]
    keep = ["--keep", str(tmp_path / "run")]
    words = ["bench", "--soak", "5", "--method", "cql", "--seeds", "4", "1", *TINY, *keep, "--set", *engine]
    assert main(words) == 0
    said = capsys.readouterr()
    (found,) = json.loads(said.out)["results"]
    assert found["options"]["seeds"] == 1
    assert found["env_steps"] >= 1
    assert found["buffer"]["row_bytes"] == 4 * (4 + 2 + 1 + 4 + 1 + 1)  # floats of a transition in the maze
    assert found["buffer_filled_mb"]["last"] == pytest.approx(found["env_steps"] * 52 / 1e6)
    assert found["resident_mb"]["largest"] >= found["resident_mb"]["last"] > found["anonymous_mb"]["last"] > 50.0
    assert "cql on point-maze-narrow: " in said.err
    kept = (tmp_path / "run" / soak.SOAKED).read_text().splitlines()
    assert len(kept) == found["samples"]


def test_a_soak_and_a_run_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--soak", "1", "--run", "1"]) != 0
    assert "exclude each other" in capsys.readouterr().err


def test_a_soak_of_no_length_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--soak", "-1"]) != 0
    assert "--soak is -1" in capsys.readouterr().err
