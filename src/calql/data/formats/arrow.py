"""Arrow files (IPC, Feather): tables as they lie in memory, their buffers compressed or not."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from calql.data.arrow_tables import arrays_of
from calql.data.assemble import assemble
from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset
from calql.data.flat import flat_recording, wanted
from calql.data.formats.base import Format, begins
from calql.data.reading import AS_IT_IS, Reading
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError
from calql.system.extras import Extra

pa = Extra("pyarrow", "an Arrow file")
ipc = Extra("pyarrow.ipc", "an Arrow file")

MAGIC = b"ARROW1\x00\x00"
CONTINUES = 0xFFFFFFFF  # before the length of a message
DAMAGE = (OSError, ValueError, OverflowError, MemoryError, struct.error, IndexError, KeyError)


def read_arrow(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """Only the columns that have a role are read."""
    table = _table(path, reading)
    return assemble(flat_recording(arrays_of(table, str(path)), reading, str(path)), reading, str(path), on_problem)


def _table(path: Path, reading: Reading) -> Any:
    try:
        require_room(_unpacked(path), path)
        with pa.OSFile(str(path), "rb") as file:
            names = ipc.open_file(file).schema.names
            chosen = wanted(names, reading, str(path))
            if len(set(names)) != len(names):
                raise UserError("two columns have the same name", where=str(path), mend="rename one of them")
            options = ipc.IpcReadOptions(included_fields=[names.index(name) for name in chosen])
            table = ipc.open_file(file, options=options).read_all()
            table.validate(full=True)
            return table
    except UserError:
        raise
    except (pa.ArrowException, *DAMAGE) as error:
        text = str(error).partition("\n")[0][:200]
        raise UserError(f"is not a whole Arrow file ({text})", where=str(path), mend=AGAIN) from None


def _unpacked(path: Path) -> int:
    """Bytes that all buffers say they unpack to; a compressed one begins with that number.

    The library believes the number and makes room for it, so it is added up before the library is asked.
    """
    total = 0
    with path.open("rb") as file:
        end = path.stat().st_size
        file.seek(len(MAGIC))
        while file.tell() < end - 10:  # the footer has its length and the magic behind it
            mark, size = struct.unpack("<II", file.read(8))
            if mark != CONTINUES or size == 0:
                break
            message = file.read(size)
            body, start = _body_length(message), file.tell()
            for offset in _compressed(message):
                file.seek(start + offset)
                total += max(struct.unpack("<q", file.read(8))[0], 0)
            file.seek(start + body)
    return total


def _body_length(message: bytes) -> int:
    table = _u32(message, 0)
    at = _field(message, table, 3)
    return struct.unpack_from("<q", message, at)[0] if at else 0


def _compressed(message: bytes) -> list[int]:
    """Where the compressed buffers of a batch of rows, or of a dictionary of names, begin in its body."""
    table = _u32(message, 0)
    kind_at, header_at = _field(message, table, 1), _field(message, table, 2)
    kind = message[kind_at] if kind_at else 0
    if kind not in (2, 3) or not header_at:  # dictionary batch, record batch
        return []
    batch = header_at + _u32(message, header_at)
    if kind == 2:
        data = _field(message, batch, 1)
        if not data:
            return []
        batch = data + _u32(message, data)
    buffers_at, compression = _field(message, batch, 2), _field(message, batch, 3)
    if not buffers_at or not compression:
        return []
    vector = buffers_at + _u32(message, buffers_at)
    count = _u32(message, vector)
    found = [struct.unpack_from("<qq", message, vector + 4 + 16 * i) for i in range(count)]
    return [offset for offset, length in found if length >= 8]


def _field(message: bytes, table: int, number: int) -> int:
    """Where a field of a FlatBuffers table lies; 0 where it has none."""
    behind = table - struct.unpack_from("<i", message, table)[0]
    size = struct.unpack_from("<H", message, behind)[0]
    slot = 4 + 2 * number
    offset = struct.unpack_from("<H", message, behind + slot)[0] if slot + 2 <= size else 0
    return table + offset if offset else 0


def _u32(message: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", message, at)[0])


FORMAT = Format(
    summary="Arrow file (IPC, Feather)",
    sniff=lambda path: begins(path, len(MAGIC)) == MAGIC,
    read=read_arrow,
    suffixes=(".arrow", ".feather", ".ipc"),
    general=True,
)
