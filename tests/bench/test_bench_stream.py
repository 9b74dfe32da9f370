"""`calql bench --stream`: both sides are measured on the same data, and what a stream holds is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calql.bench import stream
from calql.bench.stream import Noise, Turn, in_turns, measure_stream, noise
from calql.bench.updates import Shapes
from calql.methods import method_entry


def test_noise_is_the_same_wherever_it_is_read() -> None:
    source = Noise((10, 4, 4, 3), np.dtype(np.uint8))
    whole = source.read(np.arange(10))
    np.testing.assert_array_equal(source.read(np.array([7, 2])), whole[[7, 2]])
    assert len(np.unique(whole.reshape(10, -1), axis=0)) == 10
    data = noise(Shapes(observation=3, action=2, transitions=40, episode=10), 0)
    assert (len(data), len(data.episode_ends)) == (40, 4)
    inside = np.flatnonzero(~data.truncated)
    np.testing.assert_array_equal(data.next_observations[inside], data.observations[inside + 1])


def test_rates_are_of_the_median_stretch() -> None:
    turns = [Turn(0.1, 0.3), Turn(0.5, 0.2), Turn(0.2, 0.1)]
    assert stream._rates(turns) == {"updates_per_s": pytest.approx(5.0), "cpu_ms_per_update": pytest.approx(200.0)}


def test_sides_take_turns() -> None:
    order: list[str] = []

    class Side:
        def __init__(self, name: str) -> None:
            self.name = name

        def like(self, other: Any) -> None: ...

        def turn(self) -> Turn:
            order.append(self.name)
            return Turn(0.1, 0.1)

    one, other = in_turns(Side("a"), Side("b"), 0.0)  # type: ignore[arg-type]
    assert (len(one), len(other)) == (stream.TURNS, stream.TURNS)
    assert order == ["a", "b"] * (stream.TURNS + 1)


@pytest.mark.slow
def test_both_sides_of_a_small_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    options = method_entry("bc").options(policy_widths=(8,), batch_size=4)
    shapes = Shapes(observation=3, action=2, transitions=40, episode=10)
    found = measure_stream("bc", options, shapes, seconds=0.01)
    assert found["observation"] == [3]
    assert found["transitions"] == 40
    assert found["ratio"] == found["streamed"]["updates_per_s"] / found["in_memory"]["updates_per_s"]
    assert found["streamed_alone"]["largest_resident_mb"] > found["streamed_alone"]["largest_anonymous_mb"] > 0
    monkeypatch.setattr(stream, "MOST", 0.0)
    assert measure_stream("bc", options, shapes, seconds=0.01)["in_memory"] is None
