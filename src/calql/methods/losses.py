"""The loss terms as pure functions of numbers: no networks, no state, so they can be checked by hand.

Axes are named in the comments: batch (states), sample (actions drawn per state), critic (ensemble).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

BOUNDS_ROOM = 0.05  # of the range of possible returns
Bounds = tuple[jax.Array, jax.Array]  # least and largest


def conservative_gap(
    q_data: jax.Array,
    q_random: jax.Array,
    q_policy: jax.Array,
    q_next: jax.Array,
    log_prob_policy: jax.Array,
    log_prob_next: jax.Array,
    *,
    action_dim: int,
    reference: jax.Array | None = None,
    importance_sampling: bool = True,
    temperature: float = 1.0,
    calibrate_random: bool = False,
    calibrate_after_importance: bool = False,
    subtract_log_count: bool = False,
) -> jax.Array:
    """How far a soft maximum of Q over sampled actions stands above Q of the logged action, per state.

    Cal-QL in one line: Q of the policy's actions counts as at least the reference value, so pushing it
    down stops there. Without a reference this is CQL's regulariser.

    q_data [batch]; the other Q-values and log-probabilities [batch, sample], all at the state of the
    row; `log_prob_next` is under the policy at the next state, where those actions were drawn.
    reference [batch], or None. Returns T - q_data [batch], before any clip or mean.

    The last three options are where public ports differ from the authors' code: calibrating the random
    actions too, calibrating after the importance correction (as the paper's listing does), and
    subtracting the logarithm of the number of terms.
    """
    at_least = -jnp.inf if reference is None else reference[:, None]
    if not calibrate_after_importance:
        q_policy = jnp.maximum(q_policy, at_least)
        q_next = jnp.maximum(q_next, at_least)
    if calibrate_random:
        q_random = jnp.maximum(q_random, at_least)
    if importance_sampling:
        terms = [q_random + action_dim * math.log(2.0), q_next - log_prob_next, q_policy - log_prob_policy]
    else:
        terms = [q_random, q_data[:, None], q_next, q_policy]
    if calibrate_after_importance:
        terms[-2:] = [jnp.maximum(term, at_least) for term in terms[-2:]]
    stacked = jnp.concatenate(terms, axis=1)
    soft_maximum = temperature * jax.nn.logsumexp(stacked / temperature, axis=1)
    if subtract_log_count:
        soft_maximum = soft_maximum - temperature * math.log(stacked.shape[1])
    return soft_maximum - q_data


def bound_rate(q: jax.Array, reference: jax.Array) -> jax.Array:
    """Share of the entries of q [batch, sample] that lie below the reference [batch], before any calibration."""
    return jnp.mean(q < reference[:, None])


def backup(
    rewards: jax.Array,
    terminals: jax.Array,
    discount: jax.Array | float,
    next_values: jax.Array,
    bounds: Bounds | None = None,
) -> jax.Array:
    """TD target r + discount (1 - terminal) V(s'), without gradient, cut to `bounds` where there are any.

    All [batch]; the bounds, least and largest, are numbers.
    """
    target = rewards + discount * (1.0 - terminals) * next_values
    return jax.lax.stop_gradient(target if bounds is None else jnp.clip(target, *bounds))


def target_bounds(returns: jax.Array, *, below: jax.Array | float = 0.0, above: jax.Array | float = 0.0) -> Bounds:
    """Bounds of TD targets from the least and largest possible return [2], and what else Q may hold on either side.

    They are a twentieth of the range wider than it: critics err to both sides, and a cut right at the largest return
    would take away one of them.
    """
    room = BOUNDS_ROOM * (returns[1] - returns[0])
    return returns[0] - room - below, returns[1] + room + above


def bounded_share(target: jax.Array, bounds: Bounds) -> jax.Array:
    """Share of the targets [batch], already cut, that lie at one of their bounds."""
    return jnp.mean((target <= bounds[0]) | (target >= bounds[1]))


def pessimistic_best(q_targets: jax.Array) -> jax.Array:
    """Value of s' from target Q [critic, batch, sample]: the least critic per action first, then the best action."""
    return jnp.max(jnp.min(q_targets, axis=0), axis=-1)


def at_best(values: jax.Array, q_targets: jax.Array) -> jax.Array:
    """Of values [batch, sample], those of the actions that `pessimistic_best` takes [batch]."""
    best = jnp.argmax(jnp.min(q_targets, axis=0), axis=-1, keepdims=True)
    return jnp.take_along_axis(values, best, axis=-1)[..., 0]


def at_most(q: jax.Array, ceiling: float) -> jax.Array:
    """Q cut off above the ceiling, where it gets no gradient either."""
    return q if ceiling == math.inf else jnp.minimum(q, ceiling)


def squared_error(q: jax.Array, target: jax.Array) -> jax.Array:
    """Mean squared TD error per critic, without the factor 1/2: q [critic, batch], target [batch]."""
    return jnp.mean((q - target) ** 2, axis=-1)


def entropy_regularised(log_probs: jax.Array, q: jax.Array, alpha: jax.Array | float) -> jax.Array:
    """The policy's loss: mean of alpha log pi(a|s) - Q(s, a), for actions drawn from the policy. All [batch]."""
    return jnp.mean(alpha * log_probs - q)


def temperature_loss(log_alpha: jax.Array, log_probs: jax.Array, target_entropy: jax.Array | float) -> jax.Array:
    """-log alpha * mean(log pi + H): linear in log alpha, which moves up while entropy is below H."""
    return -log_alpha * jnp.mean(jax.lax.stop_gradient(log_probs) + target_entropy)


def weighted_temperature_loss(alpha: jax.Array, log_probs: jax.Array, target_entropy: jax.Array | float) -> jax.Array:
    """alpha * (entropy - H), with the entropy estimated by -mean log pi: the form of jaxrl, RLPD, WSRL and ODT."""
    return alpha * jnp.mean(jax.lax.stop_gradient(-log_probs) - target_entropy)


def dual_weight(log_multiplier: jax.Array) -> jax.Array:
    """alpha' = exp(log alpha'), kept within [0, 1e6]."""
    return jnp.clip(jnp.exp(log_multiplier), 0.0, 1e6)


# -- other methods ------------------------------------------------------------------------------------------


def expectile(difference: jax.Array, level: jax.Array | float) -> jax.Array:
    """|level - 1(u < 0)| u^2, elementwise: IQL's asymmetric square, the mean's at level 1/2."""
    return jnp.where(difference < 0, 1.0 - level, level) * difference**2


def exponential_weights(advantages: jax.Array, inverse_temperature: jax.Array, cap: float = 100.0) -> jax.Array:
    """min(exp(beta A), cap) [batch], without gradient; the cap is taken before the exponential can overflow."""
    exponent = jnp.minimum(inverse_temperature * advantages, math.log(cap))
    return jax.lax.stop_gradient(jnp.exp(exponent))


def softmax_weights(advantages: jax.Array, temperature: jax.Array) -> jax.Array:
    """Softmax over the batch of A / lambda [batch], without gradient: weights that sum to 1."""
    return jax.lax.stop_gradient(jax.nn.softmax(advantages / temperature))


def weighted_cloning(weights: jax.Array, log_probs: jax.Array) -> jax.Array:
    """-sum of weight times log pi(logged action). All [batch]; weights hold whatever 1/batch is wanted."""
    return -jnp.sum(weights * log_probs)


def normalised_ascent(q: jax.Array, scale: jax.Array | float = 1.0) -> jax.Array:
    """-scale * mean Q / mean |Q|, the divisor without gradient: Q of the policy's own actions, whatever its units."""
    size = jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
    return -scale * jnp.mean(q) / jnp.where(size > 0.0, size, 1.0)


def squared_distance(actions: jax.Array, others: jax.Array) -> jax.Array:
    """Sum over the action of the squared difference: [batch, action] to [batch]."""
    return jnp.sum((actions - others) ** 2, axis=-1)


def masked_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean of the entries whose mask is 1."""
    return jnp.sum(values * mask) / jnp.maximum(jnp.sum(mask), 1.0)
