"""Locks on files, which die with the process that holds them."""

from __future__ import annotations

import sys


def taken(file: int) -> bool | None:
    """Lock an open file for this process alone; False where another holds it, None where nothing can be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def waited_for(file: int) -> None:
    """Lock an open file for this process alone once nobody else holds it; where nothing can be locked, at once."""
    if sys.platform == "win32":
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)
