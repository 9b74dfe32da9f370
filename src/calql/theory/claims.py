"""What the theory says, each as a statement that the measurements can refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calql.theory.experiment import NEAR_TIES, Results
from calql.theory.families import HORIZON
from calql.theory.measures import Branches, branches, needed_constant
from calql.theory.statistics import Interval, bootstrap, exponent, mean, ratio

EQUIVALENT = (0.8, 1.25)
"""Ratios of regret that count as 'does as Hy-Q does'."""
ROOT = (0.4, 0.6)
"""Exponents that count as a square root."""


@dataclass(frozen=True)
class Verdict:
    """One statement against one set of instances."""

    claim: str
    """Which of the issue's claims: a, b, c, d, e."""
    statement: str
    condition: str
    family: str
    measured: Interval
    outcome: str
    """'holds', 'fails', or 'undecided' where the interval straddles the criterion."""


def verdicts(results: Results) -> list[Verdict]:
    """All of them."""
    return [
        *_less_regret(results),
        *_coefficients(results),
        *_as_hy_q(results),
        *_first_term(results),
        *_growth(results),
    ]


def _scopes(results: Results) -> tuple[str | None, ...]:
    return (None, *results.families)


def _regret_ratio(results: Results, above: str, below: str, condition: str, family: str | None) -> Interval:
    final = [results.curve(condition, v, "regret", family)[..., -1] for v in (above, below)]
    return bootstrap(ratio, *final)


def _less_regret(results: Results) -> Iterator[Verdict]:
    for condition in ("near-optimal", "near-optimal-thin"):
        for family in _scopes(results):
            found = _regret_ratio(results, "cal-ql", "hy-q", condition, family)
            yield Verdict(
                "a",
                "regret of Cal-QL / regret of Hy-Q is below 1",
                condition,
                family or "all",
                found,
                _below(found, 1.0),
            )


def _coefficients(results: Results) -> Iterator[Verdict]:
    for condition in results.conditions:
        for family in results.families:
            pairs = [q for (c, f, _), q in results.found.items() if (c, f) == (condition, family)]
            excess = np.array([q.calibrated_coefficient / q.plain_coefficient for q in pairs])
            found = Interval(float(excess.mean()), float(excess.min()), float(excess.max()))
            outcome = "holds" if found.high <= 1 + 1e-9 else "fails"
            yield Verdict("b", "C^ref / C is at most 1 (mean [least, most])", condition, family, found, outcome)


def _as_hy_q(results: Results) -> Iterator[Verdict]:
    low, high = EQUIVALENT
    for family in _scopes(results):
        found = _regret_ratio(results, "cal-ql", "hy-q", "broad-and-poor", family)
        statement = f"regret of Cal-QL / regret of Hy-Q lies in [{low}, {high}]"
        yield Verdict("c", statement, "broad-and-poor", family or "all", found, _within(found, EQUIVALENT))


def _first_term(results: Results) -> Iterator[Verdict]:
    for condition in results.conditions:
        for family in _scopes(results):
            terms = [
                results.curve(condition, v, "miscalibration", family)[..., -1] / results.scale.episodes
                for v in ("no-calibration", "cal-ql")
            ]
            extra = bootstrap(lambda a, b: mean(a - b), *terms)
            yield Verdict(
                "d",
                "miscalibration per episode, without calibration minus with it, is above 0",
                condition,
                family or "all",
                extra,
                _above(extra, 0.0),
            )
            cost = _regret_ratio(results, "no-calibration", "cal-ql", condition, family)
            yield Verdict(
                "d",
                "regret without calibration / regret of Cal-QL is above 1",
                condition,
                family or "all",
                cost,
                _above(cost, 1.0),
            )


