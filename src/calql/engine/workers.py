"""Where episodes are played: in this process, or in worker processes beside the updates."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import queue
import signal
import sys
from collections.abc import Callable, Iterator, MutableSequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, TypeVar

import jax

from calql.engine.boundary import Beacon
from calql.engine.rollout import RolloutSetup, RolloutWorker
from calql.engine.stop import PATIENCE_S, Halted, Never
from calql.networks.copies import pickled
from calql.system.errors import UserError

Result = TypeVar("Result")
Job = Callable[[RolloutWorker], Result]  # picklable

PR_SET_PDEATHSIG = 1  # of prctl
GRACE_S = 5.0  # for a worker to notice by itself, and say so, that its environment does not come back
BEHIND = 10  # niceness of evaluation: it takes the time that collection leaves


class Pool(Protocol):
    """Takes jobs and plays them, wherever the environments live. Results do not depend on where or when."""

    def submit(self, job: Job[Result]) -> Future[Result]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class _WorkerProcess:
    """A process with a worker, the pipe to it, and where it stands."""

    process: SpawnProcess
    connection: Connection
    beacon: Beacon

    def require_in_time(self, step_timeout: float) -> None:
        """End a worker whose environment does not come back, nor lets the worker itself notice."""
        waiting = self.beacon.waiting
        if waiting is not None and waiting.too_long(step_timeout, GRACE_S):
            self.process.kill()
            raise waiting.late(step_timeout)

    def died(self) -> UserError:
        waiting = self.beacon.waiting
        self.process.join(1.0)
        return UserError(
            f"a worker process died (exit code {self.process.exitcode})",
            where="" if waiting is None else waiting.where,
            mend="the run is kept. The environment may have ended it, or memory ran out: use fewer --workers; in a "
            "script of your own, call calql.train under if __name__ == '__main__'",
        )


class ProcessPool:
    """A worker in each of several processes; whoever is free takes the next job.

    A job is one or more whole episodes, so one message pays for many steps. The workers run on the CPU
    whatever the main process runs on. A thread here waits for each, and none needs to be asked twice.
    """

    def __init__(self, setup: RolloutSetup, count: int, niceness: int = 0) -> None:
        context = multiprocessing.get_context("spawn")
        self._setup = setup
        self._workers: list[_WorkerProcess] = []
        self._free: queue.SimpleQueue[_WorkerProcess] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="calql-worker")
        with _cpu_only():
            for _ in range(count):
                ours, theirs = context.Pipe()
                cells = context.RawArray("d", Beacon.SIZE)
                process = context.Process(target=_serve, args=(setup, theirs, cells, niceness), daemon=True)
                process.start()
                theirs.close()
                self._workers.append(_WorkerProcess(process, ours, Beacon(cells)))
                self._free.put(self._workers[-1])

    def submit(self, job: Job[Result]) -> Future[Result]:
        return self._threads.submit(self._ask, job)

    def _ask(self, job: Job[Result]) -> Result:
        worker = self._free.get()
        try:
            worker.connection.send_bytes(pickled(job))
            while not worker.connection.poll(PATIENCE_S):
                worker.require_in_time(self._setup.step_timeout)
            answer: Any = worker.connection.recv()
        except (EOFError, OSError) as error:
            raise worker.died() from error
        finally:
            self._free.put(worker)
        if isinstance(answer, _Failure):
            raise answer.kind(answer.what, where=answer.where, mend=answer.mend)
        result: Result = answer
        return result

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.process.kill()  # between steps or in one: nothing of theirs outlives them
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()


class InProcessPool:
    """A worker in this process: a job is played as soon as it is submitted.

    One that is broken off because the run stops stays unfinished, like one that a worker is still playing.
    """

    def __init__(self, setup: RolloutSetup, asked: Callable[[], bool] = Never().asked) -> None:
        self._worker = RolloutWorker(setup, asked)
        self._device = jax.local_devices(backend="cpu")[0]

    def submit(self, job: Job[Result]) -> Future[Result]:
        future: Future[Result] = Future()
        with jax.default_device(self._device), contextlib.suppress(Halted):
            future.set_result(job(self._worker))
        return future

    def close(self) -> None:
        self._worker.close()


class Pools:
    """Those who collect and those who evaluate; each starts on its first job.

    In processes, the two are apart: an evaluation is long, and collection must not wait for it.
    """

    def __init__(
        self, setup: RolloutSetup, workers: int, at_once: int, asked: Callable[[], bool] = Never().asked
    ) -> None:
        self._setup, self._workers, self._asked = setup, workers, asked
        self._collectors = min(workers, at_once)  # `at_once`: the most episodes collected at a time

    @cached_property
    def _here(self) -> InProcessPool:
        return InProcessPool(self._setup, self._asked)

    @cached_property
    def collectors(self) -> Pool:
        return ProcessPool(self._setup, self._collectors) if self._workers else self._here

    @cached_property
    def evaluators(self) -> Pool:
        return ProcessPool(self._setup, self._workers, BEHIND) if self._workers else self._here

    def close(self) -> None:
        for name in ("collectors", "evaluators", "_here"):
            if name in vars(self):
                vars(self).pop(name).close()


@dataclass(frozen=True)
class _Failure:
    """A UserError as it travels between processes."""

    kind: type[UserError]
    what: str
    where: str
    mend: str


def _serve(setup: RolloutSetup, connection: Connection, cells: MutableSequence[float], niceness: int) -> None:
    """A worker's life: play what is asked until the main process is gone, which alone heeds signals."""
    _die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(niceness)
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # who acts waits for the action; no variable says this
    worker = RolloutWorker(setup, beacon=Beacon(cells))
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            job: Job[Any] = connection.recv()
            try:
                connection.send(job(worker))
            except UserError as error:
                connection.send(_Failure(type(error), error.what, error.where, error.mend))


def _die_with_parent() -> None:
    """Even within a step that never ends; where the system offers it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def _cpu_only() -> Iterator[None]:
    """Processes started here see no accelerator and use one thread: the cores are shared among them.

    JAX makes a pool of NPROC threads, else one for every core of the machine, and hands even small products to it:
    with one thread a 512-512 policy acts three times as fast on two cores, and many processes do not crowd the rest.
    """
    one_thread = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    settings = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {one_thread}",
        "NPROC": "1",
        "OMP_NUM_THREADS": "1",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
