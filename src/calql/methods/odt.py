"""Online decision transformer (Zheng et al., 2022): actions as a sequence, conditioned on the return still to come.

No Q-function: the policy is trained to make logged actions likely given what they went on to earn, and
is asked for a good return when it acts. Collected episodes carry the return they really had (hindsight
relabelling), as all rows do in the column `return_to_go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from calql import losses
from calql.methods.base import (
    Checked,
    Defaults,
    Metrics,
    Moment,
    Sampling,
    Trained,
    Transitions,
    last_minibatch,
    require,
    traced,
)
from calql.networks import Gaussian, Precision, Spec, log_prob, make_encoder, mode, sample
from calql.networks.transformer import DecisionTransformer
from calql.optimise import descend


@dataclass(frozen=True)
class ODTOptions(Checked):
    """Options of the online decision transformer; the defaults are its authors' for AntMaze."""

    width: int = 1024
    """Features of a token."""
    layers: int = 4
    """Blocks of the transformer."""
    heads: int = 4
    """Attention heads."""
    dropout: float = 0.1
    """Share of features that drop out in updates."""
    training_context: int = 20
    """Steps of a training sequence."""
    acting_context: int = 5
    """Steps back that the policy sees when it acts."""
    standardise: bool = True
    """Give observations to the network in units of their spread in the logged data."""
    batch_size: int = 256
    """Sequences in one batch."""
    policy_rate: float = 1e-3
    """LAMB step size."""
    weight_decay: float = 0.0
    """LAMB's decay of the parameters."""
    warmup_updates: int = 10_000
    """Updates over which the step size rises from 0."""
    gradient_clip: float = 0.25
    """Largest norm of a gradient."""
    temperature_start: float = 0.1
    """Start of the entropy's weight, which is trained."""
    temperature_rate: float = 1e-4
    """Adam step size of that weight."""
    entropy_scale: float = 1.0
    """The weight steers the entropy to minus this times the action dimension."""
    evaluation_return: float = 1.0
    """Return-to-go asked for when evaluating, in the environment's rewards."""
    exploration_return: float = 2.0
    """Return-to-go asked for when collecting."""
    return_scale: float = 1.0
    """Returns are divided by this before the network sees them."""
    precision: Precision = "float32"
    """Of the products in the blocks; parameters, norms and outputs are float32."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.width % self.heads == 0, "width", self.width, "a multiple of --heads")
        require(
            self.acting_context <= self.training_context,
            "acting_context",
            self.acting_context,
            "1 to --training-context",
        )


class Numbers(NamedTuple):
    policy_rate: jax.Array
    temperature_rate: jax.Array
    entropy_scale: jax.Array


class ODTState(NamedTuple):
    policy: Trained[DecisionTransformer]  # its moments are LAMB's
    log_temperature: Trained[jax.Array]
    updates: jax.Array  # int32
    numbers: Numbers


class Memory(NamedTuple):
    """The last steps of an episode, earliest first; what is not there yet is 0 and comes last."""

    earned: jax.Array  # [step] rewards before each step
    observations: jax.Array  # [step, ...]
    actions: jax.Array  # [step, action]


@dataclass(frozen=True)
class ODT(Defaults):
    options: ODTOptions

    columns: ClassVar[frozenset[str]] = frozenset({"remaining", "return_to_go"})
    supports_images: ClassVar[bool] = False
    sampling: ClassVar[Sampling] = "sequence"

    @property
    def context(self) -> int:  # type: ignore[override]
        return self.options.training_context

    # -- policy -------------------------------------------------------------------------------------------

    def policy_loss(
        self, policy: DecisionTransformer, temperature: jax.Array, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
        """-(log-likelihood of logged actions + temperature * entropy), over the steps that are real."""
        key_dropout, key_sample = jax.random.split(key)
        assert batch.return_to_go is not None
        returns = batch.return_to_go / self.options.return_scale
        gaussian = policy(returns, batch.observations, batch.actions, key_dropout)
        mask = real_steps(batch)
        likelihood = losses.masked_mean(log_prob(gaussian, batch.actions), mask)
        entropy = -losses.masked_mean(sample(gaussian, key_sample)[1], mask)
        loss = -(likelihood + temperature * entropy)
        return loss, (entropy, {"policy_loss": loss, "log_likelihood": likelihood, "entropy": entropy})

    @property
    def lamb(self) -> optax.GradientTransformation:
        """Adam whose steps are as long as the parameters they change, after a clip of the gradient."""
        return optax.chain(
            optax.clip_by_global_norm(self.options.gradient_clip),
            optax.scale_by_adam(),
            optax.add_decayed_weights(self.options.weight_decay),
            optax.scale_by_trust_ratio(),
        )

    def update(self, state: ODTState, batch: Transitions, key: jax.Array) -> tuple[ODTState, Metrics]:
        """One step of the policy, then one of the entropy's weight."""
        rows, n, old = last_minibatch(batch), state.numbers, state.policy.parameters
        temperature = jnp.exp(state.log_temperature.parameters)
        (_, (entropy, metrics)), gradient = jax.value_and_grad(self.policy_loss, has_aux=True)(
            old, temperature, rows, key
        )
        direction, moments = self.lamb.update(gradient, state.policy.adam, old)
        rate = n.policy_rate * jnp.minimum((state.updates + 1) / self.options.warmup_updates, 1.0)
        policy = jax.tree.map(lambda p, d: p - rate * d, old, direction)
        target = -n.entropy_scale * rows.actions.shape[-1]
        logarithm, adam = state.log_temperature
        slope = jax.grad(lambda x: losses.weighted_temperature_loss(jnp.exp(x), -entropy, target))(logarithm)
        log_temperature = Trained(*descend(slope, adam, logarithm, n.temperature_rate))
        state = ODTState(Trained(policy, moments), log_temperature, state.updates + 1, n)
        return state, metrics | {"alpha": temperature}

    # -- acting -------------------------------------------------------------------------------------------

    def start(self, policy: DecisionTransformer) -> Memory:
        steps = self.options.acting_context
        features, dim = policy.embed_observation.kernel.shape[0], policy.embed_action.kernel.shape[0]
        return Memory(jnp.zeros(steps), jnp.zeros((steps, features)), jnp.zeros((steps, dim)))

    def act(
        self, policy: DecisionTransformer, carry: Memory, moment: Moment, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Memory]:
        """Ask for the return that is still missing."""
        last = self.options.acting_context - 1
        here = jnp.minimum(moment.timestep, last)  # where this step goes
        full = moment.timestep > last
        carry = jax.tree.map(lambda column: jnp.where(full, jnp.roll(column, -1, axis=0), column), carry)
        before = jnp.where(moment.timestep > 0, carry.earned[here - 1], 0.0)
        carry = Memory(
            carry.earned.at[here].set(before + moment.previous_reward),
            carry.observations.at[here].set(moment.observation),
            carry.actions.at[here].set(0.0),
        )
        wanted = self.options.exploration_return if explore else self.options.evaluation_return
        returns = (wanted - carry.earned) / self.options.return_scale
        every = policy(returns, carry.observations, carry.actions)
        gaussian = Gaussian(every.mean[here], every.log_std[here])
        action = sample(gaussian, key)[0] if explore else mode(gaussian)
        return action, carry._replace(actions=carry.actions.at[here].set(action))

    # -- life cycle ---------------------------------------------------------------------------------------

    def init(self, key: jax.Array, spec: Spec) -> ODTState:
        o = self.options
        key_encoder, key_policy = jax.random.split(key)
        policy = DecisionTransformer(
            *make_encoder(spec, key_encoder, standardise=o.standardise, precision=o.precision),
            spec.action_dim,
            steps=o.training_context,
            width=o.width,
            layers=o.layers,
            heads=o.heads,
            dropout=o.dropout,
            key=key_policy,
            precision=o.precision,
        )
        return ODTState(
            policy=Trained(policy, self.lamb.init(policy)),
            log_temperature=Trained.fresh(jnp.log(jnp.float32(o.temperature_start))),
            updates=jnp.int32(0),
            numbers=traced(Numbers, o),
        )


def real_steps(batch: Transitions) -> jax.Array:
    """1 for steps [sequence, step] of the episode that the sequence starts in, 0 beyond its end."""
    assert batch.remaining is not None
    steps = jnp.arange(batch.remaining.shape[1])
    return (steps <= batch.remaining[:, :1]).astype(jnp.float32)


SETS: dict[str, Any] = {
    "mixing": -1.0,
    "offline_updates": 7_000,
    "updates_per_episode": 300,
    "keep_episodes": 1_500,
}
