"""How tables and figures call a method, and where they have it."""

from __future__ import annotations

from contextlib import suppress

from calql.methods import METHODS, title_of
from calql.system.errors import UserError


def method_name(method: str) -> str:
    """What papers call it; a table from elsewhere may have methods that are unknown here."""
    with suppress(UserError):
        return title_of(method)
    return method


def method_place(method: str) -> int:
    """The place of a method in tables and among the colours: that of `calql methods`."""
    known = list(METHODS)
    return known.index(method) if method in known else len(known)


def method_called(title: str) -> str | None:
    """The method that papers call so."""
    return next((method for method in METHODS if method_name(method) == title), None)
