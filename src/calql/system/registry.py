"""Registry of built-in, entry-point and runtime plugins.

Another package brings one by an entry point: its name is the plugin's name, its value where the plugin is. It is
imported when it is asked for. Who looks at all of them takes `loadable` or `each`, so that a package that cannot be
imported harms nobody who does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any, Generic, TypeVar

from calql.system.errors import UserError

Thing = TypeVar("Thing")
Part = TypeVar("Part")


class Registry(Mapping[str, Thing], Generic[Thing]):
    """A mapping from name to thing, put together when it is first looked at."""

    def __init__(
        self, kind: str, group: str, thing: type[Any], own: Callable[[], Mapping[str, Thing]], *, classes: bool = False
    ) -> None:
        """Of instances of `thing`, or with `classes` of classes that derive from it."""
        self.kind, self.group, self._thing, self._own, self._classes = kind, group, thing, own, classes
        self._found: dict[str, Thing | metadata.EntryPoint | UserError] | None = None
        self._points: dict[str, metadata.EntryPoint] = {}
        self._registered: dict[str, Thing] = {}
        self._broken: dict[str, UserError] = {}

    def register(self, name: str, thing: Thing) -> None:
        """Add one for this process; a name that another has is refused.

        What is there already stays, also where an entry point brings it. What was registered by hand gives way to the
        same from the same place, as when a cell of a notebook runs again.
        """
        if not self._fits(thing):
            raise UserError(f"the {self.kind} '{name}' is {_shown(thing)}", mend=f"give {self._wanted()}")
        if name in self and self._holds(name, thing):
            return
        again = name in self._registered and _place(thing) and _place(thing) == _place(self._registered[name])
        if name in self and not again:
            raise UserError(f"there is a {self.kind} '{name}' already", mend="give yours another name")
        self._registered[name] = thing

    def _holds(self, name: str, thing: Thing) -> bool:
        try:
            return bool(self[name] == thing)
        except UserError:  # of another package, and it cannot be loaded
            return False

    def loadable(self) -> dict[str, Thing]:
        """Those that can be loaded."""
        return dict(self.each(lambda thing: thing))

    def each(self, part: Callable[[Thing], Part]) -> Iterator[tuple[str, Part]]:
        """Each name with what `part` makes of the thing, as it is asked for.

        One of another package that cannot be loaded, or of which `part` makes nothing, is left out and is in `broken`.
        """
        for name in list(self):  # what is loaded may register more
            try:
                made = part(self[name])
            except Exception as error:
                if name not in self._points:
                    raise
                self._broken[name] = error if isinstance(error, UserError) else self._unusable(name, error)
            else:
                yield name, made

    @property
    def broken(self) -> Mapping[str, UserError]:
        """Those of other packages that were left out so far, and why."""
        return self._broken

    def left_out(self) -> str:
        """The same in words, for a list or beside a name that is not known; empty where nothing was."""
        return "; ".join(error.what for error in self._broken.values())

    def __getitem__(self, name: str) -> Thing:
        if name in self._registered:
            return self._registered[name]
        found = self._known()[name]
        if isinstance(found, metadata.EntryPoint):
            found = self._known()[name] = self._loaded(name, found)
        if isinstance(found, UserError):
            raise found
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._known()
        yield from self._registered

    def __len__(self) -> int:
        return len(self._known()) + len(self._registered)

    def __contains__(self, name: object) -> bool:  # without importing what another package brings
        return name in self._registered or name in self._known()

    def _known(self) -> dict[str, Thing | metadata.EntryPoint | UserError]:
        if self._found is None:
            own = self._own()
            brought = {point.name: point for point in metadata.entry_points(group=self.group)}
            self._points = {name: point for name, point in brought.items() if name not in own}
            self._found = {**own, **self._points}
        return self._found

    def _loaded(self, name: str, point: metadata.EntryPoint) -> Thing | UserError:
        """What lies there; or the error that it is none, so that it is imported once."""
        try:
            found: Any = point.load()
        except Exception as error:
            return self._unusable(name, error)
        if not self._fits(found):
            return self._refused(name, f"is {_shown(found)} and not {self._wanted()}")
        return found

    def _unusable(self, name: str, error: Exception) -> UserError:
        said = " ".join(str(error).split())
        refused = self._refused(name, f"cannot be loaded ({type(error).__name__}: {said})")
        refused.__cause__ = error
        return refused

    def _refused(self, name: str, why: str) -> UserError:
        where = f"entry point {self.group}, {name} = {self._points[name].value}"
        mend = "mend or uninstall the package that brings it"
        return UserError(f"the {self.kind} '{name}' {why}", where=where, mend=mend)

    def _fits(self, thing: Any) -> bool:
        if self._classes:
            return isinstance(thing, type) and issubclass(thing, self._thing)
        return isinstance(thing, self._thing)

    def _wanted(self) -> str:
        name = f"{self._thing.__module__}.{self._thing.__qualname__}"
        return f"a class derived from {name}" if self._classes else f"a {name}"


def _place(thing: Any) -> tuple[str, ...]:
    """Where it is written: a class by its full name, anything else by those of the functions and classes it holds."""
    parts = (thing,) if isinstance(thing, type) else vars(thing).values()
    return tuple(f"{part.__module__}.{part.__qualname__}" for part in parts if hasattr(part, "__qualname__"))


def _shown(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"
