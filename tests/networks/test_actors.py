"""Actors: what every one of them promises, and the densities and bounds of each."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.networks import Identity, Style, draws
from calql.networks.actors import (
    ACTORS,
    CHOICES,
    DENSITY,
    GRADIENTS,
    Categorical,
    CategoricalActor,
    Deterministic,
    DeterministicActor,
    Gaussian,
    GaussianActor,
    TanhGaussian,
    TanhGaussianActor,
    actors_that_give,
    make_actor,
    settings_of,
)
from calql.system.errors import UserError

KEY = jax.random.key(0)
FEATURES, ACTION = 3, 2


EVERY = {**ACTORS, "categorical": CategoricalActor}  # the one of discrete spaces is chosen by nobody


def made(name: str) -> Any:
    return EVERY[name](Identity(), FEATURES, ACTION, (8,), key=KEY, style=Style())  # type: ignore[call-arg]


def states(*shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(1), (*shape, FEATURES))


# -- the protocol -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("shape", [(), (5,), (4, 5)])
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    distribution = made(name)(states(*shape))
    assert distribution.mode().shape == (*shape, ACTION)
    for n, batch in ((None, shape), (1, (*shape, 1)), (7, (*shape, 7))):
        actions, log_probs = distribution.sample(KEY, n)
        assert actions.shape == (*batch, ACTION)
        given = distribution.log_prob(actions)
        if DENSITY in EVERY[name].gives:
            assert log_probs.shape == given.shape == batch
        else:
            assert log_probs is given is None


@pytest.mark.parametrize("name", actors_that_give([DENSITY]))
@pytest.mark.parametrize("n", [None, 64])
def test_log_density_of_a_sample_is_that_of_its_action(name: str, n: int | None) -> None:
    distribution = made(name)(states(6))
    actions, log_probs = distribution.sample(KEY, n)
    inside = jnp.all(jnp.abs(actions) < 0.999, axis=-1)  # what was cut to the box is another action
    assert bool(jnp.any(inside))
    np.testing.assert_allclose(distribution.log_prob(actions)[inside], log_probs[inside], atol=1e-2)


@pytest.mark.parametrize("name", EVERY)
def test_actions_are_in_the_box_and_numbers(name: str) -> None:
    for scale in (0.0, 1.0, 1e4):
        distribution = made(name)(scale * states(16))
        for actions in (distribution.mode(), distribution.sample(KEY)[0], distribution.sample(KEY, 9)[0]):
            assert float(jnp.abs(actions).max()) <= 1.0  # which NaN is not


@pytest.mark.parametrize("name", EVERY)
def test_draws_have_the_name_asked_for_and_no_other(name: str) -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def zeros(label: str, shape: tuple[int, ...]) -> jax.Array:
        asked.append((label, shape))
        return jnp.zeros(shape)

    distribution = made(name)(states(5))
    with draws.recorded(zeros):
        actions, _ = distribution.sample(KEY, 7, "policy/action")
        distribution.mode()
    assert asked == ([] if name == "deterministic" else [("policy/action", (5, 7, ACTION))])
    np.testing.assert_allclose(actions, jnp.repeat(distribution.mode()[:, None], 7, axis=1), atol=1e-6)


@pytest.mark.parametrize("name", actors_that_give([GRADIENTS]))
@pytest.mark.parametrize("asked", ["sample", "samples", "mode"])
def test_gradients_reach_every_weight_through_the_actions(name: str, asked: str) -> None:
    def total(actor: Any) -> jax.Array:
        distribution = actor(states(16))
        drawn = distribution.sample(KEY, 5 if asked == "samples" else None)[0]
        return jnp.sum(distribution.mode() if asked == "mode" else drawn)

    gradient = jax.grad(total)(made(name))
    assert all(float(jnp.abs(leaf).max()) > 0 for leaf in jax.tree.leaves(gradient.network.output.weight[:ACTION]))
    assert float(jnp.abs(gradient.network.hidden[0].weight).max()) > 0
    if asked != "mode" and name == "gaussian":
        assert float(jnp.abs(gradient.log_std).max()) > 0


@pytest.mark.parametrize("name", EVERY)
def test_many_states_at_once_are_each_state_alone(name: str) -> None:
    actor = made(name)
    together, one_by_one = actor(states(5)), jax.jit(jax.vmap(actor))(states(5))
    np.testing.assert_allclose(together.mode(), one_by_one.mode(), atol=1e-6)
    np.testing.assert_allclose(together.sample(KEY, 3)[0], one_by_one.sample(KEY, 3)[0], atol=1e-6)


def test_an_actor_takes_the_options_that_are_settings_of_it() -> None:
    class Options:
        log_std_range = (-3.0, 1.0)
        policy_std = 0.5
        expectile = 0.9

    parts: Any = {"key": KEY, "style": Style(), "options": Options()}
    gaussian, squashed = (
        make_actor(name, Identity(), FEATURES, ACTION, (8,), **parts) for name in ("gaussian", "tanh-gaussian")
    )
    assert isinstance(gaussian, GaussianActor)
    assert isinstance(squashed, TanhGaussianActor)
    assert (gaussian.log_std_range, gaussian.policy_std) == ((-3.0, 1.0), 0.5)
    assert squashed.log_std_range == (-3.0, 1.0)
    assert settings_of(DeterministicActor) == {"policy_layer_norm"}
    with pytest.raises(UserError, match="no actor is called 'gausian'; did you mean 'gaussian'"):
        make_actor("gausian", Identity(), FEATURES, ACTION, (8,), **parts)


# -- the squashed Gaussian ------------------------------------------------------------------------------------------


def test_squashed_density_integrates_to_one() -> None:
    gaussian = TanhGaussian(jnp.array([0.3]), jnp.array([-0.5]))
    grid = jnp.linspace(-0.9999, 0.9999, 20_001)[:, None]
    density = jnp.exp(gaussian.log_prob(grid))
    assert float(jnp.trapezoid(density, grid[:, 0])) == pytest.approx(1.0, abs=2e-3)


def test_squashed_density_by_hand() -> None:
    # log N(0.5; 0, 1) = -0.125 - 0.918939, minus ln(1 - tanh(0.5)^2) = ln 0.786448 = -0.240229
    gaussian = TanhGaussian(jnp.zeros(1), jnp.zeros(1))
    with draws.recorded(lambda name, shape: jnp.full(shape, 0.5)):
        actions, log_probs = gaussian.sample(KEY)
    np.testing.assert_allclose(actions, [0.462117], atol=1e-6)
    assert float(log_probs) == pytest.approx(-0.803710, abs=1e-5)
    assert float(gaussian.log_prob(actions)) == pytest.approx(-0.803710, abs=1e-5)


def test_log_probability_of_a_sample_is_that_of_its_action() -> None:
    gaussian = TanhGaussian(jnp.array([[0.3, -0.2]]), jnp.array([[-0.5, 0.1]]))
    actions, log_probs = gaussian.sample(KEY, 64)
    assert actions.shape == (1, 64, 2)
    np.testing.assert_allclose(log_probs, gaussian.log_prob(actions), atol=1e-2)


def test_densities_at_the_edge_are_finite() -> None:
    gaussian = TanhGaussian(jnp.zeros(2), jnp.zeros(2))
    for edge in (jnp.array([1.0, -1.0]), jnp.array([0.99999, -0.99999])):
        assert bool(jnp.isfinite(gaussian.log_prob(edge)))


def test_tanh_gaussian_starts_with_std_exp_minus_one() -> None:
    policy = TanhGaussianActor(Identity(), 3, 2, (8,), key=KEY)
    gaussian = policy(jax.random.normal(KEY, (5, 3)))
    np.testing.assert_allclose(jnp.exp(gaussian.log_std), 0.368, atol=0.02)
    np.testing.assert_allclose(gaussian.mode(), 0.0, atol=0.05)
    vector = TanhGaussianActor(Identity(), 3, 2, (8,), key=KEY, state_dependent_std=False, log_std_offset=0.0)
    assert vector(jnp.ones((5, 3))).log_std.shape == (5, 2)


# -- the Gaussian -----------------------------------------------------------------------------------------------------


def test_bounded_gaussian_is_not_squashed_and_cut_to_the_box() -> None:
    policy = GaussianActor(Identity(), 3, 2, (8,), key=KEY)
    gaussian = policy(100.0 * jnp.ones((4, 3)))
    assert float(jnp.abs(gaussian.mean).max()) <= 1.0
    assert float(jnp.abs(gaussian.sample(KEY)[0]).max()) <= 1.0
    fixed = GaussianActor(Identity(), 3, 2, (8,), key=KEY, policy_std=0.03)
    assert fixed.log_std is None
    np.testing.assert_allclose(jnp.exp(fixed(jnp.ones((4, 3))).log_std), 0.03, rtol=1e-5)
    # at its mean, a Gaussian of std 0.03 in two dimensions: -2 ln 0.03 - ln 2 pi
    at_mean = fixed(jnp.ones((4, 3))).log_prob(fixed(jnp.ones((4, 3))).mean)
    np.testing.assert_allclose(at_mean, 7.013116 - 1.837877, rtol=1e-4)


def test_a_cut_sample_has_the_density_of_what_was_drawn() -> None:
    # 3 standard deviations of 0.5 above 0.2: 1.7, cut to 1; log N(3; 0, 1) - ln 0.5 = -4.5 - 0.918939 + 0.693147
    for clip, expected in ((True, 1.0), (False, 1.7)):
        gaussian = Gaussian(jnp.array([0.2]), jnp.log(jnp.array([0.5])), clip)
        with draws.recorded(lambda name, shape: jnp.full(shape, 3.0)):
            actions, log_probs = gaussian.sample(KEY)
        np.testing.assert_allclose(actions, [expected], rtol=1e-6)
        assert float(log_probs) == pytest.approx(-4.725791, abs=1e-5)


def test_dropout_needs_a_key() -> None:
    policy = GaussianActor(Identity(), 3, 2, (32,), key=KEY, policy_dropout=0.5)
    x = jnp.ones((4, 3))
    np.testing.assert_array_equal(policy(x).mean, policy(x).mean)
    assert not np.allclose(policy(x).mean, policy(x, KEY).mean)


# -- one action -----------------------------------------------------------------------------------------------------


def test_deterministic_policy_is_in_the_box() -> None:
    policy = DeterministicActor(Identity(), 3, 2, (8,), key=KEY)
    assert policy(1e3 * jnp.ones((4, 3))).mode().shape == (4, 2)
    assert float(jnp.abs(policy(1e3 * jnp.ones((4, 3))).mode()).max()) <= 1.0


def test_every_sample_of_one_action_is_that_action() -> None:
    actions, log_probs = Deterministic(jnp.array([[0.1, -0.2]])).sample(KEY, 3)
    np.testing.assert_array_equal(actions, jnp.array([[[0.1, -0.2]] * 3]))
    assert log_probs is None


# -- choices -------------------------------------------------------------------------------------------------------


def test_a_categorical_draws_what_its_softmax_says() -> None:
    """100,000 draws of probabilities 0.1, 0.2, 0.3 and 0.4: within four standard errors."""
    probs = np.array([0.1, 0.2, 0.3, 0.4])
    distribution = Categorical(jnp.log(jnp.array(probs)) + 3.0)
    actions, log_probs = distribution.sample(KEY, 100_000)
    share = np.asarray(actions.mean(axis=0))
    assert (np.abs(share - probs) < 4.0 * np.sqrt(probs * (1.0 - probs) / 100_000)).all()
    np.testing.assert_allclose(log_probs, np.log(probs)[np.asarray(actions).argmax(axis=1)], rtol=1e-5)
    np.testing.assert_allclose(distribution.entropy(), -np.sum(probs * np.log(probs)), rtol=1e-5)
    np.testing.assert_array_equal(distribution.mode(), [0, 0, 0, 1])


def test_what_is_forbidden_has_no_probability_at_all() -> None:
    distribution = Categorical(jnp.array([100.0, 0.0, 0.0])).allowing(jnp.array([False, True, True]))
    np.testing.assert_array_equal(jnp.exp(distribution.log_probs), [0.0, 0.5, 0.5])
    assert float(distribution.sample(KEY, 10_000)[0][:, 0].sum()) == 0.0
    np.testing.assert_array_equal(distribution.mode(), [0, 1, 0])
    assert distribution.allowing(None) is distribution


@pytest.mark.slow
def test_a_categorical_gives_probabilities_and_no_gradients() -> None:
    assert CategoricalActor.gives == {DENSITY, CHOICES}
    assert GRADIENTS not in CategoricalActor.gives
