"""The actor-critic learner for discrete actions: every expectation and the regulariser are sums over all actions.

It is SAC with a categorical policy and critics that give Q of all actions at once; what the conservative regulariser,
its weight and its calibration are for continuous actions they are here, without samples and their densities.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp

from calql.methods import choice_losses, losses
from calql.methods.base import RATES, Metrics, Transitions, allowing
from calql.methods.learner import REGULARISER, ActorCritic, Encoder, LearnerState, Numbers
from calql.networks import Actor, Categorical, ChoiceCritics, Spec, Style, at_actions

# Options about samples, densities, bounds of continuous actions and networks that take an action as input.
IDLE = (
    "actor", "sampled_actions", "backup_actions", "backup_actions_online", "importance_sampling", "calibrate_random",
    "calibrate_after_importance", "state_dependent_std", "log_std_scalars", "log_std_offset", "log_std_range",
    "target_entropy", "entropy_scale", "shared_head", "critic_kernel",
)  # fmt: skip


@dataclass(frozen=True)
class DiscreteActorCritic(ActorCritic):
    """The learner on one-hot actions and masks; `options` decides which published method it is."""

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Options that were changed and change nothing."""
        o = self.options
        changed = [f.name for f in fields(o) if f.name in IDLE and getattr(o, f.name) != f.default]
        named = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        return (f"with discrete actions these options change nothing: {named}",) if changed else ()

    @property
    def varies(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*RATES, "entropy_share", *(REGULARISER if self.options.conservative else ()))

    # -- critic ---------------------------------------------------------------------------------------

    def critic_loss(  # type: ignore[override]
        self, critics: ChoiceCritics, state: LearnerState, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Sum over critics of squared TD error plus the weighted regulariser (docs/discrete.md)."""
        key_target, key_gap = jax.random.split(key)
        target, bounds = self.td_target(state, batch, key_target), self.target_bounds(state, batch)
        q = critics.of_choices(critics.encode(batch.observations))  # [critic, batch, choice]
        td, metrics = self.td_error(at_actions(q, batch.actions), target)
        metrics |= {} if bounds is None else {"bounded_targets": losses.bounded_share(target, bounds)}
        if not self.options.conservative:
            return self.over_critics(td), metrics
        gaps, bound_rates = self.choice_gaps(q, state, batch)  # [critic]
        metrics |= {"conservative_gap": jnp.mean(gaps)} | bound_rates
        return self.regularised(td, gaps, state, key_gap), metrics

    def td_target(self, state: LearnerState, batch: Transitions, key: jax.Array) -> jax.Array:
        """r + discount (1 - terminal) times the policy's exact mean of the least target critic at s'."""
        policy = distribution(state.policy, batch.next_observations, batch.next_action_masks)
        targets: ChoiceCritics = state.targets  # type: ignore[assignment]
        q = targets.of_choices(targets.encode(batch.next_observations))
        if self.options.target_subset:
            q = q[self.subset(self.options.target_subset, key, "target/critics")]
        value = policy.expectation(jnp.min(q, axis=0))
        if self.options.entropy_in_backup:
            value = value + self.temperature(state.raw_temperature) * policy.entropy()
        bounds = self.target_bounds(state, batch)
        return losses.backup(batch.rewards, batch.terminals, state.numbers.discount, value, bounds)

    def largest_entropy(self, state: LearnerState, batch: Transitions) -> jax.Array:
        return jnp.log(jnp.float32(batch.actions.shape[-1]))

    def choice_gaps(self, q: jax.Array, state: LearnerState, batch: Transitions) -> tuple[jax.Array, Metrics]:
        """The regulariser of each critic [critic], and how often the reference value bounds it."""
        assert batch.action_masks is not None
        masks, o = batch.action_masks, self.options
        reference = jnp.where(state.numbers.calibrate > 0, batch.reference, -jnp.inf)

        def one_critic(q: jax.Array) -> jax.Array:
            gap = choice_losses.conservative_gap(
                q,
                at_actions(q, batch.actions),
                masks,
                reference=reference,
                temperature=o.soft_maximum_temperature,
                subtract_log_count=o.subtract_log_count,
            )
            return jnp.mean(jnp.clip(gap, *o.difference_clip))

        policy = distribution(state.policy, batch.observations, masks)
        rates = {
            f"bound_rate/q{index + 1}/policy": choice_losses.bound_rate(q[index], batch.reference, policy)
            for index in range(o.critics)
        }
        return jax.vmap(one_critic)(q), rates

    # -- policy and scalars -----------------------------------------------------------------------------

    def policy_loss(  # type: ignore[override]
        self, policy: Actor, critics: ChoiceCritics, alpha: jax.Array, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """SAC's policy loss in exact means, and the mean log-probability [batch] of the policy's actions."""
        chosen = distribution(policy, batch.observations, batch.action_masks)
        q = critics.of_choices(critics.encode(batch.observations))
        reduce = jnp.min if self.options.policy_critic == "min" else jnp.mean
        return choice_losses.policy_loss(chosen, reduce(q, axis=0), alpha), -chosen.entropy()

    def next_log_probs(self, state: LearnerState, batch: Transitions, key: jax.Array) -> jax.Array:
        return -distribution(state.policy, batch.next_observations, batch.next_action_masks).entropy()

    def target_entropy(self, state: LearnerState, batch: Transitions) -> jax.Array:
        """A share of the largest entropy at each state, which is 0 where one action alone is allowed."""
        masks = batch.next_action_masks if self.options.temperature_states == "next" else batch.action_masks
        assert masks is not None
        return state.numbers.target_entropy * jnp.log(jnp.sum(masks, axis=-1).astype(jnp.float32))

    def own_gap(self, state: LearnerState, batch: Transitions, key: jax.Array) -> jax.Array:
        """Nothing is drawn but critics, if only some are penalised."""
        critics: ChoiceCritics = state.critics  # type: ignore[assignment]
        gaps, _ = self.choice_gaps(critics.of_choices(critics.encode(batch.observations)), state, batch)
        return jnp.mean(gaps[self.penalised(key, "dual")] if self.options.penalised_critics else gaps)

    # -- life cycle -------------------------------------------------------------------------------------

    def fresh_critics(  # type: ignore[override]
        self, encoder: Encoder, spec: Spec, key: jax.Array, style: Style
    ) -> ChoiceCritics:
        o = self.options
        return ChoiceCritics(
            *encoder,
            spec.action_dim,
            o.critic_widths,
            count=o.critics,
            key=key,
            layer_norm=o.critic_layer_norm,
            style=style,
        )

    def numbers(self, spec: Spec) -> Numbers:
        return super().numbers(spec)._replace(target_entropy=jnp.float32(self.options.entropy_share))


def distribution(policy: Actor, observations: jax.Array, masks: jax.Array | None) -> Categorical:
    """The policy's choice among what is allowed."""
    found: Categorical = allowing(policy(observations), masks)
    return found
