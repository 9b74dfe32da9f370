"""Losses of each method on linear networks, against numbers worked out by hand in the comments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hand import Q1, Q2, constant_policy, gaussian_policy, linear_critics, rows, squashed_policy

from calql.methods.awac import AWAC, AWACOptions
from calql.methods.bc import BC, BCOptions
from calql.methods.iql import IQL, IQLOptions
from calql.methods.o3f import O3F, Explorer, O3FOptions
from calql.methods.odt import ODT, ODTOptions
from calql.methods.rebrac import ReBRAC, ReBRACOptions
from calql.methods.td3_bc import TD3BC, TD3BCOptions
from calql.networks.actors import Gaussian, TanhGaussian

KEY = jax.random.key(0)
# log N(0.5; 0, 1) = -0.125 - 0.918939
LOG_NORMAL = -1.043939
# the same as a density of tanh(0.5) = 0.462117: minus ln(1 - 0.462117^2) = ln 0.786448 = -0.240229
LOG_SQUASHED = -0.803710


def state(**parts: Any) -> Any:
    """A stand-in for a method's state: networks where the method has trained ones."""
    trained = {"policy", "critics", "value"}
    return SimpleNamespace(
        **{name: SimpleNamespace(parameters=part) if name in trained else part for name, part in parts.items()}
    )


def numbers(**values: float) -> Any:
    return SimpleNamespace(**{name: jnp.float32(value) for name, value in values.items()})


def test_densities() -> None:
    one = Gaussian(jnp.zeros(1), jnp.zeros(1))
    assert float(one.log_prob(jnp.array([0.5]))) == pytest.approx(LOG_NORMAL, abs=1e-5)
    wide = Gaussian(jnp.zeros(1), jnp.log(jnp.array([2.0])))
    assert float(wide.log_prob(jnp.array([1.0]))) == pytest.approx(LOG_NORMAL - 0.693147, abs=1e-5)
    squashed = TanhGaussian(jnp.zeros(1), jnp.zeros(1))
    assert float(squashed.log_prob(jnp.tanh(jnp.array([0.5])))) == pytest.approx(LOG_SQUASHED, abs=1e-5)


class TestIQL:
    method = IQL(IQLOptions())

    def test_value_regresses_to_the_expectile(self) -> None:
        # min Q = 1, V = 0.4 s = 0.4: 0.9 * 0.6^2; and with Q = 0 below V: 0.1 * 0.4^2
        value = lambda observations: 0.4 * observations[:, 0]  # noqa: E731
        loss = self.method.value_loss(value, rows(), jnp.array([1.0]), 0.9)[0]
        assert float(loss) == pytest.approx(0.324, rel=1e-5)
        assert float(self.method.value_loss(value, rows(), jnp.array([0.0]), 0.9)[0]) == pytest.approx(0.016, rel=1e-5)

    def test_critics_follow_the_value_of_the_next_state(self) -> None:
        # target 1 + 0.9 * 0.4 * 2 = 1.72; Q1 = 1.5, Q2 = 1: 0.22^2 + 0.72^2
        value = lambda observations: 0.4 * observations[:, 0]  # noqa: E731
        loss = self.method.critic_loss(linear_critics(Q1, Q2), value, rows(), jnp.float32(0.9))[0]
        assert float(loss) == pytest.approx(0.5668, rel=1e-5)

    def test_policy_clones_by_advantage(self) -> None:
        # A = 1 - 0.4 = 0.6; beta = ln 2 / 0.6: weight 2
        now = state(value=lambda observations: 0.4 * observations[:, 0], numbers=numbers(temperature=0.693147 / 0.6))
        loss = self.method.policy_loss(gaussian_policy(0.0, 0.0), now, rows(), jnp.array([1.0]), KEY)[0]
        assert float(loss) == pytest.approx(-2 * LOG_NORMAL, abs=1e-4)

    def test_the_aggressive_update_adds_ascent_on_q(self) -> None:
        # min Q at the mean action 0: min(1, 0) = 0; with Q2 = 2 a + 3: min(1, 3) = 1, in units of its size 1
        now = state(
            value=lambda observations: 0.4 * observations[:, 0],
            numbers=numbers(temperature=0.693147 / 0.6, ascent_weight=0.5),
            targets=linear_critics(Q1, (0.0, 2.0, 3.0)),
        )
        method = IQL(IQLOptions(ascent_weight_online=0.5))
        loss = method.policy_loss(gaussian_policy(0.0, 0.0), now, rows(), jnp.array([1.0]), KEY)[0]
        assert float(loss) == pytest.approx(-2 * LOG_NORMAL - 0.5, abs=1e-4)

    def test_online_temperature(self) -> None:
        from toy_task import spec, tiny

        method = tiny("iql", temperature_online=3.0)
        before = jax.jit(method.init, static_argnums=1)(KEY, spec())
        assert float(before.numbers.temperature) == 10.0
        assert float(method.switch(before)[1].numbers.temperature) == 3.0


