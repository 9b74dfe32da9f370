"""The commit that results are marked with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from calql.system import provenance as module


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(module.VARIABLE, raising=False)
    module.commit.cache_clear()
    yield
    module.commit.cache_clear()


def _git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that holds this very file of the package."""
    _git(tmp_path, "init", "-q")
    (tmp_path / "system").mkdir()
    (tmp_path / module.THIS).write_text("")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    return tmp_path


def test_the_commit_of_a_checkout_and_whether_it_was_changed(package: Path) -> None:
    _git(package, "add", ".")
    _git(package, "commit", "-qm", "first")
    head = _git(package, "rev-parse", "HEAD")
    assert module.commit() == head
    module.commit.cache_clear()
    (package / module.THIS).write_text("# changed")
    assert module.commit() == f"{head}-dirty"


def test_a_package_that_git_does_not_know_has_none(package: Path) -> None:
    """Installed below somebody's own repository: its commits say nothing about the package."""
    assert module.commit() is None


def test_a_copy_without_history_can_be_told(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.VARIABLE, "c0ffee")
    assert module.commit() == "c0ffee"
