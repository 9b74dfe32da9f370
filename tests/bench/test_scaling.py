"""What `calql bench` says about more processes; the processes themselves are tested with the engine."""

from __future__ import annotations

import pytest

from calql.bench import scaling
from calql.engine.rollout import Stage
from calql.engine.workers import InProcess
from calql.tasks import get_task


def test_each_crew_plays_the_same_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    crews: dict[int, InProcess] = {}

    def crew(stage: Stage, count: int) -> InProcess:
        crews[count] = InProcess(stage)
        return crews[count]

    monkeypatch.setattr(scaling, "Workers", crew)
    monkeypatch.setattr(scaling, "LONGEST", 10)
    found = scaling.measure_scaling(get_task("antmaze-umaze"), workers=(1, 3), seconds=0.0)
    assert set(crews) == {1, 3}
    assert found["task"] == "antmaze-umaze"
    one, three = found["steps_per_s"]["1"], found["steps_per_s"]["3"]
    assert one > 0.0
    assert found["share_of_linear"] == pytest.approx(three / (3 * one))
    assert "6 episodes of at most 10 steps" in found["measured"]
