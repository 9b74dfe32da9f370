"""What every method must do, whatever it learns: the same results however it is compiled, batched, cut or resumed."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_task import BATCH, LIMIT, SEEDS, close, data, logged, run_options, same, spec, task, tiny, tiny_options

from calql.engine import mixing
from calql.engine.checkpoint import pack, unpack
from calql.engine.plan import make_plan
from calql.engine.program import Learning, Program
from calql.engine.replay import Replay, empty_like
from calql.engine.run import Run
from calql.methods import METHODS, Method, able, check_combination
from calql.methods.base import TimeStep, Transitions
from calql.methods.learner import ActorCritic
from calql.networks.actors import ACTORS
from calql.results import Silent
from calql.results.metrics import read_rows
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

FAMILY = [name for name, entry in METHODS.items() if entry.make is ActorCritic]
OTHERS = [name for name in able(False) if name not in FAMILY]
DISCRETE = "@discrete"  # after the name of a method: its form for discrete actions


WITH_CHOICES = [f"{name}{DISCRETE}" for name in ("cal-ql", "cal-ql-utd20", "sac", "iql", "bc", "dqn")]
EVERY = FAMILY + OTHERS + WITH_CHOICES
ONE_OF_EACH = ["cal-ql", "iql", "awac", "td3-bc", "o3f", "rebrac", "bc"]  # a method of each class that has an actor
WITH_IMAGES = ONE_OF_EACH


def fits(name: str, actor: str) -> dict[str, Any] | None:
    """The options with which a method takes an actor; None where it refuses it."""
    for changes in ({}, {"objective": "squared"} if name == "bc" else {}):
        try:
            tiny(name, actor=actor, **changes)
        except UserError:
            continue
        return {"actor": actor, **changes}
    return None


def pairs(names: list[str]) -> list[str]:
    """Method/actor for the actors that fit but are not the method's own."""
    others = [(n, a) for n in names for a in ACTORS if a != METHODS[n].options().actor]
    return [f"{name}/{actor}" for name, actor in others if fits(name, actor) is not None]


WITH_OTHER_ACTORS = pairs(ONE_OF_EACH)
# Operation by operation, which takes long: a method of each class, and of those that share one each way through it.
NOT_COMPILED = ["cal-ql", "cal-ql-utd20", "rlpd", "wsrl", *OTHERS, "cal-ql@discrete", "iql@discrete", "dqn@discrete"]


def discrete(label: str) -> bool:
    return label.endswith(DISCRETE)


def made(label: str) -> Method:
    """A method by its name, with another actor as method/actor, for discrete actions as method@discrete."""
    if discrete(label):
        return tiny(label.removesuffix(DISCRETE), discrete=True)
    name, _, actor = label.partition("/")
    return tiny(name, **(fits(name, actor) or {}) if actor else {})


class Case:
    """One method and its program over two seeds, compiled once: all tests train with the same shapes."""

    def __init__(self, label: str) -> None:
        self.method: Method = made(label)
        self.program = Program(self.method)
        self.logged = logged(self.method, discrete=discrete(label))
        self.keys = jnp.stack([jax.random.key(seed) for seed in range(SEEDS)])
        empty = empty_like(jax.tree.map(lambda column: column[0], self.logged), LIMIT)
        self.replay: Replay = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], SEEDS, axis=0), empty)
        self.states = self.program.start(self.keys, spec(discrete=discrete(label)))
        self.draw = jax.jit(partial(mixing.draw, shape=mixing.batch_shape(self.method)))

    def begin(self) -> Learning:
        copied = jax.tree.map(jnp.array, self.states)  # training takes its input's memory
        return self.program.fresh(copied, jnp.zeros(SEEDS, jnp.int32), self.logged)

    def train(self, learning: Learning, updates: int, rows: Transitions | None = None) -> Learning:
        every, first = jnp.full(SEEDS, BATCH, jnp.int32), jnp.zeros(SEEDS, jnp.int32)
        due = jnp.full(SEEDS, updates, jnp.int32)
        drawn_from = self.logged if rows is None else rows
        return self.program.train(learning, drawn_from, self.replay, self.keys, every, due, first)

    def batch(self, seed: int, index: int) -> tuple[Transitions, jax.Array]:
        """The batch and key of one update, as the program draws them."""
        key_batch, key_update = jax.random.split(jax.random.fold_in(self.keys[seed], index))
        return self.draw(key_batch, self.logged, of_seed(self.replay, seed), jnp.int32(BATCH), 0), key_update

    def state(self, seed: int = 0) -> Any:
        return of_seed(self.states, seed)


