"""The picture of the experiment: regret, its split, the bound, the coefficients, the growth with K."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from calql.theory.algorithm import VARIANTS
from calql.theory.claims import BoundCheck, growth_exponent, instance_branches, pooled_exponent
from calql.theory.experiment import NEAR_TIES, Numbers, Results
from calql.theory.statistics import bootstrap, mean

COLOUR = {
    "cal-ql": "#0072B2",
    "no-calibration": "#D55E00",
    "no-conservatism": "#009E73",
    "hy-q": "#555555",
    "cal-ql-oracle": "#56B4E9",
}
CONDITION_TITLE = {
    "near-optimal": "near-optimal reference,\nits own data",
    "near-optimal-thin": "near-optimal reference,\nthin data",
    "narrow-and-poor": "poor reference,\nnarrow data",
    "broad-and-poor": "poor reference,\nbroad data",
}
CONDITION_COLOUR = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00")
FAMILY_MARKER = {"random-tabular": "o", "random-linear": "s", "chain": "^", "lock": "D"}


def draw(results: Results, bound: BoundCheck, stem: Path) -> list[Path]:
    """Write `stem`.png and `stem`.svg."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(3, 4, figsize=(15, 11), layout="constrained")
    for column, condition in enumerate(results.conditions):
        _regret(axes[0, column], results, condition)
        _split(axes[1, column], results, condition)
    for column, condition in enumerate(("near-optimal", "broad-and-poor")):
        _bound(axes[2, column], results, bound, condition)
    _coefficients(axes[2, 2], results)
    _growth(axes[2, 3], results)
    for axis in (*axes[0], *axes[2, :3]):
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.yaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].set_ylabel("cumulative regret / V*  (episodes lost)")
    axes[1, 0].set_ylabel("per episode / V*")
    axes[2, 0].set_ylabel("cumulative regret")
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper left")
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return paths


def optimal_values(results: Results, condition: str) -> Numbers:
    """[family, instance]"""
    return np.array(
        [
            [results.found[condition, family, n].optimal_value for n in range(results.scale.instances)]
            for family in results.families
        ]
    )


def _regret(axis: Axes, results: Results, condition: str) -> None:
    scale = optimal_values(results, condition)[..., None]
    for variant, colour in COLOUR.items():
        lost = results.curve(condition, variant, "regret") / scale
        bands = [bootstrap(mean, lost[..., k]) for k in range(lost.shape[-1])]
        axis.plot(results.checkpoints, [b.estimate for b in bands], color=colour, label=VARIANTS[variant].label)
        axis.fill_between(
            results.checkpoints, [b.low for b in bands], [b.high for b in bands], color=colour, alpha=0.2, lw=0
        )
    axis.plot(results.checkpoints, results.checkpoints, color="0.8", lw=0.8, zorder=0)
    axis.set(xscale="log", yscale="log", xlabel="episode k", title=CONDITION_TITLE[condition], ylim=(0.1, None))


def _split(axis: Axes, results: Results, condition: str) -> None:
    scale = optimal_values(results, condition) * results.scale.episodes
    for position, (variant, colour) in enumerate(COLOUR.items()):
        for offset, measure, hatch in ((-0.2, "miscalibration", ""), (0.2, "overestimation", "///")):
            share = bootstrap(mean, results.curve(condition, variant, measure)[..., -1] / scale)
            error = [[share.estimate - share.low], [share.high - share.estimate]]
            axis.bar(
                position + offset, share.estimate, 0.38, yerr=error, color=colour, hatch=hatch, ec="w", ecolor="0.2"
            )
        total = bootstrap(mean, results.curve(condition, variant, "regret")[..., -1] / scale).estimate
        axis.plot([position - 0.4, position + 0.4], [total, total], color="k", lw=1.5)
    labels = ["Cal-QL", "cons.\nonly", "calib.\nonly", "Hy-Q", "{f≤Q*}"]
    axis.set_xticks(range(len(labels)), labels, fontsize=8)
    axis.axhline(0, color="0.5", lw=0.8)
    axis.set_title("plain: miscalibration (i), hatched: overestimation (ii)\nblack: their sum, the regret", fontsize=8)


