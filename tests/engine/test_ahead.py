"""What does not depend on the rounds before is done ahead of a loop, and comes to the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import toy_task as toy

from calql.engine import ahead
from calql.engine.program import Program
from calql.engine.replay import empty_like
from calql.system.tracing import loop_inputs

ROUNDS, ROWS = 4, jnp.arange(20.0)
OF_KEYS = {"random_bits", "random_split", "random_fold_in", "random_wrap", "threefry2x32", "gather"}


def step(number: jax.Array, arrays: ahead.Arrays) -> ahead.Arrays:
    """Noise, rows of a table, a wide copy of both, and what the round before left."""
    key = jax.random.fold_in(jax.random.key(3), number)
    row = ROWS[jax.random.randint(key, (), 0, 20)]
    wide = jnp.broadcast_to(2.0 * jax.random.normal(key, (3,)) + row, (50, 3))
    return [arrays[0] + wide * arrays[1], jnp.sin(arrays[1])]


def arrays() -> ahead.Arrays:
    return [jnp.zeros((50, 3)), jnp.float32(1.5)]


def looped() -> ahead.Arrays:
    return jax.jit(lambda given: ahead.loop(step, ROUNDS, given))(arrays())


def scan_of(closed: Any) -> Any:
    """The loop of `ROUNDS` rounds, wherever it stands."""
    found = [e for e in equations(closed.jaxpr) if e.primitive.name == "scan" and e.params["length"] == ROUNDS]
    assert len(found) == 1
    return found[0]


def equations(jaxpr: Any) -> list[Any]:
    """All equations, those of inner programs too."""
    found = list(jaxpr.eqns)
    for equation in jaxpr.eqns:
        for value in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            if hasattr(value, "eqns"):
                found += equations(getattr(value, "jaxpr", value))
    return found


def kept(scan: Any) -> list[tuple[int, ...]]:
    """Shapes of what is kept for a round."""
    return sorted(var.aval.shape[1:] for var in scan.invars[sum(loop_inputs(scan.params)) :])


def test_it_comes_to_what_a_plain_loop_does() -> None:
    plain = arrays()
    for number in range(ROUNDS):
        plain = step(jnp.int32(number), plain)
    toy.close(looped(), plain, 1e-6)


def test_noise_and_rows_are_kept_and_no_copies_of_them() -> None:
    scan = scan_of(jax.make_jaxpr(lambda given: ahead.loop(step, ROUNDS, given))(arrays()))
    assert not Counter(e.primitive.name for e in equations(scan.params["jaxpr"].jaxpr)).keys() & OF_KEYS
    assert kept(scan) == [(3,)]


def test_what_is_too_large_is_made_in_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    small = looped()
    monkeypatch.setattr(ahead, "ROOM", ROUNDS * 4 * 2)
    scan = scan_of(jax.make_jaxpr(lambda given: ahead.loop(step, ROUNDS, given))(arrays()))
    assert (3,) not in kept(scan)
    assert any(e.primitive.name == "random_bits" for e in equations(scan.params["jaxpr"].jaxpr))
    toy.close(looped(), small, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cal-ql", "iql", "awac"])
def test_no_update_draws_in_its_round(name: str) -> None:
    """On a GPU each draw and each column of a batch would be a kernel or more of every update."""
    method = toy.tiny(name)
    logged, program = toy.logged(method), Program(method)
    keys = jax.random.split(jax.random.key(0), 2)
    learning = program.fresh(program.start(keys, toy.spec()), jnp.zeros(2, jnp.int32), logged)
    one = empty_like(jax.tree.map(lambda column: column[0], logged), 10)
    replay = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 2, axis=0), one)
    counts = jnp.ones(2, jnp.int32)
    train = lambda *inputs: program.train(*inputs, rounds=ROUNDS)  # noqa: E731
    scan = scan_of(jax.make_jaxpr(train)(learning, logged, replay, keys, counts, counts))
    assert not {e.primitive.name for e in equations(scan.params["jaxpr"].jaxpr)} & OF_KEYS
