"""Rollouts in worker processes, for environments whose steps cost more than a message between processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

import jax
import numpy as np

from calql.engine.rollout import Episode, Player, Request, Stage
from calql.errors import UserError
from calql.methods.base import Policy


class Rollouts(Protocol):
    """Plays episodes, wherever the environments live."""

    def play(self, policies: Policy, requests: Sequence[Request], *, explore: bool) -> list[Episode]: ...

    def close(self) -> None: ...


class Workers:
    """A player in each of several processes; episodes are dealt out whole, so one message pays for many steps.

    The workers run on the CPU whatever the main process runs on.
    """

    def __init__(self, stage: Stage, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes = []
        with _cpu_only():
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(stage, theirs), daemon=True)
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)

    def play(self, policies: Policy, requests: Sequence[Request], *, explore: bool) -> list[Episode]:
        count = len(self._connections)
        for index, connection in enumerate(self._connections):
            share = requests[index::count]
            if share:
                connection.send((policies, share, explore))
        episodes: list[Episode | None] = [None] * len(requests)
        failure: UserError | None = None
        for index, connection in enumerate(self._connections):
            if not requests[index::count]:
                continue
            answer = _receive(connection)
            if isinstance(answer, UserError):
                failure = answer
            else:
                episodes[index::count] = answer
        if failure is not None:
            raise failure
        return [episode for episode in episodes if episode is not None]

    def close(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.send(None)
                connection.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()


class InProcess:
    """A player in this process."""

    def __init__(self, stage: Stage) -> None:
        self._player = Player(stage)
        self._device = jax.local_devices(backend="cpu")[0]

    def play(self, policies: Policy, requests: Sequence[Request], *, explore: bool) -> list[Episode]:
        with jax.default_device(self._device):
            on_cpu = jax.device_put(policies, self._device)
            return self._player.play(on_cpu, requests, explore=explore)

    def close(self) -> None:
        self._player.close()


def make_rollouts(stage: Stage, workers: int) -> Rollouts:
    """In this process for 0 workers, else in that many processes."""
    return Workers(stage, workers) if workers else InProcess(stage)


def _serve(stage: Stage, connection: Connection) -> None:
    """A worker's life: play what is asked until told to stop or the main process is gone."""
    player = Player(stage)
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while (job := connection.recv()) is not None:
            policies, requests, explore = job
            try:
                connection.send(_play_share(player, policies, requests, explore))
            except UserError as error:
                connection.send(("error", error.what, error.where, error.mend))
    player.close()


def _play_share(player: Player, policies: Policy, requests: Sequence[Request], explore: bool) -> list[Episode]:
    """Play with only the policies asked for: a worker rarely serves all of them."""
    lanes = sorted({request.lane for request in requests})
    chosen = jax.tree.map(lambda leaf: np.asarray(leaf)[lanes], policies)
    local = [replace(request, lane=lanes.index(request.lane)) for request in requests]
    return player.play(chosen, local, explore=explore)


def _receive(connection: Connection) -> list[Episode] | UserError:
    try:
        answer: Any = connection.recv()
    except (EOFError, ConnectionError):
        return UserError("a worker process died", mend="it may have run out of memory: use fewer --workers")
    if isinstance(answer, tuple):
        _, what, where, mend = answer
        return UserError(what, where=where, mend=mend)
    return answer


@contextlib.contextmanager
def _cpu_only():  # type: ignore[no-untyped-def]
    """Processes started here see no accelerator and use one thread: the cores are shared among them."""
    settings = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
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
