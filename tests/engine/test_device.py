"""The thread that gives the device its work: everything in order, and nothing after what failed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from calql.engine.device import Device, Later


@pytest.fixture
def device() -> Any:
    made = Device("l", "r")  # type: ignore[arg-type]  # what is held is never looked into
    yield made
    made.close()


def test_what_is_told_is_done_in_order_and_not_waited_for(device: Any) -> None:
    goes_on = threading.Event()

    def slow(learning: str, replay: str) -> tuple[str, str]:
        assert goes_on.wait(30.0)
        return learning + replay, "first"

    first = device.learn(slow)
    device.store(lambda replay: replay + "s")
    second = device.learn(lambda learning, replay: (learning + replay, "second"))
    assert not first.done()
    goes_on.set()
    assert device.learning == "lrrs"
    assert device.replay == "rs"
    assert (first.result(), Later(second).fetched) == ("first", "second")


def test_what_is_set_comes_after_what_was_told(device: Any) -> None:
    device.learn(lambda learning, _: ("changed", None))
    device.learning = "new"
    assert device.learning == "new"


def test_after_a_failure_everything_fails_for_its_reason(device: Any) -> None:
    def fails(learning: str, replay: str) -> tuple[str, None]:
        raise MemoryError("no room on the device")

    goes_on = threading.Event()
    device.store(lambda replay: replay if goes_on.wait(30.0) else "")
    failed = device.learn(fails)
    after = device.learn(lambda learning, _: (learning, "never"))
    goes_on.set()
    for told in (failed, after):
        with pytest.raises(MemoryError, match="no room"):
            told.result()
    with pytest.raises(MemoryError, match="no room"):
        device.store(lambda replay: replay)
    with pytest.raises(MemoryError, match="no room"):
        _ = device.learning
