"""What an evaluation says where there is no environment to play in: policies valued from logged data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from calql.data import Dataset
from calql.methods.base import Method, Policy
from calql.methods.reference import Fit, MonteCarlo, over_episodes
from calql.methods.reference.closeness import closeness
from calql.methods.reference.fqe import actions_of, estimates, fit_policies
from calql.methods.vocabulary import BEHAVIOUR_VALUE, FQE_HIGH, FQE_LOW, FQE_VALUE
from calql.networks.acting import in_float32
from calql.system.errors import UserError

FEW = 20  # episodes, from which on an interval over them is worth something


@dataclass(frozen=True)
class Assessment:
    """Of the policies of one moment, all seeds together. The fit never sees the held-out episodes."""

    method: Method
    fit: Fit  # of the episodes that are trained on
    held_out: Dataset

    def __call__(self, policies: Policy) -> list[dict[str, Any]]:
        """Numbers for the row of each policy [policy, ...]: they follow from the policies and the data alone."""
        acting = jax.tree.map(jnp.asarray, in_float32(policies))
        held_out, data = self.held_out, self.fit.data
        starts = held_out.episode_starts
        allowed = None if held_out.action_masks is None else held_out.action_masks[starts]
        first = actions_of(self.method, acting, held_out.observations[starts], allowed)
        after = actions_of(self.method, acting, data.next_observations, data.next_action_masks)
        valued = estimates(fit_policies(self.fit, after)(held_out.observations[starts], first))
        behaviour = float(np.mean(self._returns[starts]))
        names = FQE_VALUE, FQE_LOW, FQE_HIGH, BEHAVIOUR_VALUE
        values = [(each.value, each.low, each.high, behaviour) for each in valued]
        return [
            {**{name: value / self._unit for name, value in zip(names, row, strict=True)}, **near}
            for row, near in zip(values, closeness(self.method, acting, held_out), strict=True)
        ]

    @property
    def _unit(self) -> float:
        """Of a return that is learned from, in recorded rewards; 1 where these are costs or are shifted."""
        rule = self.fit.rewards
        return rule.scale if rule.scale > 0.0 and rule.shift == 0.0 else 1.0

    @property
    def notes(self) -> tuple[str, ...]:
        count = len(self.held_out.episode_ends)
        few = f"{count} episode{'s are' if count > 1 else ' is'} held out: intervals over so few say little"
        return (f"{few}; raise --hold-out, or bring more logs",) if count < FEW else ()

    @property
    def _returns(self) -> Any:
        held = Fit(self.held_out, self.fit.rewards, self.fit.discount)
        return over_episodes(MonteCarlo(self.fit.rewards, self.fit.discount), held)


def make_assessment(method: Method, fit: Fit, held_out: Dataset | None) -> Assessment:
    """Refuses what cannot be valued, before anything starts."""
    if held_out is None:
        raise UserError(
            f"no episode of {len(fit.data.episode_ends)} is held out",
            where=fit.data.source,
            mend="raise --hold-out: without an environment, policies are valued on episodes that training never saw",
        )
    if method.sampling == "sequence":
        raise UserError(
            "a policy that looks back over an episode cannot be valued from logs alone",
            where="--offline",
            mend="choose a method whose action depends on the observation alone (calql methods)",
        )
    return Assessment(method, fit, held_out)
