"""The live page: what is served to whom, and that a run notices nothing of it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from synthetic_runs import make_run

from browsing import opened
from calql.cli import main
from calql.results.live import Live, attend
from calql.results.serve import Server
from calql.results.watched import Watched
from calql.system import serve
from calql.system.serve import address, listening

TOKEN = "a-token"
RUNNING = json.dumps({"finished": False, "reason": "running"})
ENDED = json.dumps({"finished": True, "reason": "finished"})


def going_on(folder: Path, stop_at: int = 2_000, **more: object) -> Path:
    """A run in the middle of its online phase."""
    made = make_run(folder, seeds=2, finished=False, stop_at=stop_at, **more)  # type: ignore[arg-type]
    (made / "status.json").write_text(RUNNING)
    return made


def arrive(folder: Path, steps: int, score: float = 0.125) -> None:
    """An evaluation of every seed is written."""
    row = {"phase": "online", "update": 20_000 + steps, "env_steps": steps, "score": score, "switch": False}
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"seed": seed, **row}) + "\n" for seed in range(2))


@contextmanager
def served(*folders: Path, clock: object = time.monotonic) -> Iterator[Server]:
    server = Server(listening(), Watched(list(folders), clock), TOKEN)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection(*server.socket.getsockname()[:2], timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(going_on(tmp_path_factory.mktemp("live") / "run")) as found:
        yield found


def test_the_page_is_the_report_and_its_changing_part_is_asked_for_again(server: Server) -> None:
    status, text, headers = ask(server, f"/{TOKEN}/")
    assert (status, "not finished: numbers so far" in text) == (200, True)
    assert headers["Cache-Control"] == "no-store"
    status, part, headers = ask(server, f"/{TOKEN}/now")
    assert (status, part.startswith("<main>"), part.endswith("</main>")) == (200, True, True)
    assert len(part) < 200_000 < len(text)  # without the script that draws
    assert ask(server, f"/{TOKEN}/now", If_None_Match=headers["ETag"])[:2] == (304, "")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/now", "/x/", "/x/now", f"/{TOKEN}", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", f"/{TOKEN}/config.json", "//",
        f"/{TOKEN}/../{TOKEN}/metrics.jsonl", f"/{TOKEN}/now/", f"/{TOKEN}/now?x", f"/{TOKEN}/%2e%2e/", "/\xe9/",
    ],
)  # fmt: skip
def test_nothing_else_is_there_and_nobody_else_is_answered(server: Server, path: str) -> None:
    status, text, _ = ask(server, path.encode("latin-1").decode("latin-1") if path.isascii() else "/%E9/")
    assert status == 404
    assert TOKEN not in text


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_it_can_only_be_read(server: Server, method: str) -> None:
    status, _, headers = ask(server, f"/{TOKEN}/", method)
    assert (status, headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9", 200), ("localhost:8000", 200), ("localhost", 200), ("[::1]:1", 200), ("", 421),
        ("evil.example", 421), ("evil.example:80", 421), ("127.0.0.1.evil.example", 421), ("localhost@evil:1", 421),
    ],
)  # fmt: skip
def test_a_name_that_leads_here_is_not_enough(server: Server, host: str, status: int) -> None:
    assert ask(server, f"/{TOKEN}/now", Host=host)[0] == status


def test_it_listens_on_this_machine_alone_and_compares_tokens_in_constant_time(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert len(serve.new_token()) >= 43  # 256 bits
    compared = []
    monkeypatch.setattr(serve.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    ask(server, "/wrong/now")
    assert compared == [(b"wrong", TOKEN.encode())]


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_rows_arrive_and_the_run_is_not_touched(tmp_path: Path) -> None:
    folder, now = going_on(tmp_path / "run"), [100.0]
    before = state(folder)
    with served(folder, clock=lambda: now[0]) as server:
        first = ask(server, f"/{TOKEN}/now")[2]["ETag"]
        assert state(folder) == before
        arrive(folder, 2_500)
        assert ask(server, f"/{TOKEN}/now", If_None_Match=first)[0] == 304  # no page so soon after the last
        now[0] += 60
        status, text, headers = ask(server, f"/{TOKEN}/now", If_None_Match=first)
        assert (status, headers["ETag"] == first) == (200, False)
        assert "to 0.12 after 2,500 environment steps" in text
        with (folder / "metrics.jsonl").open("a") as file:
            file.write('{"seed": 0, "pha')  # a row that is being written
        now[0] += 60
        assert ask(server, f"/{TOKEN}/now", If_None_Match=headers["ETag"])[0] == 304


def test_several_runs_are_one_page_and_what_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    here, later = going_on(tmp_path / "a"), tmp_path / "b"
    now = [0.0]
    watched = Watched([here, later], lambda: now[0])
    assert "cal-ql on point-maze-narrow" in watched.now().main
    going_on(later, method="cql")
    now[0] += 60
    assert "cal-ql against cql on point-maze-narrow" in watched.now().main
    assert "is being prepared" in Watched([]).now().main


def test_it_ends_when_every_run_has(tmp_path: Path) -> None:
    folders = [going_on(tmp_path / "a"), going_on(tmp_path / "b")]
    watched = Watched(folders)
    (folders[0] / "status.json").write_text(ENDED)
    assert not watched.ended
    server = Server(listening(), watched, TOKEN)
    thread = threading.Thread(target=attend, args=(server, lambda: watched.ended))
    thread.start()
    assert ask(server, f"/{TOKEN}/")[0] == 200
    (folders[1] / "status.json").write_text(json.dumps({"finished": False, "reason": "stopped: go on with --resume"}))
    assert "1 of 2 unfinished" in ask(server, f"/{TOKEN}/now")[1]  # who looks sees the end
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(OSError):
        ask(server, f"/{TOKEN}/")


def test_watching_what_has_ended_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = going_on(tmp_path / "run")
    (folder / "status.json").write_text(ENDED)
    assert main(["watch", str(folder)]) == 2
    assert "every run has ended" in capsys.readouterr().err
    (folder / "status.json").write_text(RUNNING)
    with listening() as taken:
        assert main(["watch", str(folder), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be listened on" in capsys.readouterr().err


def reached(where: str) -> bool:
    place = urlsplit(where)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        connection.request("GET", place.path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def gone(where: str) -> bool:
    """Within the time that a last look is given."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if not reached(where):
            return True
        time.sleep(0.2)
    return False


