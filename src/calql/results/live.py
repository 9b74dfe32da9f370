"""The live page beside a run: a process of its own, so that the run gives it no time and cannot be held up by it.

The run's process opens the port and makes the token, so that the address is known at once, and hands both on: the port
as an open socket, the token through a pipe, which no other user can read. The pipe then tells where the run folder is,
and by its end that the run has ended, however it ended.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from calql.results.serve import Server
from calql.results.watched import Watched
from calql.system import serve

CHILD = "from calql.results.live import child; child()"
NICE = 10  # the run goes first
LAST_WORD_S = 10.0  # a run that has let go writes its status within this time
GOODBYE_S = 5.0  # who looks when a run ends sees its end within this time
STEP_S = 0.25


class Live:
    """The page of one run, from before it begins until it has ended."""

    def __init__(self, port: int = 0) -> None:
        token = serve.new_token()
        with serve.listening(port) as listener:
            self.address = serve.address(listener, token)
            number = listener.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-c", CHILD, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(number,),
                start_new_session=True,  # Ctrl-C is for the run
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
        self._say({"token": token})

    def begun(self, folder: Path) -> None:
        """Where the run is."""
        self._say({"folder": str(folder.resolve())})

    def close(self) -> None:
        """The run has ended. Nobody waits for the page, which ends when who looks at it has seen that."""
        with suppress(OSError):
            self._pipe.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _say(self, words: dict[str, str]) -> None:
        with suppress(OSError):  # a page that is gone is no reason to stop a run
            self._pipe.write(json.dumps(words).encode() + b"\n")
            self._pipe.flush()


def child() -> None:
    """The process beside the run."""
    os.nice(NICE)
    listener = socket.socket(fileno=int(sys.argv[1]))
    token = json.loads(sys.stdin.readline())["token"]
    watched = Watched([])
    parent, over = os.getppid(), threading.Event()
    threading.Thread(target=_hear, args=(watched, over), daemon=True).start()
    attend(Server(listener, watched, token), lambda: over.is_set() or os.getppid() != parent)


def _hear(watched: Watched, over: threading.Event) -> None:
    for line in sys.stdin:
        watched.folders.append(Path(json.loads(line)["folder"]))
    over.set()


def attend(server: Server, over: Callable[[], bool]) -> None:
    """Serve until the runs are over, and then until who looks has seen their end."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": STEP_S}, daemon=True).start()
    try:
        _until(over)
        if server.looked_at and server.watched.folders:  # a run that never began has no end to show
            _until(lambda: server.watched.ended, LAST_WORD_S)
            _until(lambda: server.sent == server.watched.now().version, GOODBYE_S)
    finally:
        server.shutdown()
        server.server_close()


def _until(holds: Callable[[], bool], limit_s: float = float("inf")) -> None:
    end = time.monotonic() + limit_s
    while not holds() and time.monotonic() < end:
        time.sleep(STEP_S)
