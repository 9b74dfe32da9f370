"""Rows of metrics as JSON lines: appended whole, cut back on resume, read despite a torn last line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calql.system.errors import UserError
from calql.system.files import written_whole

Row = dict[str, Any]


class MetricsLog:
    """An append-only file of rows. A row counts once its line end is on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows at the end and push them to the disk; what a kill left of a half-written row goes first."""
        text = "".join(encode(row) + "\n" for row in rows)
        if self._torn():
            self.truncate(len(read_rows(self.path)))
        with self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def truncate(self, rows: int) -> None:
        """Keep the first `rows` rows; atomic, so that a kill leaves either the old file or the new one."""
        lines = _whole_lines(self.path)
        if rows < 0 or rows > len(lines):
            raise UserError(
                f"{len(lines)} rows are there, but the checkpoint was made after {rows}",
                where=str(self.path),
                mend="the file was changed by hand: put it back, or start a new run",
            )
        write_atomically(self.path, b"".join(line + b"\n" for line in lines[:rows]))

    def _torn(self) -> bool:
        if not self.path.exists() or self.path.stat().st_size == 0:
            return False
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"


def read_rows(path: Path | str) -> list[Row]:
    """Every whole row, in order; no file is no rows. A torn last line (the run was killed) is left out."""
    return [json.loads(line) for line in _whole_lines(Path(path))]


def encode(row: Mapping[str, Any]) -> str:
    """One row as valid JSON: numpy scalars become numbers, and what is not a finite number becomes null."""
    return json.dumps({key: plain(value) for key, value in row.items()}, allow_nan=False)


def plain(value: Any) -> Any:
    """The JSON form of a value."""
    if isinstance(value, np.generic) or (hasattr(value, "item") and getattr(value, "ndim", None) == 0):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _whole_lines(path: Path) -> list[bytes]:
    """The lines that hold a row. Only the last may be broken; one before it means the file was damaged."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        if not _is_row(line):
            if number == len(lines):
                return lines[:-1]
            raise UserError(
                f"line {number} is not a JSON object", where=str(path), mend="remove that line, or restore the file"
            )
    return lines


def _is_row(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def write_atomically(path: Path, content: str | bytes) -> None:
    """A whole file or none: for reports and summaries that others may be reading."""
    with written_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
