"""Losses of discrete actions by hand: two actions, one forbidden or none; gradients by finite differences."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hand import agrees
from toy_task import BATCH, logged, spec, tiny

from calql.methods import choice_losses
from calql.methods.base import TimeStep, Transitions
from calql.methods.bc import BC
from calql.methods.learner import LearnerState
from calql.networks import Categorical, ChoiceCritics, Identity, Spec
from calql.networks.actors import CategoricalActor

KEY = jax.random.key(0)
BOTH, FIRST = jnp.array([[True, True]]), jnp.array([[True, False]])
Q = jnp.array([[1.0, 3.0]])
LOGGED = jnp.array([1.0])  # Q of the first action


@pytest.mark.parametrize(
    ("masks", "options", "expected"),
    [
        (BOTH, {}, math.log(math.e + math.e**3) - 1.0),  # 2.126928
        (BOTH, {"reference": jnp.array([2.0])}, math.log(math.e**2 + math.e**3) - 1.0),  # 2.313262: 1 counts as 2
        (BOTH, {"reference": jnp.array([0.5])}, math.log(math.e + math.e**3) - 1.0),  # bounds nothing
        (BOTH, {"reference": jnp.array([-jnp.inf])}, math.log(math.e + math.e**3) - 1.0),
        (FIRST, {}, 0.0),  # nothing but the logged action
        (FIRST, {"reference": jnp.array([2.0])}, 1.0),  # max(1, 2) - 1
        (BOTH, {"temperature": 2.0}, 2.0 * math.log(math.exp(0.5) + math.exp(1.5)) - 1.0),
        (BOTH, {"subtract_log_count": True}, math.log(math.e + math.e**3) - math.log(2.0) - 1.0),
        (FIRST, {"subtract_log_count": True}, 0.0),
    ],
)
def test_the_regulariser(masks: jax.Array, options: dict[str, Any], expected: float) -> None:
    found = choice_losses.conservative_gap(Q, LOGGED, masks, **options)
    np.testing.assert_allclose(found, [expected], rtol=1e-6, atol=1e-6)


def test_a_bounded_entry_and_a_forbidden_one_have_no_gradient() -> None:
    """Softmax of (2, 3) is (0.268941, 0.731059); the logged action is always pushed up by 1."""

    def gap(q: jax.Array, masks: jax.Array, reference: float) -> jax.Array:
        return jnp.sum(choice_losses.conservative_gap(q, q[:, 0], masks, reference=jnp.array([reference])))

    slope = jax.grad(gap)
    np.testing.assert_allclose(slope(Q, BOTH, 2.0), [[-1.0, 0.731059]], rtol=1e-5)
    np.testing.assert_allclose(slope(Q, BOTH, -jnp.inf), [[0.119203 - 1.0, 0.880797]], rtol=1e-5)
    np.testing.assert_allclose(slope(Q, FIRST, -jnp.inf), [[0.0, 0.0]], atol=1e-7)
    np.testing.assert_allclose(slope(jnp.array([[1.0, 1e9]]), FIRST, 2.0), [[-1.0, 0.0]], atol=1e-7)


QUARTERS = Categorical(jnp.array([[0.0, math.log(3.0)]]))  # 1/4 and 3/4


def test_the_policys_loss_entropy_and_bound_rate_are_exact() -> None:
    q, alpha = jnp.array([[1.0, 2.0]]), 0.5
    by_hand = 0.25 * (0.5 * math.log(0.25) - 1.0) + 0.75 * (0.5 * math.log(0.75) - 2.0)  # -2.031168
    assert float(choice_losses.policy_loss(QUARTERS, q, alpha)) == pytest.approx(by_hand, rel=1e-6)
    assert float(choice_losses.policy_loss(QUARTERS.allowing(FIRST), q, alpha)) == pytest.approx(-1.0)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    np.testing.assert_allclose(QUARTERS.entropy(), [entropy], rtol=1e-6)
    np.testing.assert_allclose(QUARTERS.allowing(FIRST).entropy(), [0.0], atol=1e-7)
    assert float(choice_losses.bound_rate(q, jnp.array([1.5]), QUARTERS)) == pytest.approx(0.25)
    assert float(choice_losses.bound_rate(q, jnp.array([1.5]), QUARTERS.allowing(FIRST))) == pytest.approx(1.0)
    assert float(choice_losses.bound_rate(q, jnp.array([-jnp.inf]), QUARTERS)) == 0.0


def test_the_policys_gradient_is_finite_and_nothing_goes_to_what_is_forbidden() -> None:
    def loss(logits: jax.Array) -> jax.Array:
        return choice_losses.policy_loss(Categorical(logits).allowing(FIRST), jnp.array([[1.0, 1e6]]), 0.5)

    np.testing.assert_array_equal(jax.grad(loss)(jnp.array([[0.3, -0.2]])), [[0.0, 0.0]])
    three = jnp.array([[True, True, False]])

    def among_two(logits: jax.Array) -> jax.Array:
        return choice_losses.policy_loss(Categorical(logits).allowing(three), jnp.array([[1.0, 2.0, 9.0]]), 0.5)

    slope = jax.grad(among_two)(jnp.zeros((1, 3)))
    np.testing.assert_allclose(slope, [[0.25, -0.25, 0.0]], rtol=1e-5)  # p (1 - p) times the difference of Q


def test_double_dqn_takes_the_targets_value_of_the_online_choice_among_the_allowed() -> None:
    online, target = jnp.array([[5.0, 1.0], [5.0, 1.0]]), jnp.array([[2.0, 7.0], [2.0, 7.0]])
    masks = jnp.array([[True, True], [False, True]])
    np.testing.assert_array_equal(choice_losses.double_target(online, target, masks), [2.0, 7.0])


# -- whole losses with networks of known numbers --------------------------------------------------------------


def constant_critics(*members: tuple[float, float]) -> ChoiceCritics:
    """Q of the two actions, the same at every state."""
    critics = ChoiceCritics(Identity(), 1, 2, (), count=len(members), key=KEY)
    critics = eqx.tree_at(lambda c: c.members.output.weight, critics, jnp.zeros((len(members), 2, 1)))
    return eqx.tree_at(lambda c: c.members.output.bias, critics, jnp.array(members))


def constant_policy(*logits: float) -> CategoricalActor:
    actor = CategoricalActor(Identity(), 1, len(logits), (), key=KEY)
    actor = eqx.tree_at(lambda a: a.network.output.weight, actor, jnp.zeros((len(logits), 1)))
    return eqx.tree_at(lambda a: a.network.output.bias, actor, jnp.array(logits))


def two_rows(**columns: Any) -> Transitions:
    """The first action, then the second, which ends; reward 1; nothing forbidden."""
    batch = Transitions(
        observations=jnp.zeros((2, 1)),
        actions=jnp.eye(2),
        rewards=jnp.ones(2),
        next_observations=jnp.zeros((2, 1)),
        terminals=jnp.array([0.0, 1.0]),
        reference=jnp.array([2.5, -jnp.inf]),
        action_masks=jnp.ones((2, 2), bool),
        next_action_masks=jnp.ones((2, 2), bool),
    )
    return batch._replace(**columns)


def learner(**options: Any) -> tuple[Any, LearnerState]:
    """Critics (1, 3) and (2, 2), their targets (0, 4) and (1, 2), a policy of 1/4 and 3/4."""
    usual = {"critics": 2, "discount": 0.9, "dual": False, "conservative_weight": 2.0, **options}
    method: Any = tiny("cal-ql", discrete=True, **usual)
    state = method.init(KEY, Spec((1,), 2, discrete=True))
    return method, state._replace(
        policy=constant_policy(0.0, math.log(3.0)),
        critics=constant_critics((1.0, 3.0), (2.0, 2.0)),
        targets=constant_critics((0.0, 4.0), (1.0, 2.0)),
    )


@pytest.mark.slow
def test_the_value_of_the_next_state_is_the_policys_exact_mean_of_the_least_critic() -> None:
    """Least targets (0, 2): 1/4 * 0 + 3/4 * 2 = 1.5, and 0 where the second action is forbidden."""
    method, state = learner()
    np.testing.assert_allclose(method.td_target(state, two_rows(), KEY), [1.0 + 0.9 * 1.5, 1.0], rtol=1e-6)
    forbidden = two_rows(next_action_masks=jnp.array([[True, False], [True, True]]))
    np.testing.assert_allclose(method.td_target(state, forbidden, KEY), [1.0, 1.0], rtol=1e-6)
    soft, state = learner(entropy_in_backup=True)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))  # alpha starts at 1
    np.testing.assert_allclose(soft.td_target(state, two_rows(), KEY), [1.0 + 0.9 * (1.5 + entropy), 1.0], rtol=1e-6)


def test_the_critics_loss_of_cal_ql_and_of_cql() -> None:
    """Row 1: Q (1, 2), target 2.35, reference 2.5. Row 2: Q (3, 2), target 1, no reference."""
    td = [((1 - 2.35) ** 2 + (3 - 1) ** 2) / 2, ((2 - 2.35) ** 2 + (2 - 1) ** 2) / 2]
    soft = math.log(math.e + math.e**3)  # of (1, 3)
    for calibrate, first, second in (
        (True, math.log(math.exp(2.5) + math.exp(3.0)), 2.5 + math.log(2.0)),  # (2.5, 3) and (2.5, 2.5)
        (False, soft, 2.0 + math.log(2.0)),
    ):
        gaps = [((first - 1) + (soft - 3)) / 2, ((second - 2) + math.log(2.0)) / 2]
        method, state = learner(calibrate=calibrate)
        loss, metrics = method.critic_loss(state.critics, state, two_rows(), KEY)
        assert float(loss) == pytest.approx(sum(td) + 2.0 * sum(gaps), rel=1e-6)
        assert float(metrics["conservative_gap"]) == pytest.approx(sum(gaps) / 2, rel=1e-6)
        assert float(metrics["bound_rate/q1/policy"]) == pytest.approx(0.25 / 2)  # action 1 of row 1: 1 < 2.5
        assert float(metrics["bound_rate/q2/policy"]) == pytest.approx(1.0 / 2)  # both of row 1: 2 < 2.5


def test_a_forbidden_action_counts_in_no_part_of_the_critics_loss() -> None:
    """With the other action forbidden the sum is the logged action's own Q, or the reference where that is more."""
    method, state = learner()
    alone = two_rows(action_masks=jnp.eye(2, dtype=bool))
    _, metrics = method.critic_loss(state.critics, state, alone, KEY)
    gaps = [((2.5 - 1) + 0.0) / 2, ((2.5 - 2) + 0.0) / 2]
    assert float(metrics["conservative_gap"]) == pytest.approx(sum(gaps) / 2, rel=1e-6)


