"""Tables: a tidy CSV of everything, and a Markdown report that says what held, what did not, and why."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from pathlib import Path

import numpy as np

from calql.theory.algorithm import VARIANTS
from calql.theory.claims import BoundCheck, Verdict
from calql.theory.experiment import MEASURES, PESSIMISM, Results

CLAIMS = {
    "a": "With a near-optimal reference, calibration gives less regret than Hy-Q",
    "b": "The calibrated coefficient never exceeds the plain one",
    "c": "With a broad and poor reference, the method does as Hy-Q does",
    "d": "Conservatism without calibration pays the first term, miscalibration",
    "e": "Regret grows like the square root of K where the bound says so",
}


def write_tables(results: Results, found: list[Verdict], folder: Path) -> None:
    """results.csv, growth.csv, instances.csv and verdicts.csv."""
    axes = (results.conditions, results.families, range(results.scale.instances))
    runs = (*axes, range(results.scale.seeds), results.variants, results.checkpoints)
    flat = results.curves.reshape(-1, len(MEASURES))
    _write(
        folder / "results.csv",
        ("condition", "family", "mdp", "seed", "algorithm", "k", *MEASURES),
        ((*name, *(f"{x:.6g}" for x in row)) for name, row in zip(itertools.product(*runs), flat, strict=True)),
    )
    grown = (
        results.conditions,
        results.grown,
        range(results.scale.scaling_instances),
        range(results.scale.seeds),
        results.variants,
        results.budgets,
    )
    _write(
        folder / "growth.csv",
        ("condition", "family", "mdp", "seed", "algorithm", "episodes", "regret"),
        ((*name, f"{x:.6g}") for name, x in zip(itertools.product(*grown), results.growth.ravel(), strict=True)),
    )
    first = next(iter(results.found.values()))
    _write(
        folder / "instances.csv",
        ("condition", "family", "mdp", *first._fields),
        ((*name, *(f"{x:.8g}" for x in q)) for name, q in results.found.items()),
    )
    _write(
        folder / "verdicts.csv",
        ("claim", "statement", "condition", "family", "estimate", "low", "high", "outcome"),
        ((v.claim, v.statement, v.condition, v.family, *(f"{x:.4g}" for x in v.measured), v.outcome) for v in found),
    )


def write_report(results: Results, found: list[Verdict], bound: BoundCheck, path: Path) -> None:
    """The report; it names every file beside it."""
    parts = [
        _what_was_run(results),
        "![Regret, its split, the bound, the coefficients and the growth with K](theory.png)",
        _summary(found),
        _bound_text(bound),
        _assumptions(results),
        *(_claim_table(claim, found) for claim in CLAIMS),
    ]
    path.write_text("\n\n".join(parts) + "\n")


def _what_was_run(results: Results) -> str:
    s = results.scale
    total = s.instances * len(results.families)
    return f"""# The theory, run

{total} MDPs ({s.instances} of each of {", ".join(results.families)}) under {len(results.conditions)} conditions,
{s.seeds} seeds, {len(results.variants)} algorithms, K = m_off = {s.episodes} episodes, m_on = 1. Pessimism:
{PESSIMISM:g} width. Time: {results.seconds["main"]:.0f} s for these ({results.seconds["cpu main"]:.0f} s of processor),
{results.seconds["growth"]:.0f} s for the growth with K ({s.scaling_instances} MDPs of each family and of near-ties,
K = {", ".join(map(str, results.budgets))}),
{results.seconds["quantities"]:.0f} s for coefficients and ranks.

Intervals are 95% bootstrap intervals over MDPs (seeds averaged within an MDP, families kept apart)."""


def _summary(found: list[Verdict]) -> str:
    rows = ["| claim | holds | undecided | fails |", "|---|---|---|---|"]
    for claim, text in CLAIMS.items():
        count = Counter(v.outcome for v in found if v.claim == claim)
        rows.append(f"| ({claim}) {text} | {count['holds']} | {count['undecided']} | {count['fails']} |")
    return "## What held\n\nCounts are statements, one for each family and condition; all of them below.\n\n" + (
        "\n".join(rows)
    )


def _bound_text(bound: BoundCheck) -> str:
    missed = bound.held_out - bound.covered
    shares = ", ".join(f"{share:.0%} under {condition}" for condition, share in bound.informative.items())
    return f"""## The bound

min{{c C_ref H sqrt(d K log|F|), K (V* - V_ref) + c H sqrt(d_ref K log|F|)}} with the one constant
c = {bound.constant:.3g}, the least that covers Cal-QL's mean regret at K on the even-numbered MDPs. On the others, at
every checkpoint, it then covers {bound.covered} of {bound.held_out} (worst regret / bound: {bound.worst:.2f});
{bound.early} of the {missed} misses lie in the first tenth of the episodes. The second branch is the smaller on
{bound.branch_two:.0%} of the instances. The first, the square root, says more than the trivial K V* on {shares}."""


def _assumptions(results: Results) -> str:
    share = results.curves[..., -1, MEASURES.index("not_pessimistic")].mean(axis=(1, 2, 3))
    header = "| algorithm | " + " | ".join(results.conditions) + " |"
    rows = [
        f"| {VARIANTS[v].label} | " + " | ".join(f"{x:.1%}" for x in share[:, n]) + " |"
        for n, v in enumerate(results.variants)
    ]
    found = list(results.found.values())
    infinite = sum(not np.isfinite(q.plain_coefficient) for q in found)
    wider = sum(q.calibrated_rank > q.plain_rank for q in found)
    attained = sum(
        np.isclose(q.plain_witness, q.plain_coefficient, rtol=1e-4)
        and np.isclose(q.calibrated_witness, q.calibrated_coefficient, rtol=1e-4)
        for q in found
    )
    return f"""## Where the theorem's assumptions do not hold

- **Pessimism (f <= Q* everywhere).** Only the class {{f <= Q*}} has it by construction. Share of (h, s, a) with
  f > Q*, over all episodes:

{header}
|{"---|" * (1 + len(results.conditions))}
{chr(10).join(rows)}

- **Coverage.** C is infinite on {infinite} of {len(found)} instances; the largest finite C is
  {max(q.plain_coefficient for q in found if np.isfinite(q.plain_coefficient)):.3g}. Where the square root exceeds
  K V* (see the bound) it promises nothing at this K, and growth faster than it is no contradiction.
- **Ranks.** d_ref > d on {wider} of {len(found)} instances. Ranks are those of sampled members of each class.
- **Exactness of C.** A member of the class that attains both coefficients was built on {attained} of {len(found)}
  instances; on the rest (random-linear) they are upper bounds.
- **A finite class.** log|F| is the covering number d_F log(1 + H K) of a class of real weights.
- **Linear families.** max(f, Q_ref), and f less its width, are not linear in the features. T f is, for any f, so
  completeness holds; the fit itself stays linear."""


def _claim_table(claim: str, found: list[Verdict]) -> str:
    rows = ["| condition | family | statement | measured [95%] | outcome |", "|---|---|---|---|---|"]
    rows += [
        f"| {v.condition} | {v.family} | {v.statement} | {v.measured} | {v.outcome} |"
        for v in found
        if v.claim == claim
    ]
    return f"## ({claim}) {CLAIMS[claim]}\n\n" + "\n".join(rows)


def _write(path: Path, header: tuple[str, ...], rows: object) -> None:
    with path.open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # type: ignore[arg-type]
