"""Downloads against a server of this machine: interrupted, wrong, missing; and a local Minari store."""

from __future__ import annotations

import hashlib
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calql.data import fetch as fetching
from calql.data.fetch import fetch
from calql.domains import originals as module
from calql.domains.originals import Remote, download, downloaded
from calql.system.errors import UserError

BODY = np.random.default_rng(0).bytes(900_000)
SHA = hashlib.sha256(BODY).hexdigest()


class Server:
    """Serves BODY at /file with ranges; can hang up after some bytes, and keeps what was asked."""

    def __init__(self) -> None:
        self.hang_up_after: list[int] = []
        self.tag = '"v1"'
        self.body = BODY
        self.tell_length = True
        self.ranges: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.path != "/file":
            request.send_error(404)
            return
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        start = 0
        if asked and request.headers.get("If-Range") == self.tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(self.body):
            request.send_error(416)
            return
        end = self.hang_up_after.pop(0) if self.hang_up_after else None  # before who asked may go on to the next
        request.send_response(206 if start else 200)
        if self.tell_length:
            request.send_header("Content-Length", str(len(self.body) - start))
        request.send_header("ETag", self.tag)
        request.end_headers()
        request.wfile.write(self.body[start:][:end])


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "*")


def test_whole_file_with_progress_and_then_not_again(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    got = fetch(server.url, tmp_path / "f", sha256=SHA, progress=lambda _, done, total: seen.append((done, total)))
    assert got.path.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    fetch(server.url, tmp_path / "f", sha256=SHA)
    assert len(server.ranges) == 1


def test_broken_line_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.hang_up_after = [300_000, 200_000]
    got = fetch(server.url, tmp_path / "f", sha256=SHA, pause=0.0)
    assert got.path.read_bytes() == BODY
    assert server.ranges == [None, "bytes=300000-", "bytes=500000-"]


def test_interrupted_call_is_resumed_by_the_next(server: Server, tmp_path: Path) -> None:
    def interrupt(_: str, done: int, total: int) -> None:
        if done > 400_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(server.url, tmp_path / "f", sha256=SHA, progress=interrupt)
    assert not (tmp_path / "f").exists()
    assert fetch(server.url, tmp_path / "f", sha256=SHA).path.read_bytes() == BODY
    assert server.ranges[1] is not None
    assert {p.name for p in tmp_path.iterdir() if p.is_file()} == {"f", "f.sha256", ".f.lock"}


def test_changed_file_is_not_glued_to_the_old_part(server: Server, tmp_path: Path) -> None:
    server.hang_up_after = [300_000] * 4
    server.body = BODY[:800_000]
    with pytest.raises(KeyboardInterrupt):
        fetch(server.url, tmp_path / "f", progress=_stop)
    server.hang_up_after, server.tag, server.body = [], '"v2"', BODY[::-1]
    assert fetch(server.url, tmp_path / "f").path.read_bytes() == BODY[::-1]


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_wrong_checksum_is_thrown_away(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="was expected, so it was thrown away"):
        fetch(server.url, tmp_path / "f", sha256="0" * 64)
    assert not list(tmp_path.glob("f*"))


def test_damaged_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    got = fetch(server.url, tmp_path / "f")
    assert got.sha256 == SHA
    assert not got.published
    got.path.write_bytes(BODY[:-1])
    assert fetch(server.url, tmp_path / "f").path.read_bytes() == BODY


def test_a_recorded_checksum_is_held_to_ever_after(server: Server, tmp_path: Path) -> None:
    fetch(server.url, tmp_path / "f").path.unlink()
    server.body, server.tag = BODY[::-1], '"v2"'
    with pytest.raises(
        UserError, match=r"was recorded when it was first downloaded, so it was thrown away; .*delete .*f.sha256"
    ):
        fetch(server.url, tmp_path / "f")
    assert {p.name for p in tmp_path.iterdir() if p.is_file()} == {"f.sha256", ".f.lock"}
    assert (tmp_path / "f.sha256").read_text().strip() == SHA
    (tmp_path / "f.sha256").unlink()
    assert fetch(server.url, tmp_path / "f").path.read_bytes() == BODY[::-1]


@pytest.mark.parametrize("told", [True, False])
def test_a_file_that_never_ends_is_thrown_away(
    told: bool, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "MOST", 500_000)
    server.tell_length = told
    with pytest.raises(UserError, match="is larger than 500 kB, so it was thrown away"):
        fetch(server.url, tmp_path / "f", sha256=SHA, pause=0.0)
    assert {p.name for p in tmp_path.iterdir() if p.is_file()} == {".f.lock"}


def test_a_body_that_may_be_short_is_not_taken(server: Server, tmp_path: Path) -> None:
    """Without a length only a checksum tells whether the line broke or the file ended."""
    server.tell_length, server.hang_up_after = False, [300_000, 300_000]
    with pytest.raises(UserError, match="does not say how long the file is"):
        fetch(server.url, tmp_path / "f", pause=0.0)
    with pytest.raises(UserError, match="was expected, so it was thrown away"):
        fetch(server.url, tmp_path / "f", sha256=SHA, pause=0.0)
    assert {p.name for p in tmp_path.iterdir() if p.is_file()} == {".f.lock"}
    assert fetch(server.url, tmp_path / "f", sha256=SHA, pause=0.0).path.read_bytes() == BODY


def test_a_server_that_drips_is_given_up(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**9, 10**6))  # every look at it is many days later
    monkeypatch.setattr(fetching.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(UserError, match=r"cannot be read \(0 bytes a second\)"):
        fetch(server.url, tmp_path / "f", pause=0.0)
    assert not (tmp_path / "f").exists()


def test_a_file_asked_for_over_https_is_not_taken_without_it() -> None:
    handler, request = fetching._StaySecure(), urllib.request.Request("https://here/file")
    with pytest.raises(urllib.error.HTTPError, match="without https"):
        handler.redirect_request(request, None, 302, "Found", {}, "http://there/file")
    assert handler.redirect_request(request, None, 302, "Found", {}, "https://there/file") is not None


def test_files_come_over_https_and_with_checksums_where_one_is_known() -> None:
    for name, remote in module.originals().items():
        assert remote.minari or remote.url.startswith("https://"), name
        assert remote.minari or remote.sha256 or name.startswith("antmaze-"), name


def test_missing_file_and_missing_server(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="answers 404"):
        fetch(server.url + "s", tmp_path / "f")
    with pytest.raises(UserError, match=r"cannot be read .*run it again"):
        fetch("http://127.0.0.1:9/file", tmp_path / "f", pause=0.0)


def test_line_that_never_holds_says_so(server: Server, tmp_path: Path) -> None:
    server.hang_up_after = [10] * 9
    with pytest.raises(UserError, match="keeps closing early"):
        fetch(server.url, tmp_path / "f", pause=0.0)


def test_download_by_name(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "set.npz"
    ends = np.array([False, True])
    np.savez(
        archive, observations=np.zeros((2, 29), np.float32), actions=np.zeros((2, 8), np.float32),
        rewards=np.zeros(2, np.float32), terminals=ends, timeouts=~ends & False,
        next_observations=np.zeros((2, 29), np.float32),
    )  # fmt: skip
    server.body = archive.read_bytes()
    remote = Remote(server.url + "#set.npz")
    monkeypatch.setattr(module, "originals", lambda: {"antmaze-umaze": remote})
    monkeypatch.setattr(module, "place", lambda name: tmp_path / "downloads" / "set.npz")
    assert downloaded("antmaze-umaze") is None
    got = download("antmaze-umaze")
    assert "none is published" in str(got)
    back = downloaded("antmaze-umaze")
    assert back is not None
    assert len(back) == 2


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'antmaze-large-play'"):
        download("antmaze-large-pley")


@pytest.mark.parametrize("name", ["pick-place", "door-binary-cloned", "antmaze-medium-narrow"])
def test_what_has_no_original_is_to_be_built(name: str) -> None:
    with pytest.raises(UserError, match=f"'{name}' has no public original; build it: calql data build {name}"):
        download(name)


def test_every_remote_names_a_file_or_a_minari_dataset() -> None:
    for name, remote in module.originals().items():
        assert remote.minari or remote.url.endswith(".hdf5"), name
        assert remote.sha256 is None or len(remote.sha256) == 64


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_local_minari_store_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    from gymnasium.spaces import Box
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    buffer = EpisodeBuffer(
        observations=np.zeros((4, 3), np.float32),
        actions=np.zeros((3, 2), np.float32),
        rewards=[0.0, 0.0, 1.0],
        terminations=[False, False, True],
        truncations=[False, False, False],
    )
    minari.create_dataset_from_buffers(
        "D4RL/door/human-v2",
        [buffer],
        observation_space=Box(-1, 1, (3,), np.float32),
        action_space=Box(-1, 1, (2,), np.float32),
    )
    got = download("door-binary")
    assert got.source == "minari:D4RL/door/human-v2"
    assert "1 episodes, 3 steps" in str(got)


def test_minari_hub_out_of_reach_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))

    def unreachable(_: str) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(minari, "download_dataset", unreachable)
    with pytest.raises(UserError, match=r"does not give it .ConnectionError: no route"):
        download("door-binary")
