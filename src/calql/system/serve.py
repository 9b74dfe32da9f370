"""A page for the browser on this machine: on 127.0.0.1, to who knows the token, and nothing but the page.

- It listens on the loopback interface alone. Another machine comes through a tunnel (`ssh -L`).
- Other users of the machine can reach the port, but not guess the token of 256 bits in the address, which is compared
  in constant time.
- A web site in the same browser can make it ask this server by a name of its own that leads to 127.0.0.1: requests
  that name another host than this one are refused.
- Requests can only read: GET, and the names that the page answers to. No path from outside is ever opened.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, NamedTuple

from calql.system.errors import UserError

HOST = "127.0.0.1"
NAMES = {HOST, "localhost", "[::1]"}  # by which the browser of this machine, or of a tunnel's other end, calls it
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the token in the address goes nowhere
    "X-Content-Type-Options": "nosniff",
}


class Answer(NamedTuple):
    """A page or a part of one, as it is now; who has this version of a part gets no second copy."""

    text: str
    version: str = ""


Answers = Callable[[str], Answer | None]  # by what follows the token in the address: "" is the page; None: no such part


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


class PageServer(ThreadingHTTPServer):
    """Answers on a socket that listens already."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, token: str, answers: Answers) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.token, self.answers = token, answers

    def has_sent(self, version: str) -> None:
        """Called when an answer has gone out."""

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is nobody's concern."""


class _Handler(BaseHTTPRequestHandler):
    """GET /TOKEN/ is the page, GET /TOKEN/NAME a part of it, if it has changed."""

    server: PageServer
    timeout: ClassVar[float] = 20.0
    server_version, sys_version = "calql", ""

    def do_GET(self) -> None:
        if not self._named():
            return self._answer(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to 127.0.0.1 and localhost alone")
        what = self._asked()
        found = None if what is None else self.server.answers(what)
        if found is None:
            return self._answer(HTTPStatus.NOT_FOUND, "there is nothing here; use the whole address that was printed")
        if what and self.headers.get("If-None-Match") == found.version:
            self._answer(HTTPStatus.NOT_MODIFIED, "", found.version)
        else:
            self._answer(HTTPStatus.OK, found.text, found.version, kind="html")
        self.server.has_sent(found.version)

    def _named(self) -> bool:
        """Whether the request is for this machine by one of its own names, with any port, as a tunnel may have."""
        host = self.headers.get("Host", "")
        name, _, port = host.rpartition(":")
        return (name if port.isdigit() else host) in NAMES

    def _asked(self) -> str | None:
        """What is asked for by who knows the token."""
        parts, token = self.path.split("/"), self.server.token.encode()
        known = len(parts) == 3 and hmac.compare_digest(parts[1].encode("latin-1", "replace"), token)
        return parts[2] if known else None

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
