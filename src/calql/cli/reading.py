"""The options of every command that reads a dataset of anybody's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from calql.data import Reading
from calql.system.options import Checked


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Checked):
    """How a dataset is read, the same for every command."""

    file: Annotated[str, tyro.conf.Positional]
    """A file or a folder of any format, or minari:NAME."""
    columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROLE=NAME ...")] = ()
    """Which columns are what, for example 'observation=joint_*' 'action=cmd_*' reward=r episode=run."""
    observations: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Parts of dictionary observations by name, in your order: vectors, cameras, or both."""
    reward: Annotated[str | None, tyro.conf.arg(metavar="WHAT")] = None
    """A column, success=FLAG, end, end=COLUMN or package:function."""
    drop_bad_episodes: bool = False
    """Leave out the episodes that are bad, and count them."""

    @property
    def reading(self) -> Reading:
        return Reading(self.columns, self.observations, self.reward, self.drop_bad_episodes)
