"""How many values each column of a Parquet file holds, from its footer, in Thrift's compact protocol.

The library would tell, but ends the whole process where a footer is damaged in certain ways. Runs of one value take
next to no bytes in the file, so that its size says nothing about what it unpacks to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calql.system.archives import AGAIN
from calql.system.errors import UserError

MAGIC = b"PAR1"
DEEPEST = 16
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
NUMBERS = (4, 5, 6)  # of 16, 32 and 64 bits, all written alike
ROW_GROUPS, COLUMNS, META, PATH, VALUES, ROWS = 4, 1, 3, 3, 5, 3  # numbers of fields in Parquet's description


class _Damaged(ValueError):
    pass


def values_of(path: Path) -> tuple[int, dict[str, int]]:
    """Rows of the whole file, and values of each column, by the first part of its path."""
    try:
        footer = _Footer(_footer_bytes(path)).struct(0)
        rows, found = 0, dict[str, int]()
        for group in footer[ROW_GROUPS]:
            rows += max(int(group[ROWS]), 0)
            for column in group[COLUMNS]:
                name = column[META][PATH][0].decode("utf-8")
                found[name] = found.get(name, 0) + max(int(column[META][VALUES]), 0)
    except (_Damaged, KeyError, IndexError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise UserError(f"is not a whole Parquet file (footer: {error})", where=str(path), mend=AGAIN) from None
    return rows, found


def _footer_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != MAGIC or length > size - 12:
            raise _Damaged("its end is missing")
        file.seek(size - 8 - length)
        return file.read(length)


class _Footer:
    """A reader that goes through the bytes once."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > DEEPEST:
            raise _Damaged("nested too deep")
        found, number = dict[int, Any](), 0
        while head := self.content[self.at]:
            self.at += 1
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed()
            found[number] = self._value(kind, depth)
        self.at += 1
        return found

    def _value(self, kind: int, depth: int, *, listed: bool = False) -> Any:
        if kind in (TRUE, FALSE):
            self.at += listed  # in a list a truth value takes a byte, as a field it is its own type
            return kind == TRUE
        if kind in NUMBERS:
            return self._signed()
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth + 1)
        if kind == MAP:
            return self._map(depth + 1)
        if kind not in (BYTE, DOUBLE, BINARY):
            raise _Damaged(f"type {kind}")
        length = {BYTE: 1, DOUBLE: 8}.get(kind) or (self._number() if kind == BINARY else 0)
        if self.at + length > len(self.content):
            raise _Damaged("cut short")
        found = self.content[self.at : self.at + length]
        self.at += length
        return found

    def _list(self, depth: int) -> list[Any]:
        head = self.content[self.at]
        self.at += 1
        count = head >> 4 if head >> 4 < 15 else self._number()
        if count > len(self.content) or depth > DEEPEST:
            raise _Damaged("a list is longer than the footer")
        return [self._value(head & 15, depth, listed=True) for _ in range(count)]

    def _map(self, depth: int) -> None:
        count = self._number()
        kinds = self.content[self.at] if count else 0
        self.at += count > 0
        if count > len(self.content) or depth > DEEPEST:
            raise _Damaged("a map is longer than the footer")
        for _ in range(count):
            self._value(kinds >> 4, depth, listed=True)
            self._value(kinds & 15, depth, listed=True)

    def _signed(self) -> int:
        value = self._number()
        return (value >> 1) ^ -(value & 1)

    def _number(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise _Damaged("a number is too long")
