"""OpenBLAS with one thread for a while."""

from __future__ import annotations

from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401  # brings its OpenBLAS into memory

from calql.system import blas


def test_one_thread_and_then_as_many_as_before() -> None:
    libraries = [library for library in blas._loaded() if blas._asked(library, blas.GETTERS) is not None]
    if not libraries:
        pytest.skip("no OpenBLAS in this process")

    def threads() -> list[int | None]:
        return [blas._asked(library, blas.GETTERS) for library in libraries]

    before = threads()
    try:
        for library in libraries:
            blas._asked(library, blas.SETTERS, 2)
        several = threads()
        with blas.one_thread():
            assert set(threads()) == {1}
        assert threads() == several
    finally:
        for library, count in zip(libraries, before, strict=True):
            blas._asked(library, blas.SETTERS, count or 1)


def test_where_nothing_is_known_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blas, "MAPS", tmp_path / "none")
    assert blas._loaded() == []
    with blas.one_thread():
        pass
