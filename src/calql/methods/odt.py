"""Online decision transformer (Zheng et al., 2022): actions as a sequence, conditioned on the return still to come.

No Q-function: the policy is trained to make logged actions likely given what they went on to earn, and
is asked for a good return when it acts. Collected episodes carry the return they really had (hindsight
relabelling), as all rows do in the column `return_to_go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from calql.methods import losses
from calql.methods.base import (
    Checked,
    Defaults,
    Metrics,
    Sampling,
    TimeStep,
    Trained,
    Transitions,
    last_minibatch,
    require,
    traced,
)
from calql.methods.entry import Compared, Entry
from calql.methods.optimise import ADAM, clip_by_norm, descend, trusted
from calql.networks import Precision, Spec, make_encoder
from calql.networks.transformer import INSIDE, DecisionTransformer
from calql.system.options import POOLED, Count, Finite, NotNegative, Positive, ShareBelowOne

SPREAD_FLOOR = 1e-6  # added to the standard deviation of observations


@dataclass(frozen=True)
class ODTOptions(Checked):
    """Options of the online decision transformer; the defaults are its authors' for AntMaze."""

    width: Count = 1024
    """Features of a token."""
    layers: Count = 4
    """Blocks of the transformer."""
    heads: Count = 4
    """Attention heads."""
    dropout: ShareBelowOne = 0.1
    """Share of features that drop out in updates."""
    training_context: Count = 20
    """Steps of a training sequence."""
    acting_context: Count = 5
    """Steps back that the policy sees when it acts."""
    order_embedding: bool = True
    """Tell the network the time step within the episode (its authors' locomotion: no)."""
    order_steps: Count = 1_000
    """Time steps that it can tell apart; later ones count as the last."""
    standardise: bool = True
    """Give observations to the network in units of their spread in the logged data."""
    batch_size: Count = 256
    """Sequences in one batch."""
    policy_rate: Positive = 1e-3
    """LAMB step size."""
    weight_decay: NotNegative = 0.0
    """LAMB's decay of the parameters. At 0 there is no trust ratio either, and LAMB is Adam: its authors' code."""
    warmup_updates: Count = 10_000
    """Updates over which the step size rises from 0."""
    gradient_clip: Positive = 0.25
    """Largest norm of a gradient."""
    temperature_start: Positive = 0.1
    """Start of the entropy's weight, which is trained."""
    temperature_rate: Positive = 1e-4
    """Adam step size of that weight."""
    entropy_scale: NotNegative = 1.0
    """The weight steers the entropy to minus this times the action dimension."""
    evaluation_return: Finite = 1.0
    """Return-to-go asked for when evaluating, in the environment's rewards."""
    exploration_return: Finite = 2.0
    """Return-to-go asked for when collecting."""
    return_scale: Positive = 1.0
    """Returns are divided by this before the network sees them."""
    precision: Precision = "tf32"
    """Of the products in the blocks; parameters, embeddings, norms and outputs are float32."""

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

    columns: ClassVar[frozenset[str]] = frozenset({"remaining", "return_to_go", "timestep"})
    supports_images: ClassVar[bool] = False
    sampling: ClassVar[Sampling] = "sequence"
    varies: ClassVar[tuple[str, ...]] = ("policy_rate", "temperature_rate", "temperature_start", "entropy_scale")

    @property
    def context(self) -> int:  # type: ignore[override]
        return self.options.training_context

    # -- policy -------------------------------------------------------------------------------------------

    def policy_loss(
        self, policy: DecisionTransformer, temperature: jax.Array, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
        """-(log-likelihood of logged actions + temperature * entropy).

        The likelihood is the mean over steps that are real, the entropy the mean over all of them, padding too: so the
        authors' code has it, with padding before the first step.
        """
        key_dropout, key_sample = jax.random.split(key)
        rows, real = padded_left(batch)
        assert rows.return_to_go is not None
        assert rows.timestep is not None
        returns, actions = rows.return_to_go / self.options.return_scale, jnp.clip(rows.actions, -INSIDE, INSIDE)
        distribution = policy(returns, rows.observations, actions, rows.timestep, key_dropout, real)
        likelihood = losses.masked_mean(distribution.log_prob(actions), real)
        entropy = -jnp.mean(distribution.sample(key_sample, name="entropy")[1])
        loss = -(likelihood + temperature * entropy)
        return loss, (entropy, {"policy_loss": loss, "log_likelihood": likelihood, "entropy": entropy})

    def lamb(
        self, gradient: DecisionTransformer, moments: optax.OptState, old: DecisionTransformer
    ) -> tuple[DecisionTransformer, optax.OptState]:
        """Adam's direction after a clip of the gradient, with decay, each tensor as long as what it changes."""
        direction, moments = ADAM.update(clip_by_norm(gradient, self.options.gradient_clip), moments)
        if not self.options.weight_decay:
            return direction, moments
        direction = jax.tree.map(lambda d, p: d + self.options.weight_decay * p, direction, old)
        blocks = jax.vmap(trusted)(direction.blocks, old.blocks)  # each layer by itself
        return eqx.tree_at(lambda policy: policy.blocks, trusted(direction, old), blocks), moments

    def update(self, state: ODTState, batch: Transitions, key: jax.Array) -> tuple[ODTState, Metrics]:
        """One step of the policy, then one of the entropy's weight."""
        rows, n, old = last_minibatch(batch), state.numbers, state.policy.parameters
        temperature = jnp.exp(state.log_temperature.parameters)
        (_, (entropy, metrics)), gradient = jax.value_and_grad(self.policy_loss, has_aux=True)(
            old, temperature, rows, key
        )
        direction, moments = self.lamb(gradient, state.policy.adam, old)
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
        self, policy: DecisionTransformer, carry: Memory, time_step: TimeStep, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Memory]:
        """Ask for the return that is still missing."""
        last = self.options.acting_context - 1
        here = jnp.minimum(time_step.timestep, last)  # where this step goes
        full = time_step.timestep > last
        carry = jax.tree.map(lambda column: jnp.where(full, jnp.roll(column, -1, axis=0), column), carry)
        before = jnp.where(time_step.timestep > 0, carry.earned[here - 1], 0.0)
        carry = Memory(
            carry.earned.at[here].set(before + time_step.previous_reward),
            carry.observations.at[here].set(time_step.observation),
            carry.actions.at[here].set(0.0),
        )
        wanted = self.options.exploration_return if explore else self.options.evaluation_return
        returns = (wanted - carry.earned) / self.options.return_scale
        timesteps = time_step.timestep - here + jnp.arange(last + 1)
        every = policy(returns, carry.observations, carry.actions, timesteps)
        distribution = jax.tree.map(lambda leaf: leaf[here], every)
        action = jnp.clip(distribution.sample(key)[0] if explore else distribution.mode(), -INSIDE, INSIDE)
        return action, carry._replace(actions=carry.actions.at[here].set(action))

    # -- life cycle ---------------------------------------------------------------------------------------

    def init(self, key: jax.Array, spec: Spec) -> ODTState:
        o = self.options
        key_encoder, key_policy = jax.random.split(key)
        policy = DecisionTransformer(
            *make_encoder(spec, key_encoder, standardise=o.standardise, floor=SPREAD_FLOOR, precision=o.precision),
            spec.action_dim,
            time_steps=o.order_steps if o.order_embedding else 0,
            width=o.width,
            layers=o.layers,
            heads=o.heads,
            dropout=o.dropout,
            key=key_policy,
            precision=o.precision,
        )
        return ODTState(
            policy=Trained.fresh(policy),
            log_temperature=Trained.fresh(jnp.log(jnp.float32(o.temperature_start))),
            updates=jnp.int32(0),
            numbers=traced(Numbers, o),
        )


