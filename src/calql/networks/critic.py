"""Q-functions as one ensemble: every member's parameters stacked along a leading critic axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks.choice_critic import ChoiceCritics, at_actions
from calql.networks.kernels import fused
from calql.networks.mlp import MLP, Precision, Style, set_apart

Network = TypeVar("Network")
Kernel = Literal["plain", "fused"]


class Critics(eqx.Module):
    """Independent Q-functions on shared observation features (the features are the state itself for vectors)."""

    encoder: Callable[[jax.Array], jax.Array]
    members: MLP  # every leaf [critic, ...]; a shared output layer has no such axis
    count: int = eqx.field(static=True)
    shared_head: bool = eqx.field(static=True)
    kernel: Kernel = eqx.field(static=True)

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        count: int,
        key: jax.Array,
        layer_norm: bool = False,
        style: Style = Style(),
        shared_head: bool = False,
        kernel: Kernel = "plain",
    ) -> None:
        def member(key: jax.Array) -> MLP:
            return MLP(
                features + action_dim,
                1,
                widths,
                key=key,
                layer_norm=layer_norm,
                style=style,
            )

        self.encoder, self.count, self.shared_head, self.kernel = encoder, count, shared_head, kernel
        members = jax.lax.map(member, jax.random.split(key, count))  # not vmap: see Program.start
        one = jax.tree.map(lambda leaf: leaf[0], members.output)
        self.members = _with_output(members, one) if shared_head else members

    def encode(self, observations: jax.Array) -> jax.Array:
        """Features [batch, feature] of observations [batch, ...]: once per state, however many actions."""
        return self.encoder(observations)


def kernel_here(asked: Kernel) -> Kernel:
    """The kernel asked for, or the plain one on a machine without a GPU for it."""
    return asked if asked == "plain" or fused.available() else "plain"


def kernel_notes(asked: Kernel, precision: Precision, widths: Sequence[int], *, layer_norm: bool) -> tuple[str, ...]:
    """What to tell someone who asks for a kernel and gets another."""
    if asked == "plain":
        return ()
    missing = None if fused.available() else "they need an H100 or H200"
    reason = fused.obstacle(precision, widths, layer_norm=layer_norm) or missing
    return () if reason is None else (f"--critic-kernel {asked}: critics run without these kernels: {reason}",)


def for_policy(critics: Critics) -> Critics:
    """The same critics, in products of their own.

    Of two products with the same weights XLA makes one: rows of few actions are then copied together with those of
    many, on the way there and back. The kernels are never joined.
    """
    return critics if critics.kernel == "fused" else set_apart(critics)


def _with_output(members: MLP, output: eqx.nn.Linear) -> MLP:
    return eqx.tree_at(lambda member: member.output, members, output)


class Value(eqx.Module):
    """V(s), a network of the state alone."""

    encoder: Callable[[jax.Array], jax.Array]
    network: MLP

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        style: Style = Style(),
    ) -> None:
        self.encoder = encoder
        self.network = MLP(features, 1, widths, key=key, style=style)

    def __call__(self, observations: jax.Array) -> jax.Array:
        """V [...] of observations [..., ...]."""
        return self.network(self.encoder(observations))[..., 0]


def q_values(critics: Critics | ChoiceCritics, features: jax.Array, actions: jax.Array) -> jax.Array:
    """Q [critic, batch] of features [batch, feature] and actions [batch, action].

    With actions [batch, sample, action]: Q [critic, batch, sample].
    """
    if isinstance(critics, ChoiceCritics):
        return at_actions(critics.of_choices(features), actions)
    members, count = critics.members, critics.count
    if critics.shared_head:  # the gradient of the one layer is the sum over critics
        copies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), members.output)
        members = _with_output(members, copies)
    if critics.kernel == "fused" and fused.supports(members):
        return fused.q_of_pairs(members, features, actions)
    # One copy for each critic: as a batch axis of every product, critics need no transposition after the first.
    features, actions = (jnp.broadcast_to(x, (count, *x.shape)) for x in (features, actions))
    return jax.vmap(MLP.of_pairs)(members, features, actions)[..., 0]


def move_towards(target: Network, online: Network, rate: jax.Array) -> Network:
    """Polyak averaging: target <- rate * online + (1 - rate) * target, with the online values as they are now."""
    return jax.tree.map(lambda old, new: (1.0 - rate) * old + rate * new, target, online)
