"""The page of runs that go on, for the browser on this machine."""

from __future__ import annotations

import socket
import time

from calql.results.watched import Watched
from calql.system.serve import Answer, PageServer

LOOKING_S = 12.0  # who asked so recently looks: a page in the background asks every ten seconds
NOW = "now"  # the part of the page that changes


class Server(PageServer):
    """The page as it is when it is asked for; knows whether anybody looks, and what they saw last."""

    def __init__(self, listener: socket.socket, watched: Watched, token: str) -> None:
        super().__init__(listener, token, self._now)
        self.watched = watched
        self.asked_at = -LOOKING_S  # in time.monotonic()
        self.sent = ""  # the version that was sent last

    @property
    def looked_at(self) -> bool:
        return time.monotonic() - self.asked_at < LOOKING_S

    def has_sent(self, version: str) -> None:
        self.sent = version

    def _now(self, what: str) -> Answer | None:
        if what not in ("", NOW):
            return None
        self.asked_at = time.monotonic()
        page = self.watched.now()
        return Answer(page.main if what == NOW else page.text, page.version)
