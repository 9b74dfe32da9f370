"""Methods and domains of one's own, for programs that do not come as an installed package."""

from __future__ import annotations

from calql.domains.base import Domain
from calql.domains.registry import DOMAINS
from calql.methods import METHODS, Entry
from calql.system.errors import UserError


def register(thing: Domain | Entry, name: str | None = None) -> None:
    """Add a domain or a method under its name, for this process.

    A domain brings its name; a method is given one. An installed package needs no call: it names them as entry points
    of the groups `calql.domains` and `calql.methods`, which the command line finds too.
    """
    if isinstance(thing, Domain):
        DOMAINS.register(name or thing.name, thing)
    elif not isinstance(thing, Entry):
        raise UserError(f"a {type(thing).__name__} cannot be registered", mend="give a Domain, or an Entry of a method")
    elif name is None:
        raise UserError("the method has no name", mend="give one: register(entry, 'my-method')")
    else:
        METHODS.register(name, thing)
