"""Archives from strangers and from failing disks: refused with one line, or exactly what was written."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from calql.system import archives
from calql.system.archives import read_archive
from calql.system.errors import UserError

GOOD = {
    "weights": np.arange(60, dtype=np.float32).reshape(5, 12),
    "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "count": np.array(7, np.int32),
    "none": np.empty((0, 3)),
    "flags": np.array([True, False]),
}


def written(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **(arrays or GOOD))  # type: ignore[arg-type]
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    found = read_archive(written(tmp_path / "a.npz"))
    assert found.keys() == GOOD.keys()
    for name, array in GOOD.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


@pytest.mark.parametrize("seed", range(4))
def test_no_flipped_bit_is_ever_read_as_data(seed: int, tmp_path: Path) -> None:
    """Each byte in turn over the whole file: refused as UserError, or none of the arrays differs."""
    path = written(tmp_path / "a.npz")
    content, rng = path.read_bytes(), np.random.default_rng(seed)
    refused = 0
    for place in range(seed, len(content), 4):
        changed = bytearray(content)
        changed[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(changed))
        try:
            found = read_archive(path)
        except UserError:
            refused += 1
            continue
        for name in found.keys() & GOOD.keys():
            np.testing.assert_array_equal(found[name], GOOD[name])
    assert refused > len(content) // 20


def npy(header: str, content: bytes) -> bytes:
    """An array whose header says what it likes."""
    text = header.encode().ljust(118)[:117] + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
            "its shape is not that of its content",
        ),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "its shape is not that of its content"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }", "shape"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "pickled Python objects, which are never loaded"),
        ("{'descr': '<f4', 'fortran_order': False, ", "is damaged"),
        ("[" * 90, "is damaged"),
    ],
)
def test_headers_that_lie(header: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lies.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(header, bytes(16)))
    with pytest.raises(UserError, match=said) as raised:
        read_archive(path)
    assert "\n" not in str(raised.value)


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    path, content = tmp_path / "twice.npz", io.BytesIO()
    np.save(content, np.zeros(3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", content.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", content.getvalue())
    with pytest.raises(UserError, match="two arrays are called 'a'"):
        read_archive(path)


def test_a_file_that_unpacks_to_far_more_than_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGE", 2**20)
    np.savez_compressed(tmp_path / "bomb.npz", a=np.zeros(2**21, np.uint8))
    with pytest.raises(UserError, match=r"unpacks from .* kB to 2.1 MB, .*; if it is yours, write it without"):
        read_archive(tmp_path / "bomb.npz")
    np.savez(tmp_path / "plain.npz", a=np.zeros(2**21, np.uint8))
    assert read_archive(tmp_path / "plain.npz")["a"].size == 2**21


def test_a_file_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "host_memory", lambda: 10**6)
    np.savez(tmp_path / "large.npz", a=np.zeros(10**6 + 1, np.uint8))
    with pytest.raises(UserError, match="holds 1 MB of arrays, and this machine has 1 MB of memory"):
        read_archive(tmp_path / "large.npz")