def _bound(axis: Axes, results: Results, bound: BoundCheck, condition: str) -> None:
    cases = [(family, n) for family in results.families for n in range(results.scale.instances)]
    first, second = [], []
    for k in results.checkpoints:
        parts = [instance_branches(results, condition, family, n, k) for family, n in cases]
        first.append(np.mean([bound.constant * p.coverage for p in parts]))
        second.append(np.mean([p.reference_gap + bound.constant * p.exploration for p in parts]))
    for variant in ("cal-ql", "hy-q"):
        regret = results.curve(condition, variant, "regret").mean(axis=(0, 1))
        axis.plot(results.checkpoints, regret, color=COLOUR[variant], label=VARIANTS[variant].label)
    axis.plot(results.checkpoints, first, "k--", label="branch 1: c C_ref H √(dK log|F|)")
    axis.plot(results.checkpoints, second, "k:", label="branch 2: K(V*−V_ref) + c H √(d_ref K log|F|)")
    axis.set(xscale="log", yscale="log", xlabel="episode k")
    axis.set_title(f"the bound, c = {bound.constant:.2g} fitted once\n{CONDITION_TITLE[condition]}", fontsize=9)
    axis.legend(frameon=False, fontsize=7)


def _markers(results: Results) -> list[tuple[str, str]]:
    return [(family, FAMILY_MARKER[family]) for family in results.families]


def _coefficients(axis: Axes, results: Results) -> None:
    for condition, colour in zip(results.conditions, CONDITION_COLOUR, strict=True):
        for family, marker in _markers(results):
            pairs = [q for (c, f, _), q in results.found.items() if (c, f) == (condition, family)]
            axis.scatter(
                [q.plain_coefficient for q in pairs],
                [q.calibrated_coefficient for q in pairs],
                s=14,
                color=colour,
                marker=marker,
                alpha=0.6,
                lw=0,
            )
    largest = max(q.plain_coefficient for q in results.found.values())
    limits = [2, 2 * largest]
    axis.plot(limits, limits, color="0.6", lw=0.8)
    for condition, colour in zip(results.conditions, CONDITION_COLOUR, strict=True):
        axis.scatter([], [], color=colour, s=14, label=condition)
    for family, marker in _markers(results):
        axis.scatter([], [], color="0.4", marker=marker, s=14, label=family)
    axis.set(xscale="log", yscale="log", xlabel="plain C", ylabel="calibrated C_ref", title="concentrability")
    axis.legend(frameon=False, fontsize=7)


def _growth(axis: Axes, results: Results) -> None:
    rows = [(condition, v) for condition in results.conditions for v in ("cal-ql", "no-calibration", "hy-q")]
    for row, (condition, variant) in enumerate(rows):
        for shift, found, face in (
            (-0.15, growth_exponent(results, condition, variant, NEAR_TIES), COLOUR[variant]),
            (0.15, pooled_exponent(results, condition, variant), "white"),
        ):
            axis.plot([found.low, found.high], [row + shift] * 2, color=COLOUR[variant])
            axis.plot(found.estimate, row + shift, "o", mfc=face, mec=COLOUR[variant], ms=4)
    axis.axvline(0.5, color="0.5", lw=0.8, ls="--")
    axis.axvline(1.0, color="0.8", lw=0.8)
    short = {"cal-ql": "Cal-QL", "no-calibration": "cons. only", "hy-q": "Hy-Q"}
    axis.set_yticks(range(len(rows)), [short[v] for _, v in rows], fontsize=7)
    for group, condition in enumerate(results.conditions):
        title = CONDITION_TITLE[condition].replace("\n", " ")
        axis.text(0.02, 3 * group - 0.36, title, fontsize=6.5, color="0.4", transform=axis.get_yaxis_transform())
    axis.invert_yaxis()
    axis.set(xlabel="exponent p of regret ~ K^p")
    axis.set_title("growth with K = m_off\nfull: near-ties, hollow: fixed MDPs", fontsize=9)
