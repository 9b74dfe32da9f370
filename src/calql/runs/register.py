"""Methods, domains, actors and formats of one's own, for programs that do not come as an installed package."""

from __future__ import annotations

from typing import Any

from calql.data.formats import FORMATS
from calql.data.formats.base import Format
from calql.domains.base import Domain
from calql.domains.registry import DOMAINS
from calql.methods import METHODS, Entry
from calql.networks.actors import ACTORS, Actor
from calql.system.errors import UserError
from calql.system.registry import Registry


def register(thing: Domain | Entry | Format | type[Actor], name: str | None = None) -> None:
    """Add a domain, a method, an actor or a data format under its name, for this process.

    A domain brings its name; the others are given one. An installed package needs no call: it names them as entry
    points of the groups `calql.domains`, `calql.methods`, `calql.actors` and `calql.formats`, which the command line
    finds too.
    """
    registry = _registry_of(thing)
    if isinstance(thing, Domain):
        name = name or thing.name
    if name is None:
        raise UserError("it has no name", mend="give one: register(entry, 'my-method')")
    registry.register(name, thing)


def _registry_of(thing: object) -> Registry[Any]:
    if isinstance(thing, type) and issubclass(thing, Actor):
        return ACTORS
    for kind, registry in ((Domain, DOMAINS), (Entry, METHODS), (Format, FORMATS)):
        if isinstance(thing, kind):
            return registry
    raise UserError(
        f"a {type(thing).__name__} cannot be registered",
        mend="give a Domain, an Entry of a method, an Actor's class or a Format of data",
    )
