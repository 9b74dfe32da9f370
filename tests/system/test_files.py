"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from calql.system.files import written_whole


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text("old")
    with written_whole(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "it"
    path.write_text("old")

    def fail() -> None:
        with written_whole(path, aside=tmp_path / "aside") as file:
            file.write(b"half of")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_it_is_on_the_disk_before_it_has_its_name_and_its_name_is_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, nothing held back."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("the system does not tell which file a number stands for")
    done: list[tuple[str, int | str]] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(file: int) -> None:
        whole = Path(f"/proc/self/fd/{file}").resolve()
        done.append(("fsync", "folder" if whole.is_dir() else whole.stat().st_size))
        fsync(file)

    def noted_replace(aside: Path, path: Path) -> None:
        done.append(("name", path.name))
        replace(aside, path)

    monkeypatch.setattr("os.fsync", noted_fsync)
    monkeypatch.setattr("os.replace", noted_replace)
    with written_whole(tmp_path / "it") as file:
        file.write(b"1234")
    assert done == [("fsync", 4), ("name", "it"), ("fsync", "folder")]


@pytest.mark.parametrize(("code", "believed"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)])
def test_a_file_system_that_cannot_tell_is_believed_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, believed: bool
) -> None:
    def failing(file: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("os.fsync", failing)
    expected = contextlib.nullcontext() if believed else pytest.raises(OSError, match=os.strerror(code))
    with expected, written_whole(tmp_path / "it") as file:
        file.write(b"something")
    assert (tmp_path / "it").exists() == believed
