"""Pages from templates: every text is escaped by the environment, and a name that a template lacks is an error.

Pages are given plain data: the classes below, texts and numbers. `ours` is the one door for markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class TableCell:
    """What stands in one place of a table."""

    text: str
    below: str = ""  # a second, fainter line
    value: float | str | None = None  # what it sorts by, where its text will not do; empty ones come last
    css: str = ""
    hint: str = ""  # shown where the mouse rests
    dot: str = ""  # a colour
    badge: str = ""


Row = Sequence[TableCell]


@dataclass(frozen=True)
class Grid:
    """Head, body, and a foot that stays below the body however it is sorted."""

    heads: Row
    rows: Sequence[Row]
    foot: Sequence[Row] = field(default=())
    sortable: bool = False
    name: str = ""  # what it is called aloud; a page that is renewed keeps the order of a table by it


@dataclass(frozen=True)
class Card:
    """A table with a title above and a note below."""

    grid: Grid
    title: str = ""
    note: str = ""
    name: str = ""  # its anchor


def row(*texts: str) -> Row:
    return [TableCell(text) for text in texts]


def ours(markup: str) -> Markup:
    """Markup and scripts that this package or its drawing library wrote, put into a page as they are."""
    return Markup(markup)


def render(template: str, *, folder: Path = TEMPLATES, **data: object) -> str:
    """A whole page from a template of a folder, with nothing to load from elsewhere."""
    return environment(folder).get_template(template).render(data)


@cache
def macro(template: str, name: str) -> Callable[..., Markup]:
    """A part of a page, by the template that all pages share and its name there."""
    found: Callable[..., Markup] = getattr(environment().get_template(template).module, name)
    return found


@cache
def environment(folder: Path = TEMPLATES) -> Environment:
    """Templates of a folder, which may build on those that all pages share."""
    return Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