def padded_left(batch: Transitions) -> tuple[Transitions, jax.Array]:
    """Sequences [sequence, step, ...] moved so that their last real step comes last, and 1 for real steps.

    A sequence goes on for as long as the episode that it starts in, or to its end; what follows in the
    batch is of another episode. Before the first step there are zeros.
    """
    assert batch.remaining is not None
    steps = jnp.arange(batch.remaining.shape[1])
    count = jnp.minimum(batch.remaining[:, :1] + 1, len(steps))
    source = steps - (len(steps) - count)  # [sequence, step]
    real = source >= 0

    def moved(column: jax.Array) -> jax.Array:
        shape = (*real.shape, *(1 for _ in column.shape[2:]))
        index = jnp.maximum(source, 0).reshape(shape)
        return jnp.where(real.reshape(shape), jnp.take_along_axis(column, index, axis=1), 0).astype(column.dtype)

    return jax.tree.map(moved, batch), real.astype(jnp.float32)


SETS: dict[str, Any] = {
    "mixing": POOLED,
    "offline_updates": 7_000,
    "updates_per_episode": 300,
    "keep_episodes": 1_500,
}

LOCOMOTION = {
    "width": 512,
    "policy_rate": 1e-4,
    "weight_decay": 5e-4,
    "order_embedding": False,
    "offline_updates": 5_000,
    "keep_episodes": 1_000,
    "return_scale": 1_000.0,
}
# The return to ask for, as authors of decision transformers have it, and twice that when collecting.
RETURNS = {"halfcheetah": 6_000.0, "hopper": 3_600.0, "walker2d": 5_000.0}
LEVELS = ("random", "medium", "medium-replay", "medium-expert", "expert")

METHODS = {
    "odt": Entry(
        "online decision transformer: actions given the return to come",
        ODTOptions,
        ODT,
        sets=SETS,
        on={
            "adroit": {"evaluation_return": 0.0, "exploration_return": 0.0, "return_scale": 100.0},  # the most there is
            "kitchen": {  # logged: 260 to 330
                "evaluation_return": 400.0,
                "exploration_return": 800.0,
                "return_scale": 100.0,
            },
            "locomotion": LOCOMOTION,
            **{
                f"{body}-{level}": {"evaluation_return": most, "exploration_return": 2.0 * most}
                for body, most in RETURNS.items()
                for level in LEVELS
            },
            "point-maze": {
                "width": 64,
                "layers": 2,
                "heads": 2,
                "training_context": 5,
                "dropout": 0.0,
                "batch_size": 32,
                "policy_rate": 1e-3,
                "warmup_updates": 300,
                "offline_updates": 3_000,
                "updates_per_episode": 30,
                "keep_episodes": 800,  # of the 756 diverse ones 664 are single steps at the goal, the best by return
            },
        },
        update_cost=20.0,
        small={"width": 256, "offline_updates": 2_000, "updates_per_episode": 30, "warmup_updates": 1_000},
        smoke={"width": 8, "layers": 1, "heads": 1, "training_context": 5, "warmup_updates": 10},
        compared=Compared((0.5, 1.0), "asked for the return of a success, it clones what led to one"),
        place=13,
        title="ODT",
    )
}
