"""The option that names a method's actor, and the check that the two go together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

import tyro

from calql.networks.actors import ACTORS, actor_kind, actors_that_give, settings_of
from calql.system.errors import UserError
from calql.system.options import Checked, refused

ActorName = Annotated[str, tyro.conf.arg(metavar="{" + ",".join(ACTORS) + "}")]


@dataclass(frozen=True)
class ActorOptions(Checked):
    """Options of a method whose actor can be another."""

    actor: ActorName = "tanh-gaussian"
    """Distribution of the policy's actions. Methods refuse what they cannot train."""
    standardise: bool = False
    """Give observations to the networks in units of their spread in the logged data; images stay as they are."""

    @property
    def actor_needs(self) -> frozenset[str]:
        """What the method asks of its actor beyond actions."""
        return frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        missing = self.actor_needs - actor_kind(self.actor).gives
        if missing:
            fitting = " or ".join(actors_that_give(self.actor_needs))
            raise refused("actor", self.actor, f"{fitting}: this method needs {' and '.join(sorted(missing))}")
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """A setting of other actors that was changed would do nothing, and say nothing."""
        of_others = frozenset().union(*(settings for _, settings in ACTORS.each(settings_of)))
        unused = of_others - settings_of(actor_kind(self.actor))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in unused and value != field.default:
                raise UserError(
                    f"the actor '{self.actor}' takes no --{field.name.replace('_', '-')}, and it is {value}",
                    mend=f"set it to {field.default}, or choose another actor with --actor",
                )