def _growth(results: Results) -> Iterator[Verdict]:
    for variant in results.variants:
        for condition in results.conditions:
            for family in results.grown:
                found = growth_exponent(results, condition, variant, family)
                if family == NEAR_TIES:
                    statement = f"regret of {variant} grows like K^p, p in [{ROOT[0]}, {ROOT[1]}]"
                    outcome = _within(found, ROOT)
                else:
                    statement = f"regret of {variant} grows like K^p, p at most 1/2"
                    outcome = _below(found, 0.5)
                yield Verdict("e", statement, condition, family, found, outcome)


def growth_exponent(results: Results, condition: str, variant: str, family: str) -> Interval:
    """The fitted exponent of final regret on K = m_off."""
    sample = results.grown_regret(condition, variant, family)[None]
    return bootstrap(exponent(results.budgets), sample)


def pooled_exponent(results: Results, condition: str, variant: str) -> Interval:
    """The same over the fixed families together, each regret in units of its V*."""
    lost = [
        results.grown_regret(condition, variant, family)
        / np.array(
            [[results.found[condition, family, n].optimal_value] for n in range(results.scale.scaling_instances)]
        )
        for family in results.families
    ]
    return bootstrap(exponent(results.budgets), np.stack(lost))


@dataclass(frozen=True)
class BoundCheck:
    """The bound with its one constant."""

    constant: float
    """Least constant for which the bound holds of Cal-QL at K on every even-numbered instance."""
    held_out: int
    """Instance x checkpoint pairs of odd-numbered instances it was then applied to."""
    covered: int
    """Those where the mean regret over seeds stayed under the bound."""
    worst: float
    """Largest regret / bound among them."""
    branch_two: float
    """Share of instances at K where the second branch, through the reference, is the smaller."""
    early: int
    """Of the pairs not covered, those in the first tenth of the episodes."""
    informative: dict[str, float]
    """By condition, the share of instances at K where the first branch, the square root, is below K V*, which
    no policy's regret exceeds."""


def instance_branches(results: Results, condition: str, family: str, number: int, k: int) -> Branches:
    return branches(results.found[condition, family, number], HORIZON, k)


def check_bound(results: Results) -> BoundCheck:
    """Fit the constant on half of the instances at the last checkpoint; apply it to the other half at all."""
    needed, ratios, second = [0.0], [], []
    informative: dict[str, list[bool]] = {condition: [] for condition in results.conditions}
    early = 0
    cases = list(results.found.items())
    regret = {c: results.curve(c, "cal-ql", "regret") for c in results.conditions}
    for (condition, family, n), _ in cases:
        if n % 2 == 0:
            final = regret[condition][results.families.index(family), n, -1]
            parts = instance_branches(results, condition, family, n, results.checkpoints[-1])
            needed.append(needed_constant(final, parts))
    constant = max(needed)
    for (condition, family, n), found in cases:
        last = instance_branches(results, condition, family, n, results.checkpoints[-1])
        second.append(last.reference_gap + constant * last.exploration < constant * last.coverage)
        trivial = results.checkpoints[-1] * found.optimal_value
        informative[condition].append(constant * last.coverage < trivial)
        if n % 2 == 1:
            for k, total in zip(results.checkpoints, regret[condition][results.families.index(family), n], strict=True):
                ratios.append(total / instance_branches(results, condition, family, n, k).bound(constant))
                early += ratios[-1] > 1 and k <= results.checkpoints[-1] / 10
    return BoundCheck(
        constant,
        len(ratios),
        int(np.sum(np.array(ratios) <= 1)),
        float(np.max(ratios, initial=0.0)),
        float(np.mean(second)),
        int(early),
        {condition: float(np.mean(share)) for condition, share in informative.items()},
    )


def _below(found: Interval, limit: float) -> str:
    return "holds" if found.high <= limit else "fails" if found.low > limit else "undecided"


def _above(found: Interval, limit: float) -> str:
    return "holds" if found.low > limit else "fails" if found.high <= limit else "undecided"


def _within(found: Interval, limits: tuple[float, float]) -> str:
    low, high = limits
    if low <= found.low and found.high <= high:
        return "holds"
    return "fails" if found.low > high or found.high < low else "undecided"
