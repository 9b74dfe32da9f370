"""Precompute random draws and batches for a fixed-length loop of updates.

These are all that does not depend on the updates before. On a GPU each is a small kernel or several in a row,
of a few microseconds whatever its size: for all rounds of a loop together they are as many kernels as for one of them.
The numbers are the same, and no method has to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

ROOM = 2**27  # bytes of a result, of all rounds, that is kept for them; a larger one is made in its round
# Of one early variable they make nothing worth keeping: done in their round, so that less is kept.
REPEATED = frozenset({"add", "broadcast_in_dim", "integer_pow", "mul", "neg", "reshape", "square", "squeeze", "sub"})

Arrays = list[jax.Array]
Step = Callable[[jax.Array, Arrays], Arrays]


class _Parts(NamedTuple):
    """A step in two: what follows from the round's number, and the rest."""

    ahead: ClosedJaxpr  # round to results
    rest: ClosedJaxpr  # arrays that the loop changes, and these results, to the arrays


def loop(step: Step, rounds: int, arrays: Arrays) -> Arrays:
    """The arrays after step(0, arrays), step(1, ...) and so on."""
    parts = _parts(jax.make_jaxpr(step)(jnp.int32(0), arrays), rounds)
    of_round = jax.vmap(jaxpr_as_fun(parts.ahead))(jnp.arange(rounds, dtype=jnp.int32))

    def body(arrays: Arrays, results: Arrays) -> tuple[Arrays, None]:
        return jaxpr_as_fun(parts.rest)(*arrays, *results), None

    after: Arrays = jax.lax.scan(body, arrays, of_round, length=rounds)[0]
    return after


def _parts(step: ClosedJaxpr, rounds: int) -> _Parts:
    number, *arrays = step.jaxpr.invars
    early, late = _early(step.eqns, number, arrays, rounds)
    kept = [e for e in step.eqns if late.intersection(e.outvars) or not early.intersection(e.outvars)]
    repeated = [e for e in step.eqns if e.primitive.name in REPEATED and len(_variables(e.invars)) == 1]
    rest = _needed(step.eqns, {id(e) for e in kept + repeated}, step.jaxpr.outvars)
    made = {var for equation in rest for var in equation.outvars}
    read = dict.fromkeys(_variables([*(a for e in rest for a in e.invars), *step.jaxpr.outvars]))
    results = [var for var in read if var in early and var not in made]
    ahead = _needed(step.eqns, {id(e) for e in step.eqns if not late.intersection(e.outvars)}, results)
    return _Parts(_closed(step, [number], results, ahead), _closed(step, [*arrays, *results], step.jaxpr.outvars, rest))


def _early(equations: Sequence[JaxprEqn], number: Var, arrays: Sequence[Var], rounds: int) -> tuple[set[Var], set[Var]]:
    """Variables that follow from the round's number and no array; and those that follow from an array or are large."""
    early, late = {number}, set(arrays)
    for equation in equations:
        inputs = set(_variables(equation.invars))
        if inputs & late or (inputs & early and rounds * _bytes(equation) > ROOM):
            late.update(equation.outvars)
        elif inputs & early:
            early.update(equation.outvars)
    return early, late


def _needed(equations: Sequence[JaxprEqn], allowed: set[int], wanted: Iterable[Var | Literal]) -> list[JaxprEqn]:
    """Of the allowed equations, those that lead to what is wanted."""
    needed, found = set(_variables(wanted)), []
    for equation in reversed(equations):
        if id(equation) in allowed and needed.intersection(equation.outvars):
            needed.update(_variables(equation.invars))
            found.append(equation)
    return found[::-1]


def _closed(
    step: ClosedJaxpr, inputs: Sequence[Var], outputs: Sequence[Var | Literal], equations: Sequence[JaxprEqn]
) -> ClosedJaxpr:
    whole = step.jaxpr
    return ClosedJaxpr(whole.replace(invars=inputs, outvars=outputs, eqns=equations), step.consts)


def _variables(atoms: Iterable[Var | Literal]) -> list[Var]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def _bytes(equation: JaxprEqn) -> int:
    results: list[Any] = [out.aval for out in equation.outvars]
    return sum(math.prod(result.shape) * result.dtype.itemsize for result in results)