def test_the_temperature_steers_to_a_share_of_what_is_possible_at_each_state() -> None:
    method, state = learner(entropy_share=0.5)
    masks = jnp.array([[True, True], [True, False]])
    found = method.target_entropy(state, two_rows(action_masks=masks))
    np.testing.assert_allclose(found, [0.5 * math.log(2.0), 0.0], rtol=1e-6)
    loss, log_probs = method.policy_loss(
        state.policy, state.critics, jnp.float32(0.5), two_rows(action_masks=masks), KEY
    )
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    np.testing.assert_allclose(log_probs, [-entropy, 0.0], rtol=1e-6, atol=1e-7)
    both, one = -0.5 * entropy - (0.25 * 1.0 + 0.75 * 2.0), -1.0  # least critics (1, 2)
    assert float(loss) == pytest.approx((both + one) / 2, rel=1e-6)


@pytest.mark.slow
def test_cloning_is_among_the_allowed_alone() -> None:
    method = tiny("bc", discrete=True)
    assert isinstance(method, BC)
    policy = constant_policy(0.0, 0.0, math.log(2.0))
    rows = two_rows(actions=jnp.eye(3)[:2], action_masks=jnp.array([[True, True, False], [True, True, True]]))
    loss, metrics = method.policy_loss(policy, rows)
    assert float(loss) == pytest.approx(-(math.log(1 / 2) + math.log(1 / 4)) / 2, rel=1e-6)
    assert float(metrics["agreement"]) == 0.5  # the first of two equal ones, then the third
    iql: Any = tiny("iql", discrete=True)
    state = iql.init(KEY, Spec((1,), 3, discrete=True))
    at_no_advantage = state.value.parameters(rows.observations)
    loss, _ = iql.policy_loss(policy, state, rows, at_no_advantage, KEY)
    assert float(loss) == pytest.approx(-(math.log(1 / 2) + math.log(1 / 4)) / 2, rel=1e-6)


