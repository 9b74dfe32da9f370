"""An actor of one's own: a file that the package does not know, a name in the registry, and learners train it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_task import BATCH, logged, spec, tiny

from calql.engine import mixing
from calql.methods.base import TimeStep
from calql.networks import DENSITY, GRADIENTS, MLP, ActionDistribution, Actor, Style, draws
from calql.networks.actors import ACTORS
from calql.system.errors import UserError

KEY = jax.random.key(0)
EDGE = 1.0 - 1e-5


class TanhLogistic(ActionDistribution):
    """tanh of a logistic variable: heavier tails than a Gaussian's."""

    centre: jax.Array
    scale: jax.Array

    def sample(self, key: jax.Array, n: int | None = None, name: str = "action") -> tuple[jax.Array, jax.Array]:
        centre = self.centre if n is None else self.centre[..., None, :]
        shape = (*self.centre.shape[:-1], *(() if n is None else (n,)), self.centre.shape[-1])
        uniform = jnp.clip(draws.uniform(name, key, shape), -EDGE, EDGE)
        actions = jnp.clip(jnp.tanh(centre + self.scale * 2.0 * jnp.arctanh(uniform)), -EDGE, EDGE)
        return actions, self.log_prob(actions)

    def mode(self) -> jax.Array:
        return jnp.tanh(self.centre)

    def log_prob(self, actions: jax.Array) -> jax.Array:
        centre = self.centre if actions.ndim <= self.centre.ndim else self.centre[..., None, :]
        before_tanh = jnp.arctanh(jnp.clip(actions, -EDGE, EDGE))
        z = (before_tanh - centre) / self.scale
        logistic = -z - 2.0 * jax.nn.softplus(-z) - jnp.log(self.scale)
        return jnp.sum(logistic - jnp.log1p(-(jnp.tanh(before_tanh) ** 2)), axis=-1)


class LogisticActor(Actor):
    encoder: Callable[[jax.Array], jax.Array]
    network: MLP
    log_scale: jax.Array

    gives: ClassVar[frozenset[str]] = frozenset({DENSITY, GRADIENTS})

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        style: Style = Style(),
        log_std_offset: float = -1.0,
    ) -> None:
        self.encoder = encoder
        self.network = MLP(features, action_dim, widths, key=key, style=style)
        self.log_scale = jnp.full(action_dim, log_std_offset)

    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> TanhLogistic:
        return TanhLogistic(self.network(self.encoder(observations)), jnp.exp(self.log_scale))


@pytest.fixture
def logistic(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(ACTORS._known(), "logistic", LogisticActor)
    return "logistic"


def test_its_density_integrates_to_one() -> None:
    grid = jnp.linspace(-0.9999, 0.9999, 20_001)[:, None]
    density = jnp.exp(TanhLogistic(jnp.array([0.3]), jnp.array([0.4])).log_prob(grid))
    assert float(jnp.trapezoid(density, grid[:, 0])) == pytest.approx(1.0, abs=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cal-ql", "iql", "td3-bc"])
def test_learners_train_and_play_it(name: str, logistic: str) -> None:
    method: Any = tiny(name, actor=logistic, policy_rate=0.01)
    start = jax.jit(method.init, static_argnums=1)(KEY, spec())
    assert isinstance(method.policy(start), LogisticActor)
    state, update, shape = start, jax.jit(method.update), mixing.batch_shape(method)
    rows = jax.tree.map(lambda c: c[: shape[0] * BATCH].reshape(*shape, *c.shape[1:]), logged(method))
    for index in range(5):
        state, metrics = update(state, rows, jax.random.fold_in(KEY, index))
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((state, metrics)))
    before, after = method.policy(start), method.policy(state)
    for part in ("log_scale", "network"):
        assert not np.array_equal(*(jax.tree.leaves(getattr(policy, part))[0] for policy in (before, after)))
    time_step = TimeStep(rows.observations[0, 0], jnp.float32(0), jnp.int32(0))
    drawn, most_likely = (method.act(after, (), time_step, KEY, explore=explore)[0] for explore in (True, False))
    assert drawn.shape == most_likely.shape == (2,)
    assert float(jnp.abs(jnp.stack([drawn, most_likely])).max()) <= 1.0
    assert not np.allclose(drawn, most_likely)


@pytest.mark.slow
def test_cloning_with_it_makes_logged_actions_more_likely(logistic: str) -> None:
    method: Any = tiny("bc", actor=logistic, policy_rate=0.03)
    state, update = jax.jit(method.init, static_argnums=1)(KEY, spec()), jax.jit(method.update)
    rows = jax.tree.map(lambda column: column[None, :BATCH], logged(method))
    likelihoods = []
    for _ in range(20):
        state, metrics = update(state, rows, KEY)
        likelihoods.append(float(metrics["log_likelihood"]))
    assert likelihoods[-1] > likelihoods[0] + 0.1


def test_options_of_its_name_reach_it(logistic: str) -> None:
    method: Any = tiny("cal-ql", actor=logistic, log_std_offset=-2.0)
    policy = method.policy(jax.jit(method.init, static_argnums=1)(KEY, spec()))
    np.testing.assert_array_equal(policy.log_scale, [-2.0, -2.0])
    with pytest.raises(UserError, match="the actor 'logistic' takes no --log-std-range"):
        tiny("cal-ql", actor=logistic, log_std_range=(-3.0, 1.0))


def test_it_is_refused_for_what_it_does_not_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutSlopes(LogisticActor):
        gives: ClassVar[frozenset[str]] = frozenset({DENSITY})

    monkeypatch.setitem(ACTORS._known(), "stepped", WithoutSlopes)
    tiny("iql", actor="stepped")
    for name, changes in (("sac", {}), ("td3-bc", {}), ("iql", {"ascent_weight": 1.0})):
        with pytest.raises(UserError, match="needs gradients through its actions"):
            tiny(name, actor="stepped", **changes)
