"""The actor-critic learner: SAC, with the conservative regulariser and its calibration.

Cal-QL, CQL, CQL then SAC, SAC, SAC with offline data, hybrid RL and RLPD are configurations of this
one learner. Losses are in `calql.methods.losses`; this file says which parameters each of them moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import optax

from calql.methods import losses
from calql.methods.base import RATES, Defaults, Metrics, Transitions, augment, last_minibatch
from calql.methods.learner_options import ActorCriticOptions
from calql.methods.optimise import ADAM, descend, drift
from calql.networks import (
    DISCRETE,
    Actor,
    Critics,
    Spec,
    Style,
    draws,
    for_policy,
    kernel_here,
    kernel_notes,
    make_actor,
    make_encoder,
    move_towards,
    q_values,
    sample_with_density,
)
from calql.networks.mlp import set_apart

Encoder = tuple[Callable[[jax.Array], jax.Array], int]  # and how many features it gives


class Numbers(NamedTuple):
    """Numeric options, traced: seeds of one program may differ in them, and the switch changes them in place."""

    discount: jax.Array
    policy_rate: jax.Array
    critic_rate: jax.Array
    target_rate: jax.Array
    target_entropy: jax.Array
    conservative_weight: jax.Array
    gap: jax.Array
    calibrate: jax.Array  # 1 or 0


ENTROPY = ("target_entropy", "entropy_scale")
REGULARISER = (
    "conservative_weight",
    "conservative_weight_online",
    "gap",
    "dual_start",
    "calibrate",
    "calibrate_online",
)


class LearnerState(NamedTuple):
    policy: Actor
    critics: Critics
    targets: Critics
    raw_temperature: jax.Array  # the entropy's dual variable: log alpha, or what softplus makes alpha of
    raw_multiplier: jax.Array  # the regulariser's dual variable, before its exponential
    policy_adam: optax.OptState
    critic_adam: optax.OptState
    temperature_adam: optax.OptState
    multiplier_adam: optax.OptState
    numbers: Numbers


@dataclass(frozen=True)
class ActorCritic(Defaults):
    """SAC with the conservative regulariser; `options` decides which published method it is."""

    options: ActorCriticOptions

    @property
    def uses_reference(self) -> bool:  # type: ignore[override]
        """To calibrate with, or to log how often it would bound (CQL)."""
        return self.options.conservative

    @property
    def minibatches(self) -> int:  # type: ignore[override]
        return self.options.critic_steps

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        o = self.options
        return kernel_notes(o.critic_kernel, o.precision, o.critic_widths, layer_norm=o.critic_layer_norm)

    @property
    def varies(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*RATES, *ENTROPY, *(REGULARISER if self.options.conservative else ()))

    # -- critic ---------------------------------------------------------------------------------------

    def critic_loss(
        self, critics: Critics, state: LearnerState, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Sum over critics of squared TD error plus the weighted regulariser (docs/methods/cal-ql.md)."""
        key_target, key_gap = jax.random.split(key)
        target = self.td_target(state, batch, key_target)
        bounds = self.target_bounds(state, batch)
        bounded = {} if bounds is None else {"bounded_targets": losses.bounded_share(target, bounds)}
        features = critics.encode(batch.observations)
        if not self.options.conservative:
            td, metrics = self.td_error(q_values(critics, features, batch.actions), target)
            return self.over_critics(td), metrics | bounded
        actions, log_probs = self.compared_actions(state, batch, key_gap)
        q = q_values(critics, features, actions)  # [critic, batch, 1 + 3 sample]: the logged action first
        q_data = set_apart(q[..., 0])  # else sums over the batch take all of q with them, to two blocks of threads
        td, metrics = self.td_error(q_data, target)
        gaps, bound_rates = self.gaps(q, log_probs, state, batch)  # [critic]
        metrics |= {"conservative_gap": jnp.mean(gaps)} | bound_rates | bounded
        return self.regularised(td, gaps, state, key_gap), metrics

    def regularised(self, td: jax.Array, gaps: jax.Array, state: LearnerState, key: jax.Array) -> jax.Array:
        """TD errors [critic] with the weighted regularisers [critic], put together."""
        weight = state.numbers.conservative_weight
        if self.options.dual:
            penalty = self.multiplier(state.raw_multiplier) * weight * (gaps - state.numbers.gap)
        else:
            penalty = weight * gaps
        if not self.options.penalised_critics:
            return self.over_critics(td + penalty)
        return self.over_critics(td) + self.over_critics(penalty[self.penalised(key, "gap")])

    def td_error(self, q_data: jax.Array, target: jax.Array) -> tuple[jax.Array, Metrics]:
        """Mean squared error of each critic [critic]; q_data [critic, batch]."""
        td = losses.squared_error(q_data, target)
        return td, {
            "td_loss": jnp.mean(td),
            "average_q_batch": jnp.mean(q_data),
            "average_target": jnp.mean(target),
        }

    def td_target(self, state: LearnerState, batch: Transitions, key: jax.Array) -> jax.Array:
        """r + discount (1 - terminal) max over actions of min over target critics."""
        key_action, key_subset = jax.random.split(key)
        distribution = state.policy(batch.next_observations)
        actions, log_probs = sample_with_density(
            distribution, key_action, self.options.backup_actions, "target/actions"
        )
        features = state.targets.encode(batch.next_observations)
        q = q_values(state.targets, features, actions)  # [critic, batch, sample]
        if self.options.target_subset:
            q = q[self.subset(self.options.target_subset, key_subset, "target/critics")]
        value = losses.pessimistic_best(q)
        if self.options.entropy_in_backup:
            value = value - self.temperature(state.raw_temperature) * losses.at_best(log_probs, q)
        bounds = self.target_bounds(state, batch)
        return losses.backup(batch.rewards, batch.terminals, state.numbers.discount, value, bounds)

    def subset(self, size: int, key: jax.Array, name: str) -> jax.Array:
        """Indices of critics drawn at random [size]."""
        return draws.chosen(name, key, self.options.critics, size, replace=self.options.subset_with_replacement)

    def target_bounds(self, state: LearnerState, batch: Transitions) -> losses.Bounds | None:
        """Of the batch's possible returns; where Q holds entropy too, wider by twice the most of that."""
        if batch.returns is None:
            return None
        if not self.options.entropy_in_backup:
            return losses.target_bounds(batch.returns)
        largest = self.largest_entropy(state, batch)
        room = 2.0 * self.temperature(state.raw_temperature) * largest / (1.0 - state.numbers.discount)
        return losses.target_bounds(batch.returns, below=room, above=room)

    def largest_entropy(self, state: LearnerState, batch: Transitions) -> jax.Array:
        """The most that an action adds to Q where it holds entropy, in size."""
        return jnp.maximum(-state.numbers.target_entropy, batch.actions.shape[-1] * math.log(2.0))

    def compared_actions(
        self, state: LearnerState, batch: Transitions, key: jax.Array, name: str = "gap"
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """The logged action, then the sampled ones: uniform, of the policy at s, of the policy at s'.

        Actions [batch, 1 + 3 sample, action]; the log-probabilities [batch, sample] of the policy's own.
        """
        key_random, key_policy, key_next = jax.random.split(key, 3)
        count, (rows, dim) = self.options.sampled_actions, batch.actions.shape
        uniform = draws.uniform(f"{name}/uniform", key_random, (rows, count, dim))
        here, after = state.policy(batch.observations), state.policy(batch.next_observations)
        at_state, log_prob_policy = sample_with_density(here, key_policy, count, f"{name}/policy")
        at_next, log_prob_next = sample_with_density(after, key_next, count, f"{name}/next")
        actions = jnp.concatenate([batch.actions[:, None], uniform, at_state, at_next], axis=1)
        return actions, (log_prob_policy, log_prob_next)

    def gaps(
        self, q: jax.Array, log_probs: tuple[jax.Array, jax.Array], state: LearnerState, batch: Transitions
    ) -> tuple[jax.Array, Metrics]:
        """The regulariser of each critic [critic], and how often the reference value bounds it."""
        q_data, dim = q[..., 0], batch.actions.shape[-1]
        q_random, q_policy, q_next = jnp.split(q[..., 1:], 3, axis=2)
        log_prob_policy, log_prob_next = log_probs
        reference = jnp.where(state.numbers.calibrate > 0, batch.reference, -jnp.inf)

        def one_critic(data: jax.Array, random: jax.Array, current: jax.Array, after: jax.Array) -> jax.Array:
            gap = losses.conservative_gap(
                data,
                random,
                current,
                after,
                log_prob_policy,
                log_prob_next,
                action_dim=dim,
                reference=reference,
                importance_sampling=self.options.importance_sampling,
                temperature=self.options.soft_maximum_temperature,
                calibrate_random=self.options.calibrate_random,
                calibrate_after_importance=self.options.calibrate_after_importance,
                subtract_log_count=self.options.subtract_log_count,
            )
            return jnp.mean(jnp.clip(gap, *self.options.difference_clip))

        of_critics = jax.vmap(losses.bound_rate, in_axes=(0, None))
        rates = jax.vmap(of_critics, in_axes=(0, None))(jnp.stack([q_policy, q_next]), batch.reference)
        named = {
            f"bound_rate/q{index + 1}/{name}": rates[kind, index]
            for kind, name in enumerate(("policy", "next"))
            for index in range(self.options.critics)
        }
        return jax.vmap(one_critic)(q_data, q_random, q_policy, q_next), named

    def penalised(self, key: jax.Array, name: str) -> jax.Array:
        """Indices of the critics whose regulariser counts at this update."""
        return self.subset(self.options.penalised_critics, jax.random.fold_in(key, 1), f"{name}/critics")

    def over_critics(self, loss: jax.Array) -> jax.Array:
        return jnp.mean(loss) if self.options.critic_loss == "mean" else jnp.sum(loss)

    def multiplier(self, raw: jax.Array) -> jax.Array:
        """alpha', the weight that dual ascent moves."""
        return jax.nn.softplus(raw) if self.options.dual_form == "softplus" else losses.dual_weight(raw)

    # -- policy and scalars -----------------------------------------------------------------------------

    def policy_loss(
        self,
        policy: Actor,
        critics: Critics,
        alpha: jax.Array,
        batch: Transitions,
        key: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """SAC's policy loss, and the log-probabilities [batch] of the actions it drew."""
        actions, log_probs = sample_with_density(policy(batch.observations), key, name="policy/action")
        q = q_values(critics, critics.encode(batch.observations), actions)
        reduce = jnp.min if self.options.policy_critic == "min" else jnp.mean
        return losses.entropy_regularised(log_probs, reduce(q, axis=0), alpha), log_probs

    def temperature(self, raw: jax.Array) -> jax.Array:
        """alpha, the weight of the entropy."""
        return jax.nn.softplus(raw) if self.options.temperature_form == "softplus" else jnp.exp(raw)

    def temperature_loss(self, raw: jax.Array, log_probs: jax.Array, target_entropy: jax.Array) -> jax.Array:
        """alpha grows while the entropy is below its target; the authors move log alpha, others alpha itself."""
        if self.options.temperature_form == "logarithm":
            return losses.temperature_loss(raw, log_probs, target_entropy)
        return losses.weighted_temperature_loss(self.temperature(raw), log_probs, target_entropy)

    def multiplier_loss(self, raw: jax.Array, numbers: Numbers, gap: jax.Array) -> jax.Array:
        """Minus the weighted violation of the gap: alpha' grows while the regulariser is above it."""
        return -self.multiplier(raw) * numbers.conservative_weight * (gap - numbers.gap)

    # -- updates ----------------------------------------------------------------------------------------

    def critic_step(self, state: LearnerState, batch: Transitions, key: jax.Array) -> tuple[LearnerState, Metrics]:
        """One Adam step of the critics, then their targets follow the new values."""
        (loss, metrics), gradient = jax.value_and_grad(self.critic_loss, has_aux=True)(state.critics, state, batch, key)
        critics, adam = descend(gradient, state.critic_adam, state.critics, state.numbers.critic_rate)
        targets = move_towards(state.targets, critics, state.numbers.target_rate)
        return state._replace(critics=critics, targets=targets, critic_adam=adam), {
            "critic_loss": loss,
            **metrics,
        }

    def policy_step(
        self, state: LearnerState, critics: Critics, batch: Transitions, key: jax.Array
    ) -> tuple[LearnerState, Metrics]:
        """One Adam step of the policy against the given critics, and of the temperature."""
        alpha, rate = self.temperature(state.raw_temperature), state.numbers.policy_rate
        key_policy, key_next = jax.random.split(key)
        (loss, log_probs), gradient = jax.value_and_grad(self.policy_loss, has_aux=True)(
            state.policy, critics, alpha, batch, key_policy
        )
        if self.options.temperature_states == "next":
            log_probs = self.next_log_probs(state, batch, key_next)
        raw = state.raw_temperature
        raw_gradient = jax.grad(self.temperature_loss)(raw, log_probs, self.target_entropy(state, batch))
        policy, policy_adam = descend(gradient, state.policy_adam, state.policy, rate)
        raw, temperature_adam = descend(raw_gradient, state.temperature_adam, raw, rate)
        state = state._replace(policy=policy, policy_adam=policy_adam)
        state = state._replace(raw_temperature=raw, temperature_adam=temperature_adam)
        return state, {"policy_loss": loss, "entropy": -jnp.mean(log_probs), "alpha": alpha}

    def next_log_probs(self, state: LearnerState, batch: Transitions, key: jax.Array) -> jax.Array:
        """Of fresh actions at the next states [batch, sample]."""
        after, count = state.policy(batch.next_observations), self.options.backup_actions
        return sample_with_density(after, key, count, "temperature/actions")[1]

    def target_entropy(self, state: LearnerState, batch: Transitions) -> jax.Array:
        """What the temperature steers to, a number or one for each row."""
        return state.numbers.target_entropy

    def own_gap(self, state: LearnerState, batch: Transitions, key: jax.Array) -> jax.Array:
        """The regulariser with actions and critics drawn for the dual variable alone."""
        actions, log_probs = self.compared_actions(state, batch, key, "dual")
        q = q_values(state.critics, state.critics.encode(batch.observations), actions)
        gaps, _ = self.gaps(q, log_probs, state, batch)
        return jnp.mean(gaps[self.penalised(key, "dual")] if self.options.penalised_critics else gaps)

    def multiplier_step(self, state: LearnerState, gap: jax.Array) -> tuple[LearnerState, Metrics]:
        """One step of dual ascent on alpha'."""
        raw, rate = state.raw_multiplier, state.numbers.critic_rate
        gradient = jax.grad(self.multiplier_loss)(raw, state.numbers, gap)
        moved, adam = descend(gradient, state.multiplier_adam, raw, rate)
        state = state._replace(raw_multiplier=moved, multiplier_adam=adam)
        return state, {"alpha_prime": self.multiplier(raw)}

    def update(self, state: LearnerState, batch: Transitions, key: jax.Array) -> tuple[LearnerState, Metrics]:
        """One update on [minibatch, row, ...].

        With one minibatch everything is differentiated at the parameters before the update, as the
        authors' code does; with several, the policy follows the critics that came out of them.
        """
        key_critic, key_policy, key_augment = jax.random.split(key, 3)
        steps, batch = self.options.critic_steps, augment(batch, key_augment, state)
        drifts = self.options.step_when_idle and steps > 1

        def step(carry: LearnerState, inputs: tuple[Transitions, jax.Array]) -> tuple[LearnerState, Metrics]:
            after, metrics = self.critic_step(carry, *inputs)
            return (self.drift_policy(after) if drifts else after), metrics

        last = last_minibatch(batch)
        if steps == 1:
            after, critic_metrics = self.critic_step(state, last, key_critic)
        else:
            after, stacked = jax.lax.scan(step, state, (batch, jax.random.split(key_critic, steps)))
            critic_metrics = jax.tree.map(jnp.mean, stacked)
        policy_batch = last
        if self.options.policy_on_all:
            policy_batch = jax.tree.map(lambda column: column.reshape(-1, *column.shape[2:]), batch)
        critics = for_policy(state.critics if steps == 1 else after.critics)
        after, policy_metrics = self.policy_step(after, critics, policy_batch, key_policy)
        after = self.drift_critics(after) if drifts else after
        metrics = critic_metrics | policy_metrics
        if self.options.conservative and self.options.dual:
            gap = critic_metrics["conservative_gap"]
            if self.options.dual_draws == "own":
                gap = self.own_gap(state, last, jax.random.fold_in(key, 1))
            after, dual_metrics = self.multiplier_step(after, gap)
            metrics |= dual_metrics
        return after, metrics

    def drift_policy(self, state: LearnerState) -> LearnerState:
        """Policy and temperature after an Adam step with gradient 0: they go on by their momentum."""
        rate = state.numbers.policy_rate
        policy, policy_adam = drift(state.policy_adam, state.policy, rate)
        raw, temperature_adam = drift(state.temperature_adam, state.raw_temperature, rate)
        return state._replace(
            policy=policy, policy_adam=policy_adam, raw_temperature=raw, temperature_adam=temperature_adam
        )

    def drift_critics(self, state: LearnerState) -> LearnerState:
        """The same for the critics. Targets stand still."""
        critics, adam = drift(state.critic_adam, state.critics, state.numbers.critic_rate)
        return state._replace(critics=critics, critic_adam=adam)

    # -- acting -----------------------------------------------------------------------------------------

    def policy(self, state: LearnerState) -> Actor:
        return state.policy

    def value(self, state: LearnerState, observations: jax.Array, actions: jax.Array) -> jax.Array:
        return jnp.mean(q_values(state.critics, state.critics.encode(observations), actions), axis=0)

    # -- life cycle -------------------------------------------------------------------------------------

    def init(self, key: jax.Array, spec: Spec) -> LearnerState:
        o = self.options
        key_policy, key_critic, key_encoders = jax.random.split(key, 3)
        keys = jax.random.split(key_encoders)
        encoders = [make_encoder(spec, k, standardise=o.standardise, precision=o.precision) for k in keys]
        style = Style(
            o.initialiser, output_gain=o.output_gain, last_hidden_gain=o.last_hidden_gain, precision=o.precision
        )
        actor = DISCRETE if spec.discrete else o.actor
        policy = make_actor(
            actor, *encoders[0], spec.action_dim, o.policy_widths, key=key_policy, style=style, options=o
        )
        critics = self.fresh_critics(encoders[1], spec, key_critic, style)
        at_one = math.log(math.e - 1.0) if o.temperature_form == "softplus" else 0.0  # where alpha is 1
        raw_temperature, raw_multiplier = jnp.float32(at_one), jnp.float32(o.dual_start)
        return LearnerState(
            policy=policy,
            critics=critics,
            targets=critics,
            raw_temperature=raw_temperature,
            raw_multiplier=raw_multiplier,
            policy_adam=ADAM.init(policy),
            critic_adam=ADAM.init(critics),
            temperature_adam=ADAM.init(raw_temperature),
            multiplier_adam=ADAM.init(raw_multiplier),
            numbers=self.numbers(spec),
        )

    def fresh_critics(self, encoder: Encoder, spec: Spec, key: jax.Array, style: Style) -> Critics:
        o = self.options
        return Critics(
            *encoder,
            spec.action_dim,
            o.critic_widths,
            count=o.critics,
            key=key,
            layer_norm=o.critic_layer_norm,
            shared_head=o.shared_head,
            kernel=kernel_here(o.critic_kernel),
            style=style,
        )

    def numbers(self, spec: Spec) -> Numbers:
        o = self.options
        entropy = o.target_entropy if o.target_entropy < 0 else -o.entropy_scale * spec.action_dim
        return Numbers(
            discount=jnp.float32(o.discount),
            policy_rate=jnp.float32(o.policy_rate),
            critic_rate=jnp.float32(o.critic_rate),
            target_rate=jnp.float32(o.target_rate),
            target_entropy=jnp.float32(entropy),
            conservative_weight=jnp.float32(o.conservative_weight),
            gap=jnp.float32(o.gap),
            calibrate=jnp.float32(o.calibrate),
        )

    def switch(self, state: LearnerState) -> tuple[Self, LearnerState]:
        """Online the weight, the calibration and the regulariser may change; parameters and moments go on."""
        o, numbers = self.options, state.numbers
        if o.conservative_weight_online >= 0:
            numbers = numbers._replace(
                conservative_weight=jnp.full_like(numbers.conservative_weight, o.conservative_weight_online)
            )
        if not o.calibrate_online:
            numbers = numbers._replace(calibrate=jnp.zeros_like(numbers.calibrate))
        conservative = o.conservative and o.conservative_online
        online = replace(
            o,
            conservative=conservative,
            critic_steps=o.critic_steps_online or o.critic_steps,
            backup_actions=o.backup_actions_online or o.backup_actions,
        )
        return replace(self, options=online), state._replace(numbers=numbers)
