"""Films of a run's policies: part of the page while it stays small, else named with the folder where they lie."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from calql.results.arms import known_as
from calql.results.html import ours
from calql.results.older import checkpoint_of
from calql.results.runs import RecordedRun
from calql.system.errors import UserError, shown
from calql.system.run_files import FILM_LIST, FILMS

KINDS = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}
WHEN = {"switch": "before fine-tuning", "final": "after fine-tuning"}
MOST_BYTES = 1_000_000  # of the list
BUDGET = 900_000  # bytes of films in a page, before they are written as text, which takes a third more


@dataclass(frozen=True)
class Film:
    """One film of the list."""

    path: Path
    title: str
    arm: str
    checkpoint: str
    seed: int


@dataclass(frozen=True)
class Shown:
    """A film on the page; one that is too large for it has no source but a link, if the page has a place."""

    title: str
    moving: bool  # a video, with controls; else a picture that moves by itself
    source: Markup | None
    link: str
    name: str


def read_films(folder: Path) -> list[Film]:
    """Those of the list; a list that cannot be used, or one that names what is not there, says why."""
    path = folder / FILMS / FILM_LIST
    if not path.is_file():
        return []
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("too large")
        listed = json.loads(path.read_text("utf-8"))
        if not isinstance(listed, list):
            raise ValueError("not a list")
        return [_checked(path.parent, each) for each in listed]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"is no list of films ({shown(str(error))[:100]})"
        raise UserError(what, where=str(path), mend="remove the folder, or film again") from None


def _checked(folder: Path, each: Mapping[str, Any]) -> Film:
    name = str(each["file"])
    path = folder / name
    if name != path.name or path.suffix.lower() not in KINDS:
        raise ValueError(f"'{name}' is no film beside it")
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"'{name}' is not there")
    return Film(path, str(each["title"]), str(each["arm"]), checkpoint_of(each), int(each["seed"]))


def films_of(run: RecordedRun, films: Sequence[Film], page: Path | None, budget: int) -> tuple[list[Shown], int]:
    """What a page shows of them, in their order, and what is left of the budget; the small ones come in first."""
    sizes = sorted((film.path.stat().st_size, place) for place, film in enumerate(films))
    inside = set()
    for size, place in sizes:
        if size <= budget:
            inside.add(place)
            budget -= size
    return [_shown(film, run, page, embedded=place in inside) for place, film in enumerate(films)], budget


def _shown(film: Film, run: RecordedRun, page: Path | None, *, embedded: bool) -> Shown:
    kind = KINDS[film.path.suffix.lower()]
    who = shown(known_as(run.config, film.arm)) if film.arm else ""
    when = WHEN.get(film.checkpoint, film.checkpoint)
    title = shown(film.title) or " · ".join(part for part in (who, shown(when), f"seed {film.seed}") if part)
    source = ours(f"data:{kind};base64,{base64.b64encode(film.path.read_bytes()).decode()}") if embedded else None
    link = "" if page is None else quote(os.path.relpath(film.path.resolve(), page.parent.resolve()))
    return Shown(title, kind.startswith("video"), source, link, film.path.name)
