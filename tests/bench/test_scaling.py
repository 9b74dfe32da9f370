"""What `calql bench` says about more processes; the processes themselves are tested with the engine."""

from __future__ import annotations

import pytest

from calql.bench import scaling
from calql.domains.registry import get_task
from calql.engine.rollout import RolloutSetup
from calql.engine.workers import InProcessPool


@pytest.mark.slow
def test_each_crew_plays_the_same_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: dict[int, InProcessPool] = {}

    def pool(setup: RolloutSetup, count: int) -> InProcessPool:
        pools[count] = InProcessPool(setup)
        return pools[count]

    monkeypatch.setattr(scaling, "ProcessPool", pool)
    monkeypatch.setattr(scaling, "LONGEST", 10)
    found = scaling.measure_scaling(get_task("antmaze-umaze"), workers=(1, 3), seconds=0.0)
    assert set(pools) == {1, 3}
    assert found["task"] == "antmaze-umaze"
    one, three = found["steps_per_s"]["1"], found["steps_per_s"]["3"]
    assert one > 0.0
    assert found["share_of_linear"] == pytest.approx(three / (3 * one))
    assert set(found["steps_per_processor_s"]) == {"1", "3"}
    assert min(found["steps_per_processor_s"].values()) > 0.0
    assert set(found["machine"]) == {"processor", "cores", "threads_per_core"}
    assert "2 episodes a process, of at most 10 steps" in found["measured"]


def test_processes_are_doubled_up_to_the_cores_there_are() -> None:
    assert scaling.doublings(1) == [1, 2]
    assert scaling.doublings(2) == [1, 2]
    assert scaling.doublings(16) == [1, 2, 4, 8, 16]
    assert scaling.doublings(12) == [1, 2, 4, 8, 12]
