"""Registry of built-in, entry-point and runtime plugins.

Another package brings one by an entry point: its name is the plugin's name, its value where the plugin is.
It is imported when it is asked for, so that a package that cannot be imported harms nobody who does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Generic, TypeVar

from calql.system.errors import UserError

Thing = TypeVar("Thing")


class Registry(Mapping[str, Thing], Generic[Thing]):
    """A mapping from name to thing, put together when it is first looked at."""

    def __init__(self, kind: str, group: str, thing: type[Thing], own: Callable[[], Mapping[str, Thing]]) -> None:
        self.kind, self.group, self._thing, self._own = kind, group, thing, own
        self._found: dict[str, Thing | metadata.EntryPoint] | None = None
        self._registered: dict[str, Thing] = {}

    def register(self, name: str, thing: Thing) -> None:
        """Add one for this process; a name that is taken is refused."""
        if not isinstance(thing, self._thing):
            raise UserError(f"the {self.kind} '{name}' is a {type(thing).__name__}", mend=f"give a {self._named()}")
        if name in self:
            raise UserError(f"there is a {self.kind} '{name}' already", mend="give yours another name")
        self._registered[name] = thing

    def forget(self, name: str) -> None:
        """Take back what was registered."""
        self._registered.pop(name, None)

    def __getitem__(self, name: str) -> Thing:
        if name in self._registered:
            return self._registered[name]
        found = self._known()[name]
        if isinstance(found, metadata.EntryPoint):
            found = self._known()[name] = self._load(found)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._known()
        yield from self._registered

    def __len__(self) -> int:
        return len(self._known()) + len(self._registered)

    def __contains__(self, name: object) -> bool:  # without importing what another package brings
        return name in self._registered or name in self._known()

    def _known(self) -> dict[str, Thing | metadata.EntryPoint]:
        if self._found is None:
            own = self._own()
            brought = {point.name: point for point in metadata.entry_points(group=self.group)}
            self._found = {**own, **{name: point for name, point in brought.items() if name not in own}}
        return self._found

    def _load(self, point: metadata.EntryPoint) -> Thing:
        where = f"entry point {self.group}, {point.name} = {point.value}"
        mend = "mend or uninstall the package that brings it"
        try:
            found = point.load()
        except Exception as error:
            what = f"the {self.kind} '{point.name}' cannot be loaded ({type(error).__name__}: {error})"
            raise UserError(what, where=where, mend=mend) from error
        if not isinstance(found, self._thing):
            what = f"the {self.kind} '{point.name}' is a {type(found).__name__} and not a {self._named()}"
            raise UserError(what, where=where, mend=mend)
        return found

    def _named(self) -> str:
        return f"{self._thing.__module__}.{self._thing.__qualname__}"
