"""What a terminal of 80 columns shows: something at once, and nothing cut off."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from calql.cli import main
from calql.domains.registry import all_tasks

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def seen(words: list[str]) -> str:
    """All that a terminal of 80 columns is sent by a command."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "calql", *words]
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment | {"TERM": "xterm"})
    os.close(end)
    sent = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # it has ended
            break
        if not part:
            break
        sent += part
    os.close(terminal)
    assert process.wait() == 0
    return sent.decode()


def test_a_word_is_there_before_the_libraries_are_and_goes_with_them() -> None:
    sent = seen(["tasks"])
    first, cleared, rest = sent.partition("\r\x1b[K")
    assert first == "calql tasks: loading the libraries ..."
    assert cleared
    assert "loading" not in rest
    lines = [CONTROL.sub("", line) for line in rest.split("\r\n")]
    assert max(map(len, lines)) <= 80


def test_a_task_takes_two_lines_and_says_where_its_data_come_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path))
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[: lines.index("")]
    assert len(table) == 1 + 2 * len(all_tasks())
    assert max(map(len, table)) <= 80
    rows = {line.split()[0]: line.split(maxsplit=4)[4] for line in table[1::2]}
    assert rows["point-maze-quick"] == "made in seconds"
    assert rows["pick-place"] == "build"
    assert rows["antmaze-medium-narrow"] == "build*"
    assert rows["antmaze-medium-play"] == "download or build*"
    assert rows["hopper-random"] == "download or build"
    assert (
        "(the default)" in table[table.index(next(line for line in table if line.startswith("point-maze-quick"))) + 1]
    )
    assert table[1].split()[1:4] == ["20K", "200K", "100"]


def test_data_that_are_here_are_said_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path))
    built = tmp_path / "built" / "pick-place" / "seed0"
    built.mkdir(parents=True)
    (built / "manifest.json").write_text("{}")
    assert main(["tasks"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("pick-place"))
    assert line.endswith("  here")
