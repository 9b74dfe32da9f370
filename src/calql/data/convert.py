"""A dataset written again in another format."""

from __future__ import annotations

from pathlib import Path

from calql.data.dataset import Dataset
from calql.data.formats import FORMATS, known_formats
from calql.data.formats.base import Format
from calql.data.formats.minari import MINARI
from calql.data.load import by_suffix
from calql.system.errors import UserError


def write(dataset: Dataset, target: str | Path) -> None:
    """To a new file whose name says the format, or to Minari's store as `minari:NAME`."""
    if str(target).startswith(MINARI):
        writer: Format | None = FORMATS["minari"]
        path = Path(str(target))
    else:
        path = Path(target).expanduser()
        writer = by_suffix(path)
        if path.exists():
            raise UserError("exists already", where=str(path), mend="choose another name")
    if writer is None or writer.write is None:
        endings = ", ".join(s for each in known_formats() if each.write is not None for s in each.suffixes)
        raise UserError(
            "is no name of a format that is written",
            where=str(target),
            mend=f"end it in {endings}, or give minari:NAME",
        )
    if dataset.masks and not writer.masks:
        keeping = ", ".join(s for each in known_formats() if each.masks for s in each.suffixes)
        raise UserError("cannot keep masks of actions", where=str(target), mend=f"end it in one of {keeping}")
    writer.write(dataset, path)