class TestAWAC:
    sure = staticmethod(gaussian_policy(0.25, -20.0))  # plays 0.25

    def test_critics_follow_the_policy(self) -> None:
        # at s' = 2, a' = 0.25: min(2.25, 0.5) = 0.5; target 1 + 0.9 * 0.5 = 1.45; 0.05^2 + 0.45^2
        now = state(policy=self.sure, targets=linear_critics(Q1, Q2), numbers=numbers(discount=0.9))
        loss = AWAC(AWACOptions()).critic_loss(linear_critics(Q1, Q2), now, rows(), KEY)[0]
        assert float(loss) == pytest.approx(0.205, rel=1e-4)

    @pytest.mark.parametrize(("weighting", "largest"), [("softmax", 0.75), ("exponential", 3**0.25 / 2)])
    def test_weights_over_the_batch(self, weighting: Any, largest: float) -> None:
        # V = min Q at 0.25 = 0.5; A = min(1.5, 1) - 0.5 = 0.5 and min(0.5, -1) - 0.5 = -1.5.
        # With lambda = 2 / ln 3 they differ by ln 3: softmax 3/4, 1/4. exp(0.5 ln 3 / 2) = 3^(1/4), over 2 rows.
        method = AWAC(AWACOptions(weighting=weighting))
        temperature = jnp.float32(2.0 / 1.0986123)
        args = (self.sure, linear_critics(Q1, Q2), rows((0.5, -0.5)), temperature, KEY)
        metrics = method.policy_loss(*args)[1]
        assert float(metrics["largest_weight"]) == pytest.approx(largest, rel=1e-4)
        assert float(metrics["advantage"]) == pytest.approx(-0.5, rel=1e-4)

    def test_loss_is_the_weighted_likelihood(self) -> None:
        # one row: softmax weight 1, so minus its log-density
        args = (gaussian_policy(0.0, 0.0), linear_critics(Q1, Q2), rows(), jnp.float32(1.0), KEY)
        assert float(AWAC(AWACOptions()).policy_loss(*args)[0]) == pytest.approx(-LOG_NORMAL, abs=1e-5)


class TestTD3BC:
    method = TD3BC(TD3BCOptions())
    quiet = numbers(target_noise=0.0, target_noise_clip=0.5, discount=0.9)

    def now(self, **more: Any) -> Any:
        critics = linear_critics(Q1, Q2)
        parts = {"critics": critics, "critic_targets": critics, "policy_target": constant_policy(0.25)}
        return state(**parts, numbers=self.quiet, online_updates=jnp.int32(-1), **more)

    def test_target(self) -> None:
        # a' = 0.25 at s' = 2: min(2.25, 0.5) = 0.5; target 1.45; 0.05^2 + 0.45^2
        assert float(self.method.next_value(self.now(), rows(), KEY)[0]) == pytest.approx(0.5, rel=1e-5)
        loss = self.method.critic_loss(linear_critics(Q1, Q2), self.now(), rows(), KEY)[0]
        assert float(loss) == pytest.approx(0.205, rel=1e-4)

    def test_noise_is_clipped_and_so_is_the_action(self) -> None:
        now = self.now()
        now.numbers = numbers(target_noise=1e6, target_noise_clip=0.5)
        actions = self.method.smoothed_action(now, rows((0.5,) * 32), KEY)
        assert {round(float(a), 4) for a in actions[:, 0]} == {0.75, -0.25}  # 0.25 and 0.5 to either side

    def test_policy_loss(self) -> None:
        # Q1(1, 0.25) = 1.25, in units of its size 1; -2.5 + (0.25 - 0.5)^2
        loss = self.method.policy_loss(constant_policy(0.25), self.now(), rows(), KEY)[0]
        assert float(loss) == pytest.approx(-2.4375, rel=1e-4)


