"""How much a packed chunk of a Zarr store unpacks to, known without room being made for what it claims."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

BLOCK = 2**16
ZSTD = 0xFD2FB528


def unpacked_size(path: Path, packing: str | None, most: int) -> int | None:
    """Bytes that it says it unpacks to, or, where it does not say, that it does; None where that makes no sense.

    Counting stops beyond `most`: such a chunk is refused anyway.
    """
    if packing is None:
        return path.stat().st_size
    with path.open("rb") as file:
        head = file.read(18)
    try:
        if packing == "blosc":
            unpacked, _, packed = struct.unpack_from("<III", head, 4)
            return int(unpacked) if packed == path.stat().st_size else None  # the library reads on beyond the end
        if packing == "lz4":
            return int(struct.unpack_from("<I", head)[0])
        if packing == "zstd":
            return _zstd(head)
        return _deflated(path, most)
    except (struct.error, zlib.error, IndexError):
        return None


def _zstd(head: bytes) -> int | None:
    """The content size in the header of a frame; frames without one are refused."""
    if struct.unpack_from("<I", head)[0] != ZSTD:
        return None
    flags = head[4]
    single = flags >> 5 & 1
    at = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    kind = flags >> 6
    if kind == 0:
        return head[at] if single else None
    size = int.from_bytes(head[at : at + (2, 4, 8)[kind - 1]], "little")
    return size + 256 if kind == 1 else size


def _deflated(path: Path, most: int) -> int | None:
    """By unpacking block after block and keeping none."""
    unpacker, total = zlib.decompressobj(zlib.MAX_WBITS | 32), 0
    with path.open("rb") as file:
        while total <= most and not unpacker.eof:
            packed = unpacker.unconsumed_tail or file.read(BLOCK)
            if not packed:
                return None
            total += len(unpacker.decompress(packed, BLOCK))
        more = unpacker.unused_data or file.read(1)  # what follows the end could unpack to anything
    return None if more else total