KILLED = """
import os, signal, sys
from pathlib import Path
from calql.results.live import Live
live = Live()
live.begun(Path(sys.argv[1]))
print(live.address, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_the_page_of_a_run_goes_when_its_process_is_killed(tmp_path: Path) -> None:
    folder = going_on(tmp_path / "run")
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    where = run.stdout.readline().strip()
    assert TOKEN not in where
    assert reached(where)
    (folder / "status.json").write_text(ENDED)
    run.communicate("go\n")
    assert run.returncode == -signal.SIGKILL
    assert gone(where)


@pytest.mark.slow
def test_the_page_of_a_run_goes_with_it(tmp_path: Path) -> None:
    with Live() as live:
        assert reached(live.address)  # before there is a folder
        command = Path(f"/proc/{live._process.pid}/cmdline")
        if command.exists():
            assert live.address.split("/")[3].encode() not in command.read_bytes()  # others may read that
    live._process.wait(60)
    assert not reached(live.address)


@pytest.mark.slow
def test_a_page_that_is_renewed_keeps_what_its_reader_did(browser, tmp_path: Path) -> None:
    folder = going_on(tmp_path / "run")
    with served(folder) as server, opened(browser, address(server.socket, TOKEN)) as seen:
        page = seen.page
        page.wait_for_selector("#first-0 .scatterlayer .js-line")
        page.evaluate("() => { window.same = true; document.querySelector('#settings details').open = true; }")
        page.locator("button[data-group='seed 1']").first.click()
        page.locator("#first-0 .plot").focus()
        page.keyboard.press("+")
        page.wait_for_timeout(200)
        page.evaluate("scrollTo(0, 300)")
        zoom = "document.querySelector('#first-0 .plot')._fullLayout.xaxis.range.join()"
        seen_at = "document.querySelector('#first-0').getBoundingClientRect().top"
        before, top = page.evaluate(zoom), page.evaluate(seen_at)
        arrive(folder, 2_500)
        page.wait_for_function("() => document.querySelector('.lead').textContent.includes('2,500')", timeout=60_000)
        assert page.evaluate(zoom) == before
        assert page.evaluate("[window.same, document.querySelector('#settings details').open]") == [True, True]
        assert abs(page.evaluate(seen_at) - top) < 2  # though the sentence above it has become longer
        assert page.locator("button[data-group='seed 1']").first.get_attribute("aria-pressed") == "false"
        assert page.evaluate("document.activeElement.closest('.chart').id") == "first-0"
        assert page.evaluate(
            "document.querySelector('#first-0 .plot')._fullData.filter(t => t.visible).every(t => t.name !== 'seed 1')"
        )
        assert {urlsplit(url).netloc for url in seen.asked} == {urlsplit(address(server.socket, TOKEN)).netloc}
        assert seen.complaints == []
