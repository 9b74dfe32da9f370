"""The arrays of a run on the device, and the one thread that gives the device its work, in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, Generic, TypeVar

import jax

from calql.engine.program import Learning
from calql.engine.replay import Replay
from calql.methods.base import Policy

Result = TypeVar("Result")


class Later(Generic[Result]):
    """Arrays that the device will have; of several by name, those of one name."""

    def __init__(self, told: Future[Result] | Future[dict[Any, Result]], name: Any = None) -> None:
        self._told, self._name = told, name

    @cached_property
    def fetched(self) -> Any:
        """On the host, once they are made."""
        told: Any = self._told.result()
        return jax.device_get(told if self._name is None else told[self._name])


Policies = Mapping[int, Later[Policy]]  # of some seeds, by index


def at_hand(arrays: Result) -> Later[Result]:
    """Arrays that are there already."""
    told: Future[Result] = Future()
    told.set_result(arrays)
    return Later(told)


class Device:
    """What updates change and draw from. The run tells what comes next and goes on; nothing overtakes anything.

    A GPU holds up who gives it a loop of a length that is decided at run time, until the loop is over. Here that is a
    thread of its own, so the next block can be prepared meanwhile and is there when the last one ends.
    """

    def __init__(self, learning: Learning, replay: Replay) -> None:
        self._learning, self._replay = learning, replay
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="calql-giver")
        self._error: BaseException | None = None

    def learn(self, change: Callable[[Learning, Replay], tuple[Learning, Result]]) -> Future[Result]:
        """Change what is learned; gives what else comes of it."""

        def work() -> Result:
            self._learning, result = change(self._learning, self._replay)
            return result

        return self._tell(work)

    def store(self, change: Callable[[Replay], Replay]) -> None:
        """Change what was collected."""

        def work() -> None:
            self._replay = change(self._replay)

        self._tell(work)

    def arrival(self) -> Future[float]:
        """When everything that was told has been given to the device."""
        return self._tell(time.monotonic)

    @property
    def learning(self) -> Learning:
        """After everything that was told."""
        self.arrival().result()
        return self._learning

    @learning.setter
    def learning(self, learning: Learning) -> None:
        self.learn(lambda _, __: (learning, None)).result()

    @property
    def replay(self) -> Replay:
        """After everything that was told."""
        self.arrival().result()
        return self._replay

    @replay.setter
    def replay(self, replay: Replay) -> None:
        self.store(lambda _: replay)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _tell(self, work: Callable[[], Result]) -> Future[Result]:
        if self._error is not None:
            raise self._error
        return self._thread.submit(self._do, work)

    def _do(self, work: Callable[[], Result]) -> Result:
        """What follows something that failed fails for the same reason."""
        if self._error is not None:
            raise self._error
        try:
            return work()
        except BaseException as error:
            self._error = error
            raise
