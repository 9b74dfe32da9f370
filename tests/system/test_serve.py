"""A page for this machine only: a token, the right host, nothing but GET."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from calql.system.errors import UserError
from calql.system.serve import HOST, Answer, PageServer, address, listening, new_token


def served(page: str) -> PageServer:
    return PageServer(listening(), new_token(), lambda what: None if what else Answer(page))


@pytest.fixture
def server() -> Iterator[PageServer]:
    with served("<p>the page</p>") as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


def asked(server: PageServer, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, server.socket.getsockname()[1], timeout=10)
    connection.request(
        method, path, headers={"Host": f"{HOST}:{server.socket.getsockname()[1]}" if host is None else host}
    )
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_who_knows_the_address_gets_the_page(server: PageServer) -> None:
    assert asked(server, f"/{server.token}/") == (200, b"<p>the page</p>")
    assert asked(server, f"/{server.token}/", host=f"localhost:{server.socket.getsockname()[1]}")[0] == 200
    port = server.socket.getsockname()[1]
    assert address(server.socket, server.token) == f"http://127.0.0.1:{port}/{server.token}/"


@pytest.mark.parametrize("path", ["/", "/nothing/", "/../etc/passwd", "/%2e%2e/", "/%c3%a9/"])
def test_who_does_not_gets_nothing(server: PageServer, path: str) -> None:
    assert asked(server, path)[0] == 404
    assert asked(server, f"/{server.token[:-1]}/")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_another_host_gets_nothing(server: PageServer, host: str) -> None:
    assert asked(server, f"/{server.token}/", host=host)[0] == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_all_but_get_is_refused(server: PageServer, method: str) -> None:
    status, body = asked(server, f"/{server.token}/", method=method)
    assert status == 405
    assert b"the page" not in body


def test_only_this_machine_can_reach_it_and_tokens_differ(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with served("") as other:
        assert other.token != server.token
        assert len(other.token) >= 32


def test_a_port_that_is_taken_is_said_in_one_line(server: PageServer) -> None:
    taken = server.socket.getsockname()[1]
    with pytest.raises(UserError, match=f"port {taken} cannot be listened on"):
        listening(taken)
