"""Where logged rows are while a run trains: all on the device, or where they were, from where they are streamed."""

from __future__ import annotations

from calql.data import Dataset
from calql.engine.options import RunOptions
from calql.system.machine import device_memory, host_memory, in_words

MOST = 0.4  # of the memory, of the device or the host, that logged rows take without being asked to


def streams(data: Dataset, options: RunOptions) -> bool:
    """Whether only the rows of the next updates go to the device."""
    if options.stream == "auto":
        return logged_bytes(data) > MOST * min(device_memory(), host_memory())
    return options.stream == "on"


def placed(data: Dataset, options: RunOptions) -> tuple[Dataset, list[str]]:
    """The data on disk or in memory, as the run wants them; a line that says so where nobody asked for it."""
    if not streams(data, options):
        return (data.in_memory() if data.stored else data), []
    where = "on disk" if data.stored else "in the host's memory"
    there = in_words(min(device_memory(), host_memory()))
    told = (
        f"logged rows stay {where} and are streamed: all of them would take {in_words(logged_bytes(data))} of {there} "
        "of memory (--stream off loads them)"
    )
    return data, [told] if options.stream == "auto" else []


def logged_bytes(data: Dataset) -> int:
    """Of all logged rows as updates draw them; what is small beside observations and actions is left out."""
    return int(data.observations.nbytes + data.next_observations.nbytes + data.actions.nbytes)
