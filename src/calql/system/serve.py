"""A page for one's own browser: on this machine only, under an address that nobody can guess, to be read only."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from calql.system.errors import UserError

HERE = "127.0.0.1"
HOSTS = (HERE, "localhost")
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the token in the address goes nowhere
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageServer(ThreadingHTTPServer):
    """Serves one page at http://127.0.0.1:PORT/TOKEN/.

    Who does not know the token gets nothing. A request must name this machine as its host: a page of a stranger whose
    name was bent to 127.0.0.1 (DNS rebinding) does not. All but GET is refused.
    """

    daemon_threads = True

    def __init__(self, page: Callable[[], str], port: int = 0) -> None:
        self.page, self.token = page, secrets.token_urlsafe(24)
        try:
            super().__init__((HERE, port), _Handler)
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used ({error.strerror})", where="--port", mend="give another, or none"
            ) from None

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is nobody's concern."""

    @property
    def address(self) -> str:
        return f"http://{HERE}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "calql", ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        name = (self.headers.get("Host") or "").partition(":")[0]
        asked = self.path.partition("?")[0].strip("/")
        if name not in HOSTS or not secrets.compare_digest(asked.encode(), self.server.token.encode()):
            self._answer(HTTPStatus.NOT_FOUND, b"nothing here\n")
            return
        self._answer(HTTPStatus.OK, self.server.page().encode())

    def _refused(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"this page can only be read\n")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refused

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the address holds the token."""
