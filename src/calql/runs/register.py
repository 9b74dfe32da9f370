"""Methods, domains and formats of one's own, for programs that do not come as an installed package."""

from __future__ import annotations

from calql.data.formats import FORMATS
from calql.data.formats.base import Format
from calql.domains.base import Domain
from calql.domains.registry import DOMAINS
from calql.methods import METHODS, Entry
from calql.system.errors import UserError


def register(thing: Domain | Entry | Format, name: str | None = None) -> None:
    """Add a domain, a method or a data format under its name, for this process.

    A domain brings its name; the others are given one. An installed package needs no call: it names them as entry
    points of the groups `calql.domains`, `calql.methods` and `calql.formats`, which the command line finds too.
    """
    if isinstance(thing, Domain):
        DOMAINS.register(name or thing.name, thing)
    elif not isinstance(thing, Entry | Format):
        raise UserError(
            f"a {type(thing).__name__} cannot be registered",
            mend="give a Domain, an Entry of a method or a Format of data",
        )
    elif name is None:
        raise UserError("it has no name", mend="give one: register(entry, 'my-method')")
    elif isinstance(thing, Format):
        FORMATS.register(name, thing)
    else:
        METHODS.register(name, thing)
