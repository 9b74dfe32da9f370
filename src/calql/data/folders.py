"""Folders of strangers: what lies in one is read, and nothing that a link in it points to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from calql.system.archives import AGAIN
from calql.system.errors import UserError

LARGEST_TEXT = 2**26  # bytes of a description in JSON


def require_plain(folder: Path) -> int:
    """Refuse links inside of the folder, and what is no file; the bytes of all files."""
    total = 0
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise UserError("is a link, which is not followed", where=str(path), mend="copy the folder with cp -rL")
        total += sum(os.stat(os.path.join(place, name)).st_size for name in files)
    return total


def read_json(path: Path) -> dict[str, Any]:
    """An object of a description file."""
    try:
        if path.stat().st_size > LARGEST_TEXT:
            raise UserError("is too large for a description", where=str(path), mend=AGAIN)
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"cannot be read ({error})", where=str(path), mend=AGAIN) from None
    if not isinstance(found, dict):
        raise UserError("is not a JSON object", where=str(path), mend=AGAIN)
    return found
