"""The experiment: every family, condition, instance, seed and variant, in one compiled loop per family."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, Int, Key

from calql.theory.algorithm import VARIANTS, fine_tune, rules
from calql.theory.conditions import CONDITIONS, Instance, make_instance
from calql.theory.families import FAMILIES, near_ties
from calql.theory.mdp import greedy_value
from calql.theory.measures import Quantities, quantities
from calql.theory.regression import sample_offline

PESSIMISM = 1.0
"""Widths taken off the fit by the conservative variants: about one standard deviation of a target."""
MEASURES = ("regret", "miscalibration", "overestimation", "held_by_reference", "not_pessimistic")
"""Cumulative over episodes 1..k; the last two are shares of the episodes, not sums."""
NEAR_TIES = "near-ties"

Numbers = npt.NDArray[np.float64]
Report = Callable[[str], None]


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    instances: int
    """MDPs of each family."""
    seeds: int
    """Runs of every variant on every MDP; each seed draws its own offline data."""
    episodes: int
    """K, which is also the number of offline tuples of each step (m_off = K, m_on = 1)."""
    scaling_instances: int
    """MDPs of each family on which the growth with K is fitted."""
    families: tuple[str, ...] = tuple(FAMILIES)


@dataclass(frozen=True)
class Results:
    """Everything measured, with the name of every axis."""

    scale: Scale
    checkpoints: tuple[int, ...]
    curves: Numbers  # [condition, family, instance, seed, variant, checkpoint, measure]
    budgets: tuple[int, ...]
    growth: Numbers  # [condition, family or near-ties, instance, seed, variant, budget]: regret at K = m_off
    found: dict[tuple[str, str, int], Quantities]
    """Keyed by condition, family, instance."""
    seconds: dict[str, float]
    """Wall-clock time of each part, and its processor time under the name with `cpu `."""

    conditions = tuple(CONDITIONS)
    variants = tuple(VARIANTS)

    @property
    def families(self) -> tuple[str, ...]:
        return self.scale.families

    @property
    def grown(self) -> tuple[str, ...]:
        return (*self.scale.families, NEAR_TIES)

    def curve(self, condition: str, variant: str, measure: str, family: str | None = None) -> Numbers:
        """[family, instance, checkpoint], averaged over seeds; one family gives a first axis of length 1."""
        chosen = self.curves[self.conditions.index(condition), ..., MEASURES.index(measure)]
        chosen = chosen[:, :, :, self.variants.index(variant)].mean(axis=2)
        return chosen if family is None else chosen[[self.families.index(family)]]

    def grown_regret(self, condition: str, variant: str, family: str) -> Numbers:
        """[instance, budget], averaged over seeds."""
        chosen = self.growth[self.conditions.index(condition), self.grown.index(family)]
        return np.asarray(chosen[:, :, self.variants.index(variant)].mean(axis=1))


def simulate(
    instance: Instance,
    key: Key[Array, ""],
    budget: Int[Array, ""] | int,
    checkpoints: tuple[int, ...],
    seeds: int,
    pessimism: float = PESSIMISM,
) -> Float[Array, "seed variant checkpoint measure"]:
    """All variants on all seeds of one instance, with K = m_off = `budget`.

    The variants of one seed share its offline data and its random numbers.
    """
    rule = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(rules(v, instance, pessimism) for v in VARIANTS.values()))
    buffer = checkpoints[-1]
    optimum = greedy_value(instance.mdp, instance.optimal_q)
    used = (jnp.arange(buffer) < budget).astype(optimum.dtype)
    upto = jnp.asarray(checkpoints) - 1

    def one_seed(seed: Int[Array, ""]) -> Float[Array, "variant checkpoint measure"]:
        data_key, online_key = jax.random.split(jax.random.fold_in(key, seed))
        data = sample_offline(instance, budget, data_key, buffer=buffer)
        run = jax.vmap(lambda r: fine_tune(instance, r, data, budget, online_key, buffer=buffer))(rule)
        per_episode = jnp.stack(
            [optimum - run.value, optimum - run.promised, run.promised - run.value, *run[2:]], axis=-1
        )
        total = jnp.cumsum(per_episode * used[:, None], axis=-2)[:, upto]
        return total.at[..., 3:].divide((upto + 1)[:, None])

    return jax.vmap(one_seed)(jnp.arange(seeds))


def run_experiment(scale: Scale, report: Report = print, workers: int | None = None) -> Results:
    """Run it all; `report` receives a line as each part is done."""
    checkpoints = _spread(scale.episodes, 8)
    budgets = tuple(max(1, scale.episodes >> n) for n in (4, 3, 2, 1, 0))
    seconds: dict[str, float] = {}
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        run_all = partial(_run_all, pool, partial(_compiled, checkpoints=checkpoints, seeds=scale.seeds))
        with _timed(seconds, "main"):
            problems = {name: _problems(name, scale.instances, scale.episodes) for name in scale.families}
            curves = _run_curves(problems, scale.episodes, run_all, report)
        with _timed(seconds, "growth"):
            growth = _run_growth(scale, budgets, curves, run_all, report)
        with _timed(seconds, "quantities"):
            names = [
                (condition, family, n)
                for condition in CONDITIONS
                for family in scale.families
                for n in range(scale.instances)
            ]
            found = [quantities(problems[family][condition][n], seed=n) for condition, family, n in names]
        report(f"  coefficients, ranks and bounds of {len(found)} instances  {seconds['quantities']:.0f} s")
    return Results(scale, checkpoints, curves, budgets, growth, dict(zip(names, found, strict=True)), seconds)


Simulation = tuple[Instance, Array, int]
RunAll = Callable[[Sequence[Simulation], str, Report], list[Numbers]]
_compiled = jax.jit(simulate, static_argnames=("checkpoints", "seeds"))


def _run_curves(
    problems: dict[str, dict[str, list[Instance]]], budget: int, run_all: RunAll, report: Report
) -> Numbers:
    """The main part: regret and its split against k, for m_off = K."""
    jobs = [
        (instance, _key(family, n), budget)
        for condition in CONDITIONS
        for family in problems
        for n, instance in enumerate(problems[family][condition])
    ]
    done = run_all(jobs, "episodes against k", report)
    return np.stack(done).reshape(len(CONDITIONS), len(problems), -1, *done[0].shape)


def _run_growth(scale: Scale, budgets: tuple[int, ...], curves: Numbers, run_all: RunAll, report: Report) -> Numbers:
    """Final regret for K = m_off in `budgets`; the largest K of the fixed families is the main part's."""
    names = (*scale.families, NEAR_TIES)
    jobs, where = [], []
    for g, family in enumerate(names):
        for b, budget in enumerate(budgets):
            if family != NEAR_TIES and b == len(budgets) - 1:
                continue
            problems = _problems(family, scale.scaling_instances, budget)
            for c, condition in enumerate(CONDITIONS):
                for n, instance in enumerate(problems[condition]):
                    jobs.append((instance, _key(family, n), budget))
                    where.append((c, g, n, b))
    shape = (len(CONDITIONS), len(names), scale.scaling_instances, scale.seeds, len(VARIANTS), len(budgets))
    growth = np.zeros(shape)
    for (c, g, n, b), result in zip(where, run_all(jobs, "growth with K", report), strict=True):
        growth[c, g, n, ..., b] = result[..., -1, 0]
    growth[:, : len(scale.families), ..., -1] = curves[:, :, : scale.scaling_instances, ..., -1, 0]
    return growth


