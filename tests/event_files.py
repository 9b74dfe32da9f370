"""TensorBoard's event files, read without TensorBoard."""

from __future__ import annotations

from pathlib import Path


def steps(folder: Path, seed: int) -> list[int]:
    """Of every score in the event files of a seed, in the order in which they are there."""
    from tensorboardX.proto.event_pb2 import Event  # optional, like what writes them

    found = []
    for path in sorted((folder / "tensorboard" / f"seed-{seed}").glob("events.out.tfevents*")):
        content, place = path.read_bytes(), 0
        while place < len(content):  # length (8 bytes) and its checksum (4), the event, its checksum (4)
            length = int.from_bytes(content[place : place + 8], "little")
            event = Event.FromString(content[place + 12 : place + 12 + length])
            found += [event.step for value in event.summary.value if value.tag == "score"]
            place += length + 16
    return found
