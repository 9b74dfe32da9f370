"""What a method is: a pytree state and pure functions, safe under jit, vmap and scan.

A method knows nothing of environments, files or loggers. It sees batches of transitions, and later
observations to act on; the engine vmaps it over seeds and scans it over updates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import optax

from calql.methods.optimise import ADAM, descend
from calql.methods.vocabulary import METRICS, Meaning, meaning_of
from calql.networks import Spec
from calql.networks.encoder import random_shift
from calql.networks.parts import layout_in, shifted
from calql.system.layout import Layout
from calql.system.options import Checked, require

State = Any  # a method's pytree: parameters, optimiser state, numeric hyper-parameters
Policy = Any  # the part of the state that acting needs
Carry = Any  # what a policy remembers within an episode; () for one that looks at the observation alone
Metrics = dict[str, jax.Array]  # named scalars
Sampling = Literal["transition", "sequence"]
RATES = ("policy_rate", "critic_rate", "target_rate")  # options that most methods may vary
Network = TypeVar("Network")
Numbers = TypeVar("Numbers", bound=tuple[Any, ...])


class Transitions(NamedTuple):
    """Columns of transitions: a whole dataset [row, ...], a buffer, or a batch drawn from them.

    Optional columns are there when a method asks for them by name in `columns`.
    """

    observations: jax.Array
    actions: jax.Array  # in [-1, 1]; one-hot rows of discrete actions
    rewards: jax.Array  # mapped
    next_observations: jax.Array
    terminals: jax.Array  # float: 1 where nothing more can be earned; a truncated step has 0
    reference: jax.Array  # value of the behaviour in the data; -inf where there is none
    next_actions: jax.Array | None = None  # logged successor action; the action itself where there is none
    has_next_action: jax.Array | None = None  # float: 0 at the last step of an episode
    timestep: jax.Array | None = None  # int32: steps since the start of the episode
    remaining: jax.Array | None = None  # int32: steps to the end of the episode
    return_to_go: jax.Array | None = None  # undiscounted sum of recorded rewards from here on
    action_masks: jax.Array | None = None  # bool [..., choice], of discrete actions alone: what is allowed
    next_action_masks: jax.Array | None = None  # and at the next observation
    returns: jax.Array | None = None  # of a batch alone, [2]: least and largest possible return, if targets are bounded


class TimeStep(NamedTuple):
    """What a policy sees before it acts."""

    observation: jax.Array
    previous_reward: jax.Array  # recorded reward of the step before; 0 at the first
    timestep: jax.Array  # int32
    action_mask: jax.Array | None = None  # bool [choice], of discrete actions alone: what is allowed


class Method(Protocol):
    """The interface of every method. Instances are frozen dataclasses of their options, so they hash."""

    @property
    def columns(self) -> frozenset[str]:
        """Optional columns of Transitions that it needs."""
        ...

    @property
    def uses_reference(self) -> bool:
        """Whether a reference value means anything to it."""
        ...

    @property
    def supports_images(self) -> bool: ...

    @property
    def sampling(self) -> Sampling:
        """What one row of a batch is: a transition, or a stretch of `context` steps of one episode."""
        ...

    @property
    def context(self) -> int:
        """Steps of a sequence; 1 for transitions."""
        ...

    @property
    def batch_size(self) -> int:
        """Rows of one minibatch."""
        ...

    @property
    def minibatches(self) -> int:
        """Minibatches that one call of `update` takes; it counts as that many gradient steps."""
        ...

    @property
    def bounds_targets(self) -> bool:
        """Whether it cuts TD targets to the possible returns, and asks for these with each batch."""
        ...

    @property
    def varies(self) -> tuple[str, ...]:
        """Options in which the seeds of one program may differ: they are numbers of its state and nothing else."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before it starts."""
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
        self, policy: Policy, carry: Carry, time_step: TimeStep, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        """One action for one observation, in [-1, 1] or one-hot: drawn when exploring, else the deterministic one."""
        ...

    def value(self, state: State, observations: jax.Array, actions: jax.Array) -> jax.Array | None:
        """Q [batch], averaged over critics, for the diagnosis; None where a method has no Q-function."""
        ...

    def switch(self, state: State) -> tuple[Self, State]:
        """The method and state that go on online. Nothing is reset."""
        ...


