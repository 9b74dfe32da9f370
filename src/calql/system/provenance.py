"""Which state of the code a result came from: results of a working copy name more than its version."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

VARIABLE = "CALQL_COMMIT"  # says it where the code was copied without its history
PACKAGE = Path(__file__).parents[1]
THIS = "system/provenance.py"


@cache
def commit() -> str | None:
    """The commit, with '-dirty' where the package was changed since; None outside a checkout."""
    if named := os.environ.get(VARIABLE):
        return named
    # A package installed below somebody's own repository is not part of it: git must know this very file.
    if _git("ls-files", "--error-unmatch", THIS) is None:
        return None
    head = _git("rev-parse", "HEAD")
    return f"{head}-dirty" if head and _git("status", "--porcelain", "--", ".") else head


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=PACKAGE, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
