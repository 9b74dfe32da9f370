"""Which environments of their own a user has named: a run folder may be a stranger's, and loading it imports a module.

Whoever trains with `--env package:Name` has asked for the package. Whoever loads a run has not: its config.json names
it. So the names that a user gave are remembered, and any other is asked about once.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from calql.data.store import data_root
from calql.system.errors import UserError
from calql.system.files import written_whole
from calql.system.run_config import read_config

FILE = "trusted-environments"


def remember(env: str | None) -> None:
    """The user named this environment; it need not be asked about again."""
    if env is None or not _imports(env) or env in _remembered():
        return
    with contextlib.suppress(OSError):  # nowhere to remember it: it is asked about the next time
        data_root().mkdir(parents=True, exist_ok=True)
        with written_whole(data_root() / FILE) as file:
            file.write("".join(f"{name}\n" for name in sorted({*_remembered(), env})).encode())


def trust_run(folder: Path | str) -> None:
    """The user vouches for the environment and the reward function that a run names."""
    config = read_config(Path(folder))
    given = config.get("given")
    choice = config["choice"]
    for name in (choice.get("env"), choice.get("reward"), given.get("env") if isinstance(given, dict) else None):
        remember(name if isinstance(name, str) else None)


def require_trusted(env: str | None, folder: Path) -> None:
    """Refuse to import what only a config file names."""
    if env is not None and _imports(env) and env not in _remembered():
        raise UserError(
            f"loading it imports the module '{env.split(':', 1)[0]}', which only its config.json names",
            where=str(folder),
            mend="if you trust it, add --trust (in Python: trust=True)",
        )


def _imports(env: str) -> bool:
    """What stands before a colon is imported: by Gymnasium, or to find a function that makes an environment."""
    return ":" in env


def _remembered() -> set[str]:
    try:
        return set((data_root() / FILE).read_text().splitlines())
    except (OSError, ValueError):
        return set()
