"""Work spread over processes, results in order: the outcome never depends on how many there are.

Workers are fresh interpreters that import the named function. They copy neither JAX threads (as a fork
would) nor the caller's script (as multiprocessing's spawn does, which breaks scripts without a main guard).
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar

from calql.system.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], jobs: Iterable[Item], processes: int
) -> Generator[Result, None, None]:
    """function(job) for each job, in order; at most two jobs per process are ahead of the reader."""
    if processes <= 1:
        yield from map(function, jobs)
        return
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    workers = [Worker() for _ in range(processes)]
    for worker in workers:
        idle.put(worker)

    def run(job: Item) -> Result:
        worker = idle.get()
        try:
            return worker.call(function, job)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(processes)
    pending: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            pending.append(threads.submit(run, job))
            if len(pending) >= 2 * processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        for worker in workers:
            worker.close()
        threads.shutdown(wait=True)


class Worker:
    """A Python process that answers (function, job) with its result."""

    def __init__(self) -> None:
        paths = [path for path in sys.path if path]
        single = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from calql.domains.common.parallel import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def call(self, function: Callable[[Any], Any], job: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((function, job), self._process.stdin, protocol=5)
            self._process.stdin.flush()
            failed, answer = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as problem:
            raise RuntimeError("a worker process ended before it answered (out of memory?)") from problem
        if failed:
            raise answer
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """The worker's side: answer until the other end closes. Prints of the job go to stderr."""
    requests: BinaryIO = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            function, job = pickle.load(requests)
            answer: tuple[bool, Any] = (False, function(job))
        except (EOFError, KeyboardInterrupt):
            return
        except UserError as problem:
            answer = (True, problem)
        except Exception as problem:
            answer = (True, RuntimeError(f"{type(problem).__name__} in a worker: {problem}"))
        try:
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
        except BrokenPipeError:  # the other end is gone
            os._exit(1)