@pytest.mark.parametrize("name", ["cal-ql", "iql", "bc", "dqn"])
def test_nothing_forbidden_is_ever_chosen(name: str) -> None:
    """Whatever the network prefers: each mask in turn forbids it."""
    method = tiny(name, discrete=True)
    policy = method.policy(method.init(KEY, Spec((1,), 3, discrete=True)))
    masks = jnp.array([[m & 1, m >> 1 & 1, m >> 2 & 1] for m in range(1, 8)], bool)
    keys = jax.random.split(KEY, 200)

    def act(mask: jax.Array, key: jax.Array, explore: bool) -> jax.Array:
        step = TimeStep(jnp.ones(1), jnp.float32(0), jnp.int32(0), mask)
        return method.act(policy, (), step, key, explore=explore)[0]

    drawn = jax.vmap(lambda mask: jax.vmap(lambda key: act(mask, key, True))(keys))(masks)
    np.testing.assert_array_equal(drawn.sum(axis=-1), 1.0)
    np.testing.assert_array_equal(np.asarray(drawn.sum(axis=1) > 0), masks)  # all that is allowed, in 200 draws
    best = jax.vmap(lambda mask: act(mask, KEY, False))(masks)
    assert bool(jnp.all(jnp.sum(best * masks, axis=-1) == 1.0))