def of_seed(tree: Any, seed: int) -> Any:
    """Cut out without a program for each shape."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[seed]), tree)


@lru_cache(maxsize=1)
def case(name: str) -> Case:
    return Case(name)


def method_by_method(names: list[str]) -> pytest.MarkDecorator:
    """All tests of a method in a row, so that one program at a time is held: all of them take gigabytes."""
    return pytest.mark.parametrize("name", names, scope="module")


def finite(tree: Any) -> bool:
    return all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(tree))


@method_by_method(EVERY)
def test_scan_over_vmapped_seeds_is_one_update_after_the_other(name: str) -> None:
    """vmap over seeds = one by one, scan = loop."""
    one_after_the_other(name, jax.jit(case(name).method.update))


@method_by_method(NOT_COMPILED)
def test_compiled_is_not_compiled(name: str) -> None:
    """jit = no jit: one update of a seed beside another, and alone operation by operation."""
    one_after_the_other(name, case(name).method.update, updates=1)


def one_after_the_other(name: str, update: Any, updates: int = 2) -> None:
    c = case(name)
    together = c.train(c.begin(), updates)
    seed, state = 1, c.state(1)
    total: dict[str, Any] = {}
    for index in range(updates):
        state, metrics = update(state, *c.batch(seed, index))
        total = {key: total.get(key, 0.0) + value for key, value in metrics.items()}
    close(of_seed(together.state, seed), state)
    close(of_seed(together.sums, seed), total, 2e-3)


@pytest.mark.parametrize(
    "name",
    [
        *able(False),
        *pairs([name for name in able(False) if name != "odt"]),
        *(f"{name}{DISCRETE}" for name in able(True)),
    ],
)
def test_an_update_changes_no_type_so_that_a_run_compiles_once(name: str) -> None:
    """A weakly typed number in a fresh state would become a strong one, and the program would be compiled again."""
    method = made(name)
    before = jax.eval_shape(lambda key: method.init(key, spec(discrete=discrete(name))), jax.random.key(0))
    assert not [leaf for leaf in jax.tree.leaves(before) if leaf.weak_type]
    after, metrics = jax.eval_shape(method.update, before, shapes(method, discrete(name)), jax.random.key(0))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (old.shape, old.dtype, old.weak_type) == (new.shape, new.dtype, new.weak_type)
    assert all(metric.shape == () for metric in metrics.values())


@pytest.mark.parametrize("name", ["cal-ql", "sac", "rlpd", "wsrl", *OTHERS, *WITH_CHOICES])
def test_options_that_vary_are_numbers_of_the_state_and_nothing_else(name: str) -> None:
    """Or the arms of a sweep, which share one program, would not be the methods that they are named after."""
    chosen, name = discrete(name), name.removesuffix(DISCRETE)
    usual, options = tiny(name, chosen), vars(tiny_options(name))
    assert usual.varies
    others = {option: another(option, options[option]) for option in usual.varies}
    assert programs(usual, chosen) == programs(tiny(name, chosen, **others), chosen)
    numbers = jax.tree.leaves(online(usual, chosen))
    for option, value in others.items():
        changed = jax.tree.leaves(online(tiny(name, chosen, **{option: value}), chosen))
        assert any(not np.array_equal(a, b) for a, b in zip(numbers, changed, strict=True)), option


def another(option: str, value: bool | float) -> bool | float:
    if option == "target_entropy":
        return -0.5  # from 0 on, the entropy's scale counts
    return not value if isinstance(value, bool) else abs(value) * 0.5 + 0.01


def programs(method: Method, chosen: bool = False) -> list[str]:
    """What is compiled of a method before and after the switch, and the shape of its state."""
    of, key = spec(discrete=chosen), jax.random.key(0)
    state = jax.eval_shape(lambda: method.init(key, of))
    after = method.switch(method.init(key, of))[0]
    updates = [str(jax.make_jaxpr(each.update)(state, shapes(each, chosen), key)) for each in (method, after)]
    return [str(jax.tree.structure(state)), str(jax.make_jaxpr(method.policy)(state)), *updates]


def shapes(method: Method, chosen: bool = False) -> Transitions:
    leading, rows = mixing.batch_shape(method), logged(method, discrete=chosen)
    return jax.tree.map(lambda c: jax.ShapeDtypeStruct((*leading, *c.shape[1:]), c.dtype), rows)


def online(method: Method, chosen: bool = False) -> Any:
    """A fresh state, and what the switch makes of it."""
    state = method.init(jax.random.key(0), spec(discrete=chosen))
    return state, method.switch(state)[1]


@method_by_method(EVERY + WITH_OTHER_ACTORS)
def test_saved_and_loaded_state_goes_on_to_the_last_bit(name: str) -> None:
    c = case(name)
    straight = c.train(c.begin(), 3)
    first = c.train(c.begin(), 1)
    arrays = pack("state", first.state)
    loaded = first._replace(state=unpack("state", arrays, c.begin().state))
    same(c.train(loaded, 2).state, straight.state)


def in_family(label: str) -> bool:
    return label.removesuffix(DISCRETE) in FAMILY


@method_by_method(EVERY + WITH_OTHER_ACTORS)
def test_extreme_rows_leave_every_number_finite(name: str) -> None:
    c, rows = case(name), case(name).logged
    ends = jnp.where(jnp.arange(rows.actions.size).reshape(rows.actions.shape) % 2, 0.99999, -0.99999)
    ends = rows.actions[::-1] if discrete(name) else ends.astype(jnp.float32)  # not weakly typed: compiled once
    huge = rows._replace(rewards=jnp.full_like(rows.rewards, 1e6), reference=jnp.full_like(rows.reference, 1e7))
    alike = jax.tree.map(lambda column: jnp.broadcast_to(column[:1], column.shape), rows)
    learning = c.begin()
    for extreme in (huge, rows._replace(actions=ends), alike):
        learning = c.train(learning, 2, extreme)
        assert finite((learning.state, learning.sums))


@method_by_method(EVERY)
def test_each_network_moves_as_often_as_it_is_updated(name: str) -> None:
    """A network left out of a step stands still: its Adam counts no step, so momentum cannot move it."""
    c = case(name)
    state = c.train(c.begin(), 1).state
    critics = c.method.minibatches
    expected = {"policy": 1, "critics": critics, "value": 1, "log_temperature": 1}
    if in_family(name):
        expected = {"policy_adam": 1, "critic_adam": critics, "temperature_adam": 1, "multiplier_adam": duals(c.method)}
    for field in set(expected) & set(state._fields):
        assert steps_of(getattr(state, field)) == {expected[field]}, field


def duals(method: Method) -> int:
    """Steps of the dual weight in one update."""
    options: Any = method.options  # type: ignore[attr-defined]
    return int(options.conservative and options.dual)


def steps_of(trained: Any) -> set[int]:
    """What the optimisers in a part of a state have counted; theirs are the only integers."""
    counts = [leaf for leaf in jax.tree.leaves(trained) if jnp.issubdtype(leaf.dtype, jnp.integer)]
    return {int(count) for leaf in counts for count in leaf}


@method_by_method(EVERY)
def test_targets_average_the_new_networks(name: str) -> None:
    """target = (old + new) / 2 at rate 1/2, where targets move once in an update."""
    c = case(name)
    before = c.begin().state
    pairs = [("targets", "critics"), ("critic_targets", "critics"), ("policy_target", "policy")]
    pairs = [pair for pair in pairs if pair[0] in before._fields]
    if not pairs or (in_family(name) and c.method.minibatches > 1):
        pytest.skip("no targets, or targets that move with every critic step (in test_learner)")
    if getattr(c.method.options, "policy_first", False):  # type: ignore[attr-defined]
        pytest.skip("critics that go on once their targets have moved (in tests/golden)")
    numbers = before.numbers._replace(target_rate=jnp.full_like(before.numbers.target_rate, 0.5))
    learning = c.begin()
    after = c.train(learning._replace(state=learning.state._replace(numbers=numbers)), 1).state
    for target, network in pairs:
        new = getattr(after, network)
        new = new if in_family(name) else new.parameters
        mixed = jax.tree.map(lambda old, n: (old + n) / 2, getattr(before, target), new)
        close(getattr(after, target), mixed, 1e-6)
        assert not np.array_equal(*(jax.tree.leaves(getattr(state, target))[0] for state in (before, after)))


@method_by_method(EVERY)
def test_target_ignores_what_follows_exactly_where_a_step_is_terminal(name: str) -> None:
    """A truncated step has terminal 0, so its value goes on."""
    c, rows = case(name), case(name).logged
    if c.method.value(c.state(), rows.observations[:1], rows.actions[:1]) is None:
        pytest.skip("no Q-function, so no target")
    elsewhere = rows._replace(next_observations=rows.next_observations + 10.0)
    for terminal in (1.0, 0.0):
        ends = jnp.full_like(rows.terminals, terminal)
        paid = jnp.full_like(rows.rewards, 3.0)
        near, far = (
            np.asarray(c.train(c.begin(), 1, r._replace(terminals=ends, rewards=paid)).sums["average_target"])
            for r in (rows, elsewhere)
        )
        if terminal:
            np.testing.assert_allclose(near, 3.0, rtol=1e-6)
            np.testing.assert_array_equal(near, far)
        else:
            assert np.all(near != far)


@method_by_method(EVERY + WITH_OTHER_ACTORS)
def test_actions_are_in_the_box_and_the_deterministic_one_needs_no_key(name: str) -> None:
    method = case(name).method
    policy = method.policy(case(name).state())

    def play(explore: bool, seed: int) -> list[np.ndarray]:
        carry, actions = method.start(policy), []
        for step in range(3):
            time_step = TimeStep(jnp.asarray(data().observations[step]), jnp.float32(step > 0), jnp.int32(step))
            key = jax.random.fold_in(jax.random.key(seed), step)
            action, carry = act(policy, carry, time_step, key, explore=explore)
            actions.append(np.asarray(action))
        return actions

    act = jax.jit(method.act, static_argnames="explore")
    drawn, other, fixed, again = play(True, 0), play(True, 1), play(False, 0), play(False, 1)
    assert np.abs(drawn + other + fixed).max() <= 1.0
    np.testing.assert_array_equal(fixed, again)
    if name != "bc/deterministic":  # which has nothing to explore with
        assert np.abs(np.array(drawn) - np.array(other)).max() > 0


@method_by_method(EVERY)
def test_switch_resets_nothing(name: str) -> None:
    """Parameters, moments and targets go on; only numbers of the online phase may differ."""
    c = case(name)
    _, after = c.method.switch(c.state())
    before = c.state()
    for field in set(before._fields) - {"numbers", "online_updates"}:
        same(getattr(before, field), getattr(after, field))


@method_by_method(EVERY)
def test_offline_only_online_only_and_both(name: str, tmp_path: Path) -> None:
    """The engine runs each, with one set of compiled functions."""
    for label, offline, online in (("both", 4, 10), ("offline", 4, 0), ("online", 0, 10)):
        run = started(name, tmp_path / label, offline_updates=offline, online_steps=online)
        try:
            assert run.execute(lambda: False)
        finally:
            run.close()
        assert run.counters.gradient_steps[0] >= offline
        assert (run.counters.env_steps >= online).all()
        assert finite(run.learning.state)
        rows = read_rows(tmp_path / label / "metrics.jsonl")
        assert rows
        assert all(np.isfinite(row["score"]) for row in rows)


def started(name: str, folder: Path, **changes: Any) -> Run:
    folder.mkdir(parents=True)
    chosen, base = discrete(name), name.removesuffix(DISCRETE)
    options, rows = run_options(base, **changes), data(discrete=chosen)
    plan = make_plan(name, task(discrete=chosen), tiny(base, chosen), options, rows, None, 0.99)
    return Run(plan, folder, Silent())


@pytest.mark.parametrize("name", WITH_IMAGES)
def test_images_where_the_method_takes_them(name: str) -> None:
    """Its encoder learns."""
    method = tiny(name)
    rows = logged(method, image=True)
    assert rows.observations.dtype == jnp.uint8
    state = jax.jit(method.init, static_argnums=1)(jax.random.key(0), spec(image=True))
    batch = jax.tree.map(lambda column: column[: 2 * BATCH].reshape(2, BATCH, *column.shape[1:]), rows)
    batch = jax.tree.map(lambda column: column[: method.minibatches], batch)
    after, metrics = jax.jit(method.update)(state, batch, jax.random.key(1))
    assert finite((after, metrics))
    policy = method.policy(after)
    kernels = [jax.tree.leaves(method.policy(s))[0] for s in (state, after)]
    assert kernels[0].ndim == 4
    assert not np.array_equal(*kernels)
    action, _ = method.act(policy, (), TimeStep(rows.observations[0], 0.0, 0), jax.random.key(2), explore=False)
    assert action.shape == (2,)


@pytest.mark.parametrize("name", able(False))
def test_images_fit_every_method_that_says_so(name: str) -> None:
    """By shapes alone, which costs no compilation; learning from them is tested above."""
    method = tiny(name)
    if not method.supports_images:
        pytest.skip("the method refuses images; that is tested below")
    rows = logged(method, image=True)
    shape = mixing.batch_shape(method)
    batch = jax.tree.map(lambda column: jax.ShapeDtypeStruct((*shape, *column.shape[1:]), column.dtype), rows)
    before = jax.eval_shape(lambda key: method.init(key, spec(image=True)), jax.random.key(0))
    after, metrics = jax.eval_shape(method.update, before, batch, jax.random.key(0))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert all(metric.shape == () for metric in metrics.values())


def test_which_actors_fit_which_method() -> None:
    """The regularised learner needs entropy and slopes, cloning a density, TD3 slopes."""
    every, dense = {"tanh-gaussian", "gaussian", "deterministic"}, {"tanh-gaussian", "gaussian"}
    expected = dict.fromkeys((*FAMILY, "iql", "awac"), dense) | dict.fromkeys(("td3-bc", "o3f", "rebrac", "bc"), every)
    found = {name: {actor for actor in ACTORS if fits(name, actor)} for name in able(False) if name != "odt"}
    assert found == expected


def test_an_actor_that_does_not_fit_is_refused_in_one_line() -> None:
    for name, bad, words in (
        ("cal-ql", {"actor": "deterministic"}, "must be tanh-gaussian or gaussian: .* needs a density of its actions"),
        ("bc", {"actor": "deterministic"}, "--actor is 'deterministic'"),
        ("iql", {"actor": "tanh-gausian"}, "did you mean 'tanh-gaussian'"),
        ("iql", {"actor": "tanh-gaussian", "policy_std": 0.1}, "takes no --policy-std, and it is 0.1; set it to 0.0"),
        ("awac", {"actor": "tanh-gaussian", "clip_samples": False}, "takes no --clip-samples"),
        ("sac", {"actor": "gaussian", "log_std_scalars": False}, "takes no --log-std-scalars"),
        ("bc", {"actor": "categorical"}, "leave it out: with a Discrete action space there is no other"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            tiny(name, **bad)
        assert "\n" not in str(caught.value)


def test_combinations_that_cannot_be_are_refused_in_one_line() -> None:
    for name, bad, words in (
        ("odt", {"image": True}, "cannot take images"),
        ("iql", {"reference": "sarsa"}, "takes no reference value"),
        ("sac", {"reference": "monte-carlo"}, "takes no reference value"),
        ("odt", {"mixing": 0.5}, "one pool"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            check_combination(name, tiny(name), **bad)
        assert "\n" not in str(caught.value)
    check_combination("cal-ql", tiny("cal-ql"), reference="sarsa", mixing=0.25, image=True)
    check_combination("odt", tiny("odt"))


def test_every_method_is_hashable_and_equal_by_its_options() -> None:
    for chosen in (False, True):
        for name in able(chosen):
            assert tiny(name, chosen) == tiny(name, chosen)
            assert hash(tiny(name, chosen)) == hash(tiny(name, chosen))
            assert tiny(name, chosen, batch_size=BATCH + 1) != tiny(name, chosen)


def test_a_method_without_a_form_for_the_actions_is_refused_with_those_that_have_one() -> None:
    learners = "cal-ql, cql, cal-ql-utd20, cql-sac, sac, sac-offline, hybrid, iql, bc, dqn"
    with pytest.raises(UserError, match=f"'td3-bc' cannot learn discrete actions; .* --method: {learners}$"):
        tiny("td3-bc", discrete=True)
    with pytest.raises(UserError, match=r"'dqn' cannot learn continuous actions; .* cal-ql, .*, odt"):
        tiny("dqn")
    with pytest.raises(UserError, match=r"--ascent-weight is 1.0; it must be 0 with discrete actions"):
        tiny("iql", discrete=True, ascent_weight=1.0)
    with pytest.raises(UserError, match="--objective is 'squared'; it must be likelihood with discrete actions"):
        tiny("bc", discrete=True, objective="squared")


def test_options_that_mean_nothing_to_discrete_actions_are_named() -> None:
    assert tiny("cal-ql", discrete=True, sampled_actions=10, backup_actions=10).notes == ()
    (note,) = tiny("cal-ql", discrete=True, sampled_actions=3, backup_actions=10, actor="gaussian").notes
    assert note == "with discrete actions these options change nothing: --actor, --sampled-actions"
