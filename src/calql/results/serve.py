"""A page for the browser on this machine: on 127.0.0.1, to who knows the token, and nothing but the page.

- It listens on the loopback interface alone. Another machine comes through a tunnel (`ssh -L`).
- Other users of the machine can reach the port, but not guess the token of 256 bits in the address, which is compared
  in constant time.
- A web site in the same browser can make it ask this server by a name of its own that leads to 127.0.0.1: requests
  that name another host than this one are refused.
- Requests can only read: GET, and two addresses. No path from outside is ever opened.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from calql.results.watched import Watched
from calql.system.errors import UserError

HOST = "127.0.0.1"
NAMES = {HOST, "localhost", "[::1]"}  # by which the browser of this machine, or of a tunnel's other end, calls it
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
LOOKING_S = 12.0  # who asked so recently looks: a page in the background asks every ten seconds


def new_token() -> str:
    return secrets.token_urlsafe(32)


def listening(port: int = 0) -> socket.socket:
    """A port of this machine alone; 0: any that is free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(16)
    except OSError as error:
        made.close()
        mend = "choose another --port, or leave it out"
        raise UserError(f"port {port} cannot be listened on: {error.strerror}", mend=mend) from None
    return made


def address(listener: socket.socket, token: str) -> str:
    return f"http://{HOST}:{listener.getsockname()[1]}/{token}/"


class Server(ThreadingHTTPServer):
    """Answers on a socket that listens already."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, watched: Watched, token: str) -> None:
        super().__init__(listener.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.watched, self.token = watched, token
        self.asked_at = -LOOKING_S  # in time.monotonic()
        self.sent = ""  # the version that was sent last

    @property
    def looked_at(self) -> bool:
        return time.monotonic() - self.asked_at < LOOKING_S

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is nobody's concern."""


class Handler(BaseHTTPRequestHandler):
    """GET /TOKEN/ is the page, GET /TOKEN/now the part of it that changes, if it has changed."""

    server: Server
    timeout: ClassVar[float] = 20.0
    server_version, sys_version = "calql", ""

    def do_GET(self) -> None:
        if not self._named():
            return self._answer(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to 127.0.0.1 and localhost alone")
        what = self._asked()
        if what is None:
            return self._answer(HTTPStatus.NOT_FOUND, "there is nothing here; use the whole address that was printed")
        self.server.asked_at = time.monotonic()
        page = self.server.watched.now()
        if what == "now" and self.headers.get("If-None-Match") == page.version:
            self._answer(HTTPStatus.NOT_MODIFIED, "", page.version)
        else:
            self._answer(HTTPStatus.OK, page.main if what == "now" else page.text, page.version, kind="html")
        self.server.sent = page.version

    def _named(self) -> bool:
        """Whether the request is for this machine by one of its own names, with any port, as a tunnel may have."""
        host = self.headers.get("Host", "")
        name, _, port = host.rpartition(":")
        return (name if port.isdigit() else host) in NAMES

    def _asked(self) -> str | None:
        """What is asked for by who knows the token."""
        parts, token = self.path.split("/"), self.server.token.encode()
        known = len(parts) == 3 and hmac.compare_digest(parts[1].encode("latin-1", "replace"), token)
        return parts[2] if known and parts[2] in ("", "now") else None

    def _refused(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, "this server can only be read from")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refused

    def _answer(self, status: HTTPStatus, text: str, version: str = "", *, kind: str = "plain") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        if version:
            self.send_header("ETag", version)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Addresses hold the token: they are not written anywhere."""
