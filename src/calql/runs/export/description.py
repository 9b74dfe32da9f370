"""What an exported file says of itself: what it takes and gives, where it comes from, and what it is checked by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calql import __version__
from calql.results.arms import Member, named
from calql.runs.export.graph import Port
from calql.runs.policy_folder import Policies, members_of
from calql.system.run_config import read_config
from calql.system.run_files import CONFIG

FORMAT = 1
ABOUT_RUN = ("task", "method", "phase", "versions")
ABOUT_MEMBER = ("updates", "env_steps")


def describe(
    policies: Policies, member: Member, inputs: Sequence[Port], outputs: Sequence[Port], chosen: str, folder: Path
) -> dict[str, Any]:
    """In words and numbers that JSON holds."""
    found = policies.description
    place = members_of(found["seeds"], found["arms"]).index(member)
    return {
        "format": FORMAT,
        "what": "a policy of calql: observations in, actions in the environment's units out",
        "inputs": [vars(port) for port in inputs],
        "outputs": [vars(port) for port in outputs],
        "observation": {
            **{name: found["observation"][name] for name in ("shape", "dtype", "low", "high")},
            "parts": [part["name"] for part in found["observation"].get("parts", [{"name": "observation"}])],
        },
        "action": {name: value for name, value in found["action"].items() if name != "from"},
        **{name: found[name] for name in ABOUT_RUN if name in found},
        **{name: found[name][place] for name in ABOUT_MEMBER if name in found},
        **named(member),
        "chosen": chosen,
        "arrays": found["checksums"][place] if "checksums" in found else None,  # as in the run's policy/
        "dataset": _dataset(folder),
        "written_by": f"calql {__version__}",
    }


def _dataset(folder: Path) -> dict[str, Any] | None:
    """The data that the run was trained on, where the folder of the run is at hand."""
    if not (folder / CONFIG).is_file():
        return None
    found = read_config(folder)["dataset"]
    return {name: found[name] for name in ("transitions", "episodes", "fingerprint") if name in found}
