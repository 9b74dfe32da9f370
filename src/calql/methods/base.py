"""What a method is: a pytree state and pure functions, safe under jit, vmap and scan.

A method knows nothing of environments, files or loggers. It sees batches of transitions, and later
observations to act on; the engine vmaps it over seeds and scans it over updates.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import jax

from calql.networks import Spec

State = Any  # a method's pytree: parameters, optimiser state, numeric hyper-parameters
Policy = Any  # the part of the state that acting needs
Carry = Any  # what a policy remembers within an episode; () for one that looks at the observation alone
Metrics = dict[str, jax.Array]  # named scalars


class Transitions(NamedTuple):
    """Columns of transitions: a whole dataset [row, ...], a buffer, or a batch drawn from them.

    Optional columns are there when a method asks for them by name in `columns`.
    """

    observations: jax.Array
    actions: jax.Array  # in [-1, 1]
    rewards: jax.Array  # mapped
    next_observations: jax.Array
    terminals: jax.Array  # float: 1 where nothing more can be earned; a truncated step has 0
    reference: jax.Array  # value of the behaviour in the data; -inf where there is none
    next_actions: jax.Array | None = None  # logged successor action; the action itself where there is none
    has_next_action: jax.Array | None = None  # float: 0 at the last step of an episode
    timestep: jax.Array | None = None  # int32: steps since the start of the episode
    remaining: jax.Array | None = None  # int32: steps to the end of the episode
    return_to_go: jax.Array | None = None  # undiscounted sum of recorded rewards from here on


class Moment(NamedTuple):
    """What a policy sees before it acts."""

    observation: jax.Array
    previous_reward: jax.Array  # recorded reward of the step before; 0 at the first
    timestep: jax.Array  # int32


class Method(Protocol):
    """The interface of every method. Instances are frozen dataclasses of their options, so they hash."""

    columns: ClassVar[frozenset[str]]  # optional columns of Transitions it needs
    uses_reference: ClassVar[bool]  # whether a reference value means anything to it
    supports_images: ClassVar[bool]
    sampling: ClassVar[Literal["transition", "sequence"]]

    @property
    def batch_size(self) -> int:
        """Rows of one minibatch."""
        ...

    @property
    def minibatches(self) -> int:
        """Minibatches that one call of `update` takes; it counts as that many gradient steps."""
        ...

    def init(self, key: jax.Array, spec: Spec) -> State:
        """A fresh state."""
        ...

    def update(self, state: State, batch: Transitions, key: jax.Array) -> tuple[State, Metrics]:
        """One update on a batch [minibatch, row, ...]."""
        ...

    def policy(self, state: State) -> Policy:
        """The part of the state that acting needs."""
        ...

    def start(self, policy: Policy) -> Carry:
        """What the policy remembers at the start of an episode."""
        ...

    def act(
        self, policy: Policy, carry: Carry, moment: Moment, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        """One action in [-1, 1] for one observation: drawn when exploring, else the deterministic one."""
        ...

    def value(self, state: State, observations: jax.Array, actions: jax.Array) -> jax.Array | None:
        """Q [batch], averaged over critics, for the diagnosis; None where a method has no Q-function."""
        ...

    def switch(self, state: State) -> tuple[Self, State]:
        """The method and state that go on online. Nothing is reset."""
        ...


__all__ = ["Carry", "Method", "Metrics", "Moment", "Policy", "Spec", "State", "Transitions"]
