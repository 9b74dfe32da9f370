"""How a run hears that it should stop, and when it must not be ended: the engine's side of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

PATIENCE_S = 0.2  # spent on waiting for others before looking again whether to stop


class Stop(Protocol):
    """Looked at between steps of environments in this process, in every wait, and between blocks of updates."""

    def asked(self) -> bool:
        """Whether the run should come to its checkpoint and end."""
        ...

    def shield(self) -> AbstractContextManager[None]:
        """While something is written: the process is not ended within it."""
        ...


class Never:
    """Nobody stops it."""

    def asked(self) -> bool:
        return False

    def shield(self) -> AbstractContextManager[None]:
        return nullcontext()


class Halted(BaseException):
    """An episode was broken off because the run stops; it is played again on resume."""
