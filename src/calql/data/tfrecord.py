"""TFRecord files and the messages in them, read without TensorFlow.

A record is its length, a checksum of that, its bytes and a checksum of these. The bytes are a `tf.train.Example` or
`SequenceExample` in Protocol Buffers' wire format: named lists of bytes, of floats or of whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calql.system.archives import AGAIN
from calql.system.errors import UserError

POLYNOMIAL = 0x82F63B78  # Castagnoli's, its bits from low to high
MASK = 0xA282EAD8
HEADER = 12  # bytes of a length and its checksum
LONG = 4096  # bytes, from which on a checksum is worth taking in stripes

Values = list[bytes] | NDArray[np.float32] | NDArray[np.int64]
Features = dict[str, Values]
Lists = dict[str, list[Values]]


class Malformed(ValueError):
    """Bytes that are no message of the kind they should be."""


def records(path: Path) -> Iterator[bytes]:
    """The records of a file in turn, each held to its checksums."""
    with path.open("rb") as file:
        size, number = path.stat().st_size, 0
        while header := file.read(HEADER):
            if len(header) < HEADER or not _is_header(header):
                raise _damaged(path, number, "its length is damaged")
            length = int.from_bytes(header[:8], "little")
            if length > size - file.tell() - 4:
                raise _damaged(path, number, "the file is cut short")
            content = file.read(length)
            if masked(content) != int.from_bytes(file.read(4), "little"):
                raise _damaged(path, number, "its checksum differs")
            yield content
            number += 1


def begins_with_record(content: bytes) -> bool:
    """Whether the first bytes of a file are the length of a record and its checksum."""
    return len(content) >= HEADER and _is_header(content[:HEADER])


def _is_header(header: bytes) -> bool:
    return masked(header[:8]) == int.from_bytes(header[8:], "little")


def _damaged(path: Path, number: int, what: str) -> UserError:
    return UserError(f"is not a whole TFRecord file: record {number}, {what}", where=str(path), mend=AGAIN)


def masked(content: bytes) -> int:
    """The checksum as TFRecord stores it: rotated by 15 bits, and moved."""
    crc = crc32c(content)
    return (((crc >> 15) | (crc << 17)) + MASK) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """CRC-32C. A long content is read in stripes side by side, whose checksums are then put together."""
    if len(content) < LONG:
        return _serial(content, 0xFFFFFFFF) ^ 0xFFFFFFFF
    stripe = int(len(content) ** 0.5)
    stripes = len(content) // stripe
    striped = np.frombuffer(content, np.uint8, stripes * stripe).reshape(stripes, stripe)
    table, sums = _table(), np.zeros(stripes, np.uint32)
    for position in range(stripe):
        sums = table[(sums ^ striped[:, position]) & 0xFF] ^ (sums >> np.uint32(8))
    shift = _shift(stripe)
    crc = 0xFFFFFFFF
    for each in sums.tolist():  # the sum so far, moved past a stripe of zeros, and that stripe's own
        crc = shift[0][crc & 255] ^ shift[1][crc >> 8 & 255] ^ shift[2][crc >> 16 & 255] ^ shift[3][crc >> 24] ^ each
    return _serial(content[stripes * stripe :], crc) ^ 0xFFFFFFFF


def _serial(content: bytes, crc: int) -> int:
    table = _plain_table()
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc


@cache
def _plain_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


@cache
def _table() -> NDArray[np.uint32]:
    return np.asarray(_plain_table(), np.uint32)


@cache
def _shift(zeros: int) -> list[list[int]]:
    """What a checksum becomes after so many zero bytes, by each of its four bytes: the map is linear."""
    sums = np.asarray([[value << (8 * place) for value in range(256)] for place in range(4)], np.uint32)
    table = _table()
    for _ in range(zeros):
        sums = table[sums & 0xFF] ^ (sums >> np.uint32(8))
    return [row.tolist() for row in sums]


def parse_example(content: bytes) -> tuple[Features, Lists]:
    """Features of an Example or of a SequenceExample's context, and the lists of features of the latter."""
    features: Features = {}
    lists: Lists = {}
    for number, part in _messages(content):
        if number == 1:
            features |= {key: _feature(value) for key, value in _entries(part)}
        elif number == 2:
            lists |= {key: [_feature(item) for n, item in _messages(value) if n == 1] for key, value in _entries(part)}
    return features, lists


def _entries(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The pairs of a map."""
    for number, entry in _messages(content):
        if number == 1:
            pair = dict(_messages(entry))
            try:
                yield pair.get(1, b"").decode("utf-8"), pair.get(2, b"")
            except UnicodeDecodeError:
                raise Malformed("a name is no text") from None


def _feature(content: bytes) -> Values:
    for kind, part in _messages(content):
        if kind == 1:
            return [value for number, value in _messages(part) if number == 1]
        if kind == 2:
            return _floats(part)
        if kind == 3:
            return _integers(part)
    return []


def _messages(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Fields that are bytes; others are passed over."""
    return ((number, value) for number, wire, value in _fields(content) if wire == 2)


def _fields(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            start = at
            _, at = _varint(content, at)
            yield number, wire, content[start:at]
            continue
        if wire not in (1, 2, 5):
            raise Malformed(f"a field is of wire type {wire}")
        length, at = _varint(content, at) if wire == 2 else (8 if wire == 1 else 4, at)
        if at + length > len(content):
            raise Malformed("a field is longer than its message")
        yield number, wire, content[at : at + length]
        at += length


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise Malformed("a number is cut short")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Malformed("a number is too long")


def _floats(content: bytes) -> NDArray[np.float32]:
    pieces = []
    for number, wire, value in _fields(content):
        if number == 1 and wire in (2, 5):
            if len(value) % 4:
                raise Malformed("a list of floats is cut short")
            pieces.append(np.frombuffer(value, "<f4"))
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _integers(content: bytes) -> NDArray[np.int64]:
    packed = b"".join(value for number, wire, value in _fields(content) if number == 1 and wire in (0, 2))
    return _unpacked(np.frombuffer(packed, np.uint8))


def _unpacked(raw: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Numbers of seven bits a byte, the last byte of each below 128, all at once."""
    if not len(raw):
        return np.zeros(0, np.int64)
    last = np.flatnonzero(raw < 0x80)
    if not len(last) or last[-1] != len(raw) - 1:
        raise Malformed("a list of whole numbers is cut short")
    starts = np.append(0, last[:-1] + 1)
    place = np.arange(len(raw)) - np.repeat(starts, last - starts + 1)
    if place.max() > 9:
        raise Malformed("a number is too long")
    shifted = (raw & 0x7F).astype(np.uint64) << (np.uint64(7) * place.astype(np.uint64))
    return np.bitwise_or.reduceat(shifted, starts).view(np.int64)
