"""Arms of a sweep: every seed once for each value of an option, all of them in one program.

The values are numbers in the method's state, so one compiled update serves all arms. Only what makes or changes those
numbers, the start and the switch, is done by the method of each arm itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from calql.engine.plan import Plan
from calql.methods.base import Method


def by_arm(plan: Plan, function: Callable[[Method, Any], Any], tree: Any) -> Any:
    """A function of a method and a tree [member, ...], with each arm's method for its members."""
    if not plan.arms:
        return function(plan.method, tree)
    seeds = plan.options.seeds
    parts = [
        function(arm.method, jax.tree.map(lambda leaf, first=place * seeds: leaf[first : first + seeds], tree))
        for place, arm in enumerate(plan.arms)
    ]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