def test_double_dqns_loss() -> None:
    """Row 1: Q(s, first) = 1, online choice the second, its target 4: (1 - 1 - 0.9 * 4)^2. Row 2: (3 - 1)^2."""
    method: Any = tiny("dqn", discrete=True, discount=0.9)
    critics, targets = constant_critics((1.0, 3.0)), constant_critics((0.0, 4.0))
    loss, _ = method.critic_loss(critics, targets, two_rows(), jnp.float32(0.9))
    assert float(loss) == pytest.approx((3.6**2 + 4.0) / 2, rel=1e-6)
    forbidden = two_rows(next_action_masks=FIRST.repeat(2, axis=0))
    loss, _ = method.critic_loss(critics, targets, forbidden, jnp.float32(0.9))
    assert float(loss) == pytest.approx((0.0 + 4.0) / 2, rel=1e-6)


# -- gradients --------------------------------------------------------------------------------------------------


def losses_of(name: str) -> list[tuple[Any, Any]]:
    """Each loss of a method as a function of its network alone, and that network."""
    method: Any = tiny(name, discrete=True)
    state = jax.jit(method.init, static_argnums=1)(KEY, spec(discrete=True))
    rows = jax.tree.map(lambda column: column[:BATCH], logged(method, discrete=True))
    rate, q = jnp.float32(0.9), jnp.arange(BATCH) * 0.1
    if name == "bc":
        return [(lambda p: method.policy_loss(p, rows)[0], state.policy.parameters)]
    if name == "dqn":
        return [(lambda c: method.critic_loss(c, state.targets, rows, rate)[0], state.critics.parameters)]
    if name == "iql":
        value = state.value.parameters
        return [
            (lambda v: method.value_loss(v, rows, q, rate)[0], value),
            (lambda c: method.critic_loss(c, value, rows, rate)[0], state.critics.parameters),
            (lambda p: method.policy_loss(p, state, rows, q, KEY)[0], state.policy.parameters),
        ]
    return [
        (lambda c: method.critic_loss(c, state, rows, KEY)[0], state.critics),
        (lambda p: method.policy_loss(p, state.critics, rate, rows, KEY)[0], state.policy),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cal-ql", "sac", "iql", "bc", "dqn"])
def test_gradients(name: str) -> None:
    for loss, network in losses_of(name):
        agrees(jax.jit(loss), network)