class Trained(NamedTuple, Generic[Network]):
    """A network and the moments of its Adam. They move together, so a network left out of an update stands still."""

    parameters: Network
    adam: optax.OptState

    @classmethod
    def fresh(cls, network: Network) -> Self:
        return cls(network, ADAM.init(network))


def learn(
    loss: Callable[..., tuple[jax.Array, Metrics]], trained: Trained[Network], rate: jax.Array, *inputs: Any
) -> tuple[Trained[Network], Metrics]:
    """One Adam step down a loss (value, metrics) of the network and further inputs, which get no gradient."""
    (_, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(trained.parameters, *inputs)
    return Trained(*descend(gradient, trained.adam, trained.parameters, rate)), metrics


class Defaults:
    """What most methods have in common: one minibatch of transitions, no memory, nothing new online."""

    columns: ClassVar[frozenset[str]] = frozenset()
    uses_reference: ClassVar[bool] = False
    supports_images: ClassVar[bool] = True
    sampling: ClassVar[Sampling] = "transition"
    context: ClassVar[int] = 1
    minibatches: ClassVar[int] = 1
    notes: ClassVar[tuple[str, ...]] = ()
    varies: ClassVar[tuple[str, ...]] = ()
    options: Any

    @property
    def bounds_targets(self) -> bool:
        return bool(getattr(self.options, "target_bounds", False))

    @property
    def batch_size(self) -> int:
        return int(self.options.batch_size)

    def policy(self, state: State) -> Policy:
        return state.policy.parameters

    def start(self, policy: Policy) -> Carry:
        return ()

    def act(
        self, policy: Policy, carry: Carry, time_step: TimeStep, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        """What the actor draws, or its most likely action."""
        distribution = allowing(policy(time_step.observation), time_step.action_mask)
        return (distribution.sample(key)[0] if explore else distribution.mode()), carry

    def value(self, state: State, observations: jax.Array, actions: jax.Array) -> jax.Array | None:
        return None

    def switch(self, state: State) -> tuple[Self, State]:
        return self, state


def allowing(distribution: Any, mask: jax.Array | None) -> Any:
    """A policy's distribution among what is allowed; as it is where nobody says what that is."""
    return distribution if mask is None else distribution.allowing(mask)


def traced(numbers: type[Numbers], options: Any) -> Numbers:
    """The options of those names as arrays, so that seeds of one program may differ in them."""
    return numbers(*(jnp.float32(getattr(options, name)) for name in numbers._fields))  # type: ignore[attr-defined]


def own_defaults(options: type[Any], *names: str) -> dict[str, Any]:
    """Defaults of a method that stand above what a task sets for all methods, for its entry in the registry."""
    return {name: getattr(options(), name) for name in names}


def augment(batch: Transitions, key: jax.Array, networks: Any) -> Transitions:
    """A batch of images [minibatch, row, ...] each moved by a few pixels; vectors as they are.

    The networks that take the batch know which of its bytes are images.
    """
    if batch.observations.dtype != jnp.uint8:
        return batch
    layout = layout_in(networks)
    key_now, key_next = jax.random.split(key)
    return batch._replace(
        observations=_shifted(batch.observations, key_now, layout),
        next_observations=_shifted(batch.next_observations, key_next, layout),
    )


def _shifted(images: jax.Array, key: jax.Array, layout: Layout | None) -> jax.Array:
    flat = images.reshape(-1, *images.shape[2:])
    moved = random_shift(flat, key) if layout is None else shifted(layout, flat, key)
    return moved.reshape(images.shape)


def last_minibatch(batch: Transitions) -> Transitions:
    return jax.tree.map(lambda column: column[-1], batch)


__all__ = [
    "METRICS",
    "RATES",
    "Carry",
    "Checked",
    "Defaults",
    "Meaning",
    "Method",
    "Metrics",
    "Policy",
    "Spec",
    "State",
    "TimeStep",
    "Trained",
    "Transitions",
    "allowing",
    "augment",
    "last_minibatch",
    "learn",
    "meaning_of",
    "own_defaults",
    "require",
    "traced",
]