def _run_all(
    pool: ThreadPoolExecutor,
    compiled: Callable[..., Array],
    jobs: Sequence[Simulation],
    title: str,
    report: Report,
) -> list[Numbers]:
    """Jobs over threads: XLA leaves the interpreter free, and one instance is too small to share out."""
    started = time.perf_counter()
    run = lambda job: np.asarray(compiled(*job), np.float64)  # noqa: E731
    shapes = {(job[0].optimal_q.shape, job[0].mdp.features is None): job for job in jobs}
    list(pool.map(run, shapes.values()))  # compile each shape once, on as many threads as there are
    done = []
    for n, result in enumerate(pool.map(run, jobs), start=1):
        done.append(result)
        if n == len(jobs) or n % max(1, len(jobs) // 8) == 0:
            report(f"  {title}: {n}/{len(jobs)} instances  {time.perf_counter() - started:.0f} s")
    return done


def _problems(family: str, count: int, budget: int) -> dict[str, list[Instance]]:
    """The first instances of a family under every condition."""
    keys = [_key(family, n) for n in range(count)]
    batch = _make_problems(family, jnp.stack(keys), jnp.asarray(float(budget)))
    host = jax.tree.map(np.asarray, batch)
    return {  # by name: compiled code returns dictionaries in the order of their keys
        condition: [jax.tree.map(lambda leaf, n=n: jnp.asarray(leaf[n]), host[condition]) for n in range(count)]
        for condition in CONDITIONS
    }


@partial(jax.jit, static_argnums=0)
def _make_problems(family: str, keys: Key[Array, " n"], budget: Float[Array, ""]) -> dict[str, Instance]:
    draw = partial(near_ties, budget=budget) if family == NEAR_TIES else FAMILIES[family]
    mdps = jax.vmap(draw)(keys)
    return {name: jax.vmap(partial(make_instance, condition=condition))(mdps) for name, condition in CONDITIONS.items()}


def _key(family: str, number: int) -> Array:
    """The key of an MDP, which its seeds are folded into; it does not depend on what else is run."""
    base = jax.random.key((*FAMILIES, NEAR_TIES).index(family))
    return jax.random.fold_in(base, number)


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    wall, processor = time.perf_counter(), time.process_time()
    yield
    seconds[part] = time.perf_counter() - wall
    seconds[f"cpu {part}"] = time.process_time() - processor


def _spread(episodes: int, points: int) -> tuple[int, ...]:
    """Checkpoints, evenly spaced in the logarithm, the last one `episodes`."""
    spaced = np.unique(np.geomspace(min(4, episodes), episodes, points).round().astype(int))
    return tuple(int(k) for k in spaced)