class TestReBRAC:
    method = ReBRAC(ReBRACOptions(policy_penalty=4.0, target_penalty=2.0, penalty_updates=100))

    def test_target_is_penalised_where_a_next_action_is_known(self) -> None:
        # (0.25 - 0.75)^2 = 0.25, weight 2: 0.5 - 0.5 = 0; at the end of an episode 0.5
        now = TestTD3BC().now()
        for known, expected in ((1.0, 0.0), (0.0, 0.5)):
            batch = rows(next_actions=jnp.array([[0.75]]), has_next_action=jnp.array([known]))
            assert float(self.method.next_value(now, batch, KEY)[0]) == pytest.approx(expected, abs=1e-5)
        now.online_updates = jnp.int32(0)  # online the target has no penalty
        batch = rows(next_actions=jnp.array([[0.75]]), has_next_action=jnp.ones(1))
        assert float(self.method.next_value(now, batch, KEY)[0]) == pytest.approx(0.5, abs=1e-5)

    def test_policy_loss(self) -> None:
        # min Q = min(1.25, 0.5), in its own units 1; 4 * 0.25^2 - 1
        loss = self.method.policy_loss(constant_policy(0.25), TestTD3BC().now(), rows(), KEY)[0]
        assert float(loss) == pytest.approx(-0.75, rel=1e-4)

    @pytest.mark.parametrize(("online", "factor"), [(-1, 1.0), (0, 1.0), (20, 0.8), (50, 0.5), (500, 0.0)])
    def test_penalties_fall_to_nothing_online(self, online: int, factor: float) -> None:
        # a straight line over 100 gradient steps
        assert float(self.method.decay(SimpleNamespace(online_updates=jnp.int32(online)))) == pytest.approx(factor)


class TestO3F:
    def test_score_is_the_mean_plus_optimism_times_the_spread(self) -> None:
        q = jnp.array([[1.0], [2.0], [3.0]])  # mean 2, standard deviation sqrt(2/3)
        assert float(O3F(O3FOptions()).score(q)[0]) == 2.0
        assert float(O3F(O3FOptions(optimism=1.0)).score(q)[0]) == pytest.approx(2.816497, rel=1e-6)

    def test_it_plays_the_best_candidate_when_exploring_alone(self) -> None:
        from calql.methods.base import TimeStep

        method, time_step = O3F(O3FOptions(candidates=50)), TimeStep(jnp.array([1.0]), jnp.float32(0), jnp.int32(0))
        rising, falling = linear_critics(Q1, Q2), linear_critics((1.0, -1.0, 0.0))
        played = [
            float(method.act(Explorer(constant_policy(0.0), critics), (), time_step, KEY, explore=explore)[0][0])
            for critics, explore in ((rising, True), (falling, True), (rising, False))
        ]
        assert played[0] > 0.2 > -0.2 > played[1]
        assert played[2] == 0.0

    def test_optimistic_backup_values_the_chosen_candidate_by_the_least_critic(self) -> None:
        # candidates 0.25 alone (no noise): mean (2.25 + 0.5) / 2 decides, least critic 0.5 counts
        method = O3F(O3FOptions(optimistic_backup=True, candidate_noise=0.0))
        assert float(method.next_value(TestTD3BC().now(), rows(), KEY)[0]) == pytest.approx(0.5, rel=1e-5)


def test_bc_is_minus_the_likelihood_or_the_squared_error() -> None:
    batch = rows((0.46211716,))
    loss = BC(BCOptions()).policy_loss(squashed_policy(0.0, 0.0), batch)[0]
    assert float(loss) == pytest.approx(-LOG_SQUASHED, abs=1e-5)
    squared = BC(BCOptions(objective="squared")).policy_loss(squashed_policy(0.0, 0.0), batch)[0]
    assert float(squared) == pytest.approx(0.46211716**2, rel=1e-5)


@pytest.mark.slow
def test_odt_counts_real_steps_alone() -> None:
    # two steps of tanh(0.5), the second beyond the end of its episode: what stands there changes nothing
    method = ODT(ODTOptions())

    def policy(returns: jax.Array, observations: jax.Array, actions: jax.Array, *rest: Any) -> TanhGaussian:
        return TanhGaussian(jnp.zeros_like(actions), jnp.zeros_like(actions))

    for beyond in (0.46211716, -0.9):
        batch = rows()._replace(
            observations=jnp.ones((1, 2, 1)),
            actions=jnp.array([[[0.46211716], [beyond]]]),
            remaining=jnp.array([[0, 7]]),
            return_to_go=jnp.ones((1, 2)),
            timestep=jnp.array([[4, 0]]),
            rewards=jnp.ones((1, 2)),
            next_observations=jnp.ones((1, 2, 1)),
            terminals=jnp.zeros((1, 2)),
            reference=jnp.zeros((1, 2)),
        )
        loss = method.policy_loss(policy, jnp.float32(0.0), batch, KEY)[0]
        assert float(loss) == pytest.approx(-LOG_SQUASHED, abs=1e-5)
        # with temperature 1 the entropy comes off as well
        loss, (entropy, _) = method.policy_loss(policy, jnp.float32(1.0), batch, KEY)
        assert float(loss) == pytest.approx(-LOG_SQUASHED - float(entropy), abs=1e-5)
