"""Copies of modules that end with their last use: by hand with other fields, and by pickle to another process.

Equinox notes every module that `__new__` makes and holds it until `__init__` is over. `copy.copy` and pickle call the
first without the second, so what they make would be kept for good, weights included.
"""

from __future__ import annotations

import io
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

import equinox as eqx

Module = TypeVar("Module", bound=eqx.Module)


def with_fields(module: Module, **fields: Any) -> Module:
    """A copy of a module with other fields, static ones too."""
    return made_of(type(module), vars(module) | fields)


def made_of(kind: type[Module], fields: dict[str, Any]) -> Module:
    """A module that nobody but its user holds; as when a tree is put together again."""
    module: Module = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(module, name, value)
    return module


class _Pickler(ForkingPickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, eqx.Module):
            return made_of, (type(obj), vars(obj))
        return NotImplemented


def pickled(message: Any) -> bytes:
    """For a process that reads it with pickle: the modules in it are made there without being kept."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(message)
    return buffer.getvalue()
