"""A lock has one holder at a time, and is free when that one lets go of the file."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from calql.system.locks import taken, waited_for


def test_one_of_two_has_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("a") as first, path.open("a") as second:
        assert taken(first.fileno()) is True
        assert taken(second.fileno()) is False
    with path.open("a") as third:
        assert taken(third.fileno()) is True


def test_who_waits_has_it_when_the_other_lets_go(tmp_path: Path) -> None:
    path, had = tmp_path / "lock", threading.Event()

    def wait() -> None:
        with path.open("a") as file:
            waited_for(file.fileno())
            had.set()

    with path.open("a") as first:
        assert taken(first.fileno())
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not had.wait(0.2)
    waiting.join(10.0)
    assert had.is_set()


def test_a_file_system_without_locks_says_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (tmp_path / "lock").open("a") as file:
        assert taken(file.fileno()) is None
