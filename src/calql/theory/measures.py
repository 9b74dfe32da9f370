"""The quantities of the theorem, computed on the class of an instance: C, C^ref, d, d_ref, the bound.

The class is C = {f = features @ theta : 0 <= f <= Q*}, pessimistic with respect to pi* (Assumption H.1 with
pi^e = pi*), and the calibrated class is its part above Q^ref. With an anchor for every feature, f lies
between two linear functions exactly when theta lies between their weights, so both classes are boxes of
weights. All of it runs in double precision, whatever the program's default.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from calql.theory.conditions import Instance, make_instance
from calql.theory.mdp import MDP, bellman, greedy_value, occupancy, one_hot_greedy, policy_value

Table = npt.NDArray[np.float64]

PINNED = 1e-9
"""A weight whose interval is shorter than this is pinned: there the class has one value only."""

_exact = jax.jit(lambda mdp, policy, offline: make_instance(mdp, lambda *_: (policy, offline)))
_bellman_all = jax.jit(jax.vmap(bellman, in_axes=(None, 0)))
_visits = jax.jit(lambda mdp, q: occupancy(mdp, one_hot_greedy(q)))
_visits_all = jax.jit(jax.vmap(lambda mdp, q: occupancy(mdp, one_hot_greedy(q)), in_axes=(None, 0)))


class ClassBox(NamedTuple):
    """A class of Q-functions: all weights between two ends, at every step."""

    low: Table  # [h, d]
    high: Table  # [h, d]

    @property
    def free(self) -> npt.NDArray[np.bool_]:
        return self.high - self.low > PINNED


class Quantities(NamedTuple):
    """What the theorem speaks of, for one instance."""

    optimal_value: float
    reference_value: float
    plain_coefficient: float
    calibrated_coefficient: float
    plain_witness: float
    """The ratio of Bellman errors of one member of the class built to attain the coefficient; NaN where the
    member built is not in the class, so that the coefficient is only known to be an upper bound."""
    calibrated_witness: float
    plain_rank: int
    calibrated_rank: int
    parameters: int
    """Weights per step: the dimension of the class."""


def quantities(instance: Instance, seed: int = 0) -> Quantities:
    """Everything below, for one instance."""
    with jax.enable_x64(True):
        instance = in_double(instance)
        plain, calibrated = class_boxes(instance)
        return Quantities(
            optimal_value=float(greedy_value(instance.mdp, instance.optimal_q)),
            reference_value=float(policy_value(instance.mdp, instance.reference_policy)),
            plain_coefficient=coefficient(instance, plain),
            calibrated_coefficient=coefficient(instance, calibrated),
            plain_witness=witness(instance, plain),
            calibrated_witness=witness(instance, calibrated),
            plain_rank=bilinear_rank(instance, plain, seed),
            calibrated_rank=bilinear_rank(instance, calibrated, seed),
            parameters=plain.low.shape[-1],
        )


def in_double(instance: Instance) -> Instance:
    """The instance in double precision, its distributions summing to one there and its values recomputed.

    Call it, and whatever is done with the result, under `jax.enable_x64(True)`.
    """

    def double(x: object, normalise: bool = True) -> jax.Array:
        array = np.asarray(x, np.float64)
        return jnp.asarray(array / array.sum(axis=-1, keepdims=True) if normalise else array)

    mdp = instance.mdp
    transition, reward = double(mdp.transition), double(mdp.reward_mean, normalise=False)
    features = None if mdp.features is None else double(mdp.features)
    if features is not None:  # single precision left them linear only to seven digits
        flat = features.reshape(-1, features.shape[-1])
        onto = (flat @ np.linalg.pinv(flat)).reshape(*features.shape[:2], *features.shape[:2])
        transition = jnp.einsum("saxy,hxyn->hsan", onto, transition)
        reward = jnp.einsum("saxy,hxy->hsa", onto, reward)
    mdp = MDP(double(mdp.start), transition, reward, features)
    given = double(instance.reference_policy), double(instance.offline, normalise=False)
    return _exact(mdp, *given)


def class_boxes(instance: Instance) -> tuple[ClassBox, ClassBox]:
    """The pessimistic class, and its calibrated part."""
    inverse = np.linalg.pinv(_features(instance))

    def weights(q: jax.Array) -> Table:
        return np.asarray(q).reshape(q.shape[0], -1) @ inverse.T

    high, reference = weights(instance.optimal_q), weights(instance.reference_q)
    return ClassBox(np.zeros_like(high), high), ClassBox(np.minimum(reference, high), high)


def error_ratio(instance: Instance, f: Table) -> float:
    """The ratio under the maximum in the definition of C, for one f, with pi = pi*."""
    error = np.asarray(bellman(instance.mdp, jnp.asarray(f))) - f
    comparator = np.asarray(_visits(instance.mdp, instance.optimal_q))
    return float((comparator * error).sum() / np.sqrt((np.asarray(instance.offline) * error**2).sum()))


def extremal_weights(instance: Instance, box: ClassBox) -> tuple[Table, Table]:
    """The Bellman errors (as weights [h, d]) that attain the coefficient, and each step's share of its square.

    Every f of the class has T f - f = features @ w with w = 0 at pinned weights: if Q^ref = Q* at (s, a) then
    mu is optimal from every next state on, so f = Q* there and T f = f. By Cauchy-Schwarz no ratio exceeds
    sqrt(sum_h x_h' Sigma_h^-1 x_h), over the free weights, with x_h = E_{d^pi}[features] and Sigma_h =
    E_nu[features features']. Infinite where nu does not cover a direction that pi needs.
    """
    features = _features(instance)
    comparator = _flat(_visits(instance.mdp, instance.optimal_q))
    offline = _flat(instance.offline)
    weights, squares = np.zeros_like(box.low), np.zeros(len(box.low))
    for h, free in enumerate(box.free):
        phi = features * free
        needed = comparator[h] @ phi
        covariance = (phi * offline[h][:, None]).T @ phi
        scale = np.sqrt(np.diag(covariance))
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        inverse = np.linalg.pinv(unit[:, None] * covariance * unit, rcond=1e-10, hermitian=True)
        weights[h] = unit * (inverse @ (unit * needed))
        missed = np.abs(covariance @ weights[h] - needed).max()
        squares[h] = np.inf if missed > 1e-7 else needed @ weights[h]
    return weights, squares


def coefficient(instance: Instance, box: ClassBox) -> float:
    """C_{pi*} over a class: exact for tabular classes, an upper bound for linear ones (see the witness)."""
    return float(np.sqrt(extremal_weights(instance, box)[1].sum()))


def witness(instance: Instance, box: ClassBox) -> float:
    """The ratio of a member built to attain the coefficient: f_h = T f_{h+1} - small * extremal error."""
    features, weights = _features(instance), extremal_weights(instance, box)[0]
    largest = np.abs(weights).max()
    if not box.free.any() or largest == 0:
        return 0.0
    room = (box.high - box.low)[box.free].min()
    error = (weights @ features.T * (0.5 * room / (instance.mdp.horizon * largest))).reshape(instance.optimal_q.shape)
    f = np.zeros_like(error)
    for h in reversed(range(instance.mdp.horizon)):
        f[h] = np.asarray(bellman(instance.mdp, jnp.asarray(f)))[h] - error[h]
    low = (box.low @ features.T).reshape(f.shape)
    slack = 1e-6 * room
    member = (f >= low - slack).all() and (f <= np.asarray(instance.optimal_q) + slack).all()
    return error_ratio(instance, f) if member else float("nan")


def bilinear_rank(instance: Instance, box: ClassBox, seed: int, members: int | None = None) -> int:
    """Largest rank over steps of the matrix E_{d_h^{pi^f}}[g_h - T g_{h+1}], for sampled f and g of the class.

    Half of the members are corners of the class, where greedy policies differ most, and half lie inside. A
    sample can only miss directions, so this is a lower bound of the rank.
    """
    rng = np.random.default_rng(seed)
    members = members or 4 * len(_features(instance))
    inside = rng.random((members, *box.low.shape))
    corner = inside < rng.random((members, 1, 1))
    share = np.where(np.arange(members)[:, None, None] % 2 == 0, inside, corner)
    theta = box.low + share * (box.high - box.low)
    f = jnp.asarray((theta @ _features(instance).T).reshape(members, *instance.optimal_q.shape))
    visited = np.asarray(_visits_all(instance.mdp, f))
    error = np.asarray(f - _bellman_all(instance.mdp, f))
    form = np.einsum("fhx,ghx->hfg", _flat(visited), _flat(error), optimize=True)
    singular = np.linalg.svd(form, compute_uv=False)  # [h, members]
    return int((singular > 1e-8 * max(singular.max(), PINNED)).sum(axis=-1).max())


class Branches(NamedTuple):
    """The two branches of the bound without their constant, at one number of episodes."""

    coverage: float
    """C^ref H sqrt(d K log|F|)"""
    reference_gap: float
    """K (V* - V^ref), which carries the constant 1"""
    exploration: float
    """H sqrt(d_ref K log|F|)"""

    def bound(self, constant: float) -> float:
        return min(constant * self.coverage, self.reference_gap + constant * self.exploration)


def branches(found: Quantities, horizon: int, episodes: int, *, calibrated: bool = True) -> Branches:
    """The bound of Cal-QL, or (`calibrated=False`) the single branch of Hy-Q.

    C stands for max(C, 1), as in Theorem 1 of Song et al.; log|F| for d_F log(1 + H K), the covering number at
    resolution 1/K of a class of d_F weights per step with values in [0, H].
    """
    log_class = found.parameters * np.log1p(horizon * episodes)
    scale = horizon * np.sqrt(episodes * log_class)
    concentrability = found.calibrated_coefficient if calibrated else found.plain_coefficient
    return Branches(
        coverage=float(max(concentrability, 1.0) * scale * np.sqrt(found.plain_rank)),
        reference_gap=episodes * (found.optimal_value - found.reference_value) if calibrated else np.inf,
        exploration=float(scale * np.sqrt(found.calibrated_rank)),
    )


def needed_constant(regret: float, branch: Branches) -> float:
    """The smallest constant for which the bound holds of one regret."""
    by_coverage = regret / branch.coverage
    spare = regret - branch.reference_gap
    by_reference = 0.0 if spare <= 0 else spare / branch.exploration if branch.exploration > 0 else np.inf
    return float(max(by_coverage, by_reference))


def _features(instance: Instance) -> Table:
    table = np.asarray(instance.mdp.feature_table(), np.float64)
    return table.reshape(-1, table.shape[-1])


def _flat(table: object) -> Table:
    array = np.asarray(table)
    return array.reshape(*array.shape[:-2], -1)
