"""How a file is to be read: which of its columns are what, in which order, and what counts as reward."""

from __future__ import annotations

from dataclasses import dataclass

from calql.system.errors import UserError, unknown
from calql.system.options import Checked

ROLES: dict[str, tuple[str, ...]] = {  # what a column may be, and the names that say so by themselves
    "observation": ("observation", "observations", "obs"),
    "next_observation": ("next_observation", "next_observations", "next_obs"),
    "action": ("action", "actions"),
    "reward": ("reward", "rewards"),
    "terminal": ("terminal", "terminals", "terminated"),
    "timeout": ("timeout", "timeouts", "truncated"),
    "success": ("success", "is_success"),
    "episode": ("episode", "episode_id", "episode_index"),
    "time": ("time", "timestamp"),
}
SEVERAL = ("observation", "next_observation", "action")  # may be put together from several columns
EXAMPLE = "for example --columns 'observation=joint_*' 'action=cmd_*' reward=r episode=run_id"


@dataclass(frozen=True)
class Reading(Checked):
    """What a user says about a file; what is not said, the format says itself."""

    columns: tuple[str, ...] = ()  # ROLE=NAME, with * and ? in names, and commas between several
    observations: tuple[str, ...] = ()  # the parts of dictionary observations, in this order
    reward: str | None = None  # a column, success[=FLAG], end[=COLUMN] or package:function
    drop_bad_episodes: bool = False
    scratch: str | None = None  # a folder for large columns, which then need not fit into memory

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.observations and "observation" in self.roles:
            raise UserError("--observations and --columns observation=... say the same", mend="leave one of them out")

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """The patterns of names that the user gives each role."""
        found: dict[str, tuple[str, ...]] = {}
        for word in self.columns:
            role, equals, names = word.partition("=")
            patterns = tuple(name for name in names.split(",") if name)
            if not equals or not patterns:
                raise UserError(f"--columns {word}", mend=f"give ROLE=NAME, {EXAMPLE}")
            if role not in ROLES:
                raise unknown("role of a column", role, ROLES, where="--columns")
            found[role] = (*found.get(role, ()), *patterns)
        return found

    @property
    def chooses(self) -> bool:
        """Whether anything is said about columns or rewards."""
        return bool(self.columns or self.observations or self.reward)


AS_IT_IS = Reading()
