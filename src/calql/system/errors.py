"""Errors that a user can mend: one line that says what is wrong, where, and how to mend it."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

DIVERGED = 3  # exit code of a command that trained: a seed diverged
BEGINS = 3  # letters of a known name, with which an unknown one may begin


class UserError(Exception):
    """Wrong input, not a defect: the command line prints it as one line and exits with 2.

    Three parts make a message worth reading: what is wrong, where it is, and what to do about it.
    """

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        self.what, self.where, self.mend = what, where, mend
        text = f"{where}: {what}" if where else what
        super().__init__(" ".join(f"{text}; {mend}".split()) if mend else " ".join(text.split()))


class Diverged(UserError):
    """Training came to what is not a number and cannot go on; the last sound checkpoint is kept."""


def shown(text: str) -> str:
    """A text as it may go to a terminal: control characters, which could command it, are spelled out."""
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def of_system(error: OSError, where: str = "") -> UserError:
    """What the operating system refused, as something a user can mend."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
    place = str(where or error.filename or "")
    if full:
        return UserError(
            "the disk is full",
            where=place,
            mend="free some space; a run goes on from its last checkpoint with --resume",
        )
    return UserError(
        (error.strerror or str(error) or type(error).__name__).lower(),
        where=str(error.filename or place),
        mend="check that the path is right and may be read or written",
    )


def unknown(kind: str, name: str, known: Iterable[str], *, where: str = "", left_out: str = "") -> UserError:
    """An unknown name, with the nearest known one, and with what could have brought it."""
    names = sorted(known)
    lower = {each.lower(): each for each in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    close = close or [each for each in lower if len(each) >= BEGINS and name.lower().startswith(each)]
    mend = f"did you mean '{lower[close[0]]}'?" if close else f"known: {', '.join(names)}"
    return UserError(f"no {kind} is called '{name}'", where=where, mend=f"{mend} ({left_out})" if left_out else mend)
