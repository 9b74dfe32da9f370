"""The figures of a report. Each compares runs, one colour per run, and is None where no run has its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from calql.methods.vocabulary import AVERAGE_Q, AVERAGE_RETURN_TO_GO, BOUND_RATE, Panel, in_family, of_panel
from calql.results import style
from calql.results.curves import Column, Curve, column, mean_of, phase_curve
from calql.results.runs import Run, labels
from calql.results.timeline import Timeline
from calql.system.run_files import MOMENTS

PHASES = ("offline", "online")
Line = tuple[Column, dict[str, object]]  # what, and how it differs from a plain Look
Part = tuple[str, list[Line]]  # a panel: title and lines


@dataclass(frozen=True)
class Look:
    """How one quantity of one run is drawn."""

    colour: str
    dash: style.Dash = "-"
    seeds: bool = True  # thin lines of the seeds
    spread: bool = True
    faint: bool = False  # a part of what the strong line averages


def score(runs: Sequence[Run]) -> Figure | None:
    """Normalised score over the whole run, with its spread over seeds."""
    figure, (axes,) = style.panels(1, height=4.3)
    if not _panel(axes, runs, [(column("score"), {})], "Normalised score"):
        return None
    values = [float(row["score"]) for run in runs for row in run.rows if row["score"] is not None]
    low, high = min([*values, 0.0]), max([*values, 1.0])
    axes.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    _name_switch(axes, runs)
    _legend(figure, runs)
    return figure


def price(runs: Sequence[Run]) -> Figure | None:
    """Regret so far, and how long an evaluation episode takes."""
    parts: list[Part] = [
        ("Regret so far: mean of 1 − score", [(column("regret"), {})]),
        ("Episode length", [(column("episode_length"), {})]),
    ]
    return _figure(runs, parts)


def q_values(runs: Sequence[Run]) -> Figure | None:
    """Average Q on logged data against the average return-to-go of the same data."""
    figure, (axes,) = style.panels(1)
    with_q = [run for run in runs if any(row.get(AVERAGE_Q) is not None for row in run.rows)]
    reference: dict[str, object] = {"dash": (0, (2, 2)), "seeds": False, "spread": False}
    lines: list[Line] = [(column(AVERAGE_Q), {}), (column(AVERAGE_RETURN_TO_GO), reference)]
    if not with_q or not _panel(axes, with_q, lines, "Average on logged data", all_runs=runs):
        return None
    _name_switch(axes, with_q)
    _legend(figure, with_q, {"average Q": "-", "average return-to-go": (0, (2, 2))}, all_runs=runs)
    return figure


def bound_rate(runs: Sequence[Run]) -> Figure | None:
    """Share of the policy's actions whose Q is below the reference value, for each source of actions."""
    titles = {"policy": "Bound rate, actions at s", "next": "Bound rate, actions at s′"}
    names = in_family(BOUND_RATE, {name for run in runs for row in run.rows for name in row})
    sources = sorted({name.rsplit("/", 1)[1] for name in names}, key=lambda s: (s != "policy", s))
    parts: list[Part] = []
    for source in sources:
        critics = [name for name in names if name.endswith(f"/{source}")]
        faint: dict[str, object] = {"faint": True, "seeds": False, "spread": False}
        each: list[Line] = [(column(name), faint) for name in critics] if len(critics) > 1 else []
        parts.append((titles.get(source, f"Bound rate, {source}"), [*each, (mean_of(critics), {"seeds": False})]))
    return _figure(runs, parts, limits=(-0.03, 1.03))


def regulariser(runs: Sequence[Run]) -> Figure | None:
    """The conservative gap and the weight α′ that holds it."""
    return _figure(runs, _parts("regulariser"))


def learning(runs: Sequence[Run]) -> Figure | None:
    """Whether the parts learn: losses of the critics, entropy of the policy, entropy temperature."""
    return _figure(runs, _parts("learning"))


def weights(runs: Sequence[Run]) -> Figure | None:
    """What logged actions count for in the policy's loss, where they are weighed by their advantage."""
    return _figure(runs, _parts("weights"))


def cloning(runs: Sequence[Run]) -> Figure | None:
    """How near the policy stays to logged actions."""
    return _figure(runs, _parts("cloning"))


def _parts(panel: Panel) -> list[Part]:
    """A panel for every metric of the vocabulary that belongs to a figure."""
    return [(meaning.title, [(column(name), {})]) for name, meaning in of_panel(panel).items()]


def calibration(runs: Sequence[Run]) -> Figure | None:
    """Q against return-to-go on logged states, at the switch and at the end; on the diagonal, Q is calibrated."""
    moments = [m for m in MOMENTS if any(m in run.calibration for run in runs)]
    if not moments:
        return None
    figure, all_axes = style.panels(len(moments), height=4.7)
    low, high = _calibration_range(runs)
    for axes, moment in zip(all_axes, moments, strict=True):
        found = [(place, run.calibration[moment]) for place, run in enumerate(runs) if moment in run.calibration]
        kinds = {"held-out" if each.held_out else "training" for _, each in found}
        axes.set_title(f"At the {moment}, on {' and '.join(sorted(kinds))} states")
        axes.plot([low, high], [low, high], color="#5b6472", linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
        for place, each in found:
            _calibration_of_run(axes, each.return_to_go, each.q, style.colour(place), crowded=len(runs) > 1)
        axes.set(xlim=(low, high), xlabel="return-to-go of the logged behaviour", ylabel="Q of the learner")
        axes.grid(True, axis="both")
    bottoms, tops = zip(*(axes.get_ylim() for axes in all_axes), strict=True)
    for axes in all_axes:
        axes.set_ylim(min(bottoms), max(tops))
    _legend(figure, runs, {"Q = return-to-go": (0, (4, 3))})
    return figure


def _calibration_of_run(axes: Axes, returns: np.ndarray, q: np.ndarray, colour: str, *, crowded: bool) -> None:
    """States as a cloud (mean over seeds), and the mean and the middle 80% of all seeds in bins of equal size."""
    mean_q = q.mean(axis=0)
    shown = np.linspace(0, returns.size - 1, min(returns.size, 1500)).astype(int)
    axes.scatter(
        returns[shown], mean_q[shown], s=5, color=colour, alpha=0.07 if crowded else 0.16, linewidths=0, rasterized=True
    )
    edges = np.unique(np.quantile(returns, np.linspace(0, 1, 13)))
    which = np.clip(np.searchsorted(edges, returns, side="right") - 1, 0, max(edges.size - 2, 0))
    centres, means, spans = [], [], []
    for place in np.unique(which):
        inside = which == place
        centres.append(returns[inside].mean())
        means.append(q[:, inside].mean())
        spans.append(np.quantile(q[:, inside], (0.1, 0.9)))
    low, high = np.array(spans).T
    axes.vlines(centres, low, high, color=colour, alpha=0.45, linewidth=1.6)
    axes.plot(centres, means, color=colour, linewidth=1.6, marker="o", markersize=4.5, markeredgecolor="white")


def _calibration_range(runs: Sequence[Run]) -> tuple[float, float]:
    returns = np.concatenate([each.return_to_go for run in runs for each in run.calibration.values()])
    low, high = float(returns.min()), float(returns.max())
    margin = 0.04 * (high - low) or max(abs(high) * 0.1, 0.5)
    return low - margin, high + margin


def _figure(runs: Sequence[Run], parts: Sequence[Part], *, limits: tuple[float, float] | None = None) -> Figure | None:
    """Panels side by side, without those that no run has numbers for."""
    parts = [part for part in parts if any(_has(run, what) for run in runs for what, _ in part[1])]
    if not parts:
        return None
    figure, all_axes = style.panels(len(parts), height=3.5)
    for axes, (title, lines) in zip(all_axes, parts, strict=True):
        _panel(axes, runs, lines, title)
        if limits is not None:
            axes.set_ylim(*limits)
    _legend(figure, runs)
    return figure


def _has(run: Run, what: Column) -> bool:
    return any(what(row) is not None for row in run.rows)


def _panel(
    axes: Axes, runs: Sequence[Run], lines: Sequence[Line], title: str, *, all_runs: Sequence[Run] | None = None
) -> bool:
    """Every line of every run over the timeline; whether anything was drawn."""
    timeline = Timeline.of(runs)
    colours = {id(run): place for place, run in enumerate(all_runs or runs)}
    drawn = False
    for run in runs:
        place = colours[id(run)]
        for what, changes in lines:
            look = Look(**{"colour": style.colour(place), "dash": style.dash(place), **changes})  # type: ignore[arg-type]
            for phase in PHASES:
                curve = phase_curve(run, what, phase)
                if curve is not None:
                    drawn = True
                    _draw(axes, curve, look, partial(timeline.place, run, phase))
    timeline.draw(axes)
    axes.set_title(title)
    return drawn


def _draw(axes: Axes, curve: Curve, look: Look, place: Callable[[np.ndarray], np.ndarray]) -> None:
    x = place(curve.x)
    if look.faint:
        axes.plot(x, curve.mean, color=look.colour, linewidth=1.0, alpha=0.35)
        return
    if look.seeds and len(curve.seeds) > 1:
        for steps, values in curve.seeds:
            axes.plot(place(steps), values, color=look.colour, linewidth=0.8, alpha=0.3)
    if look.spread and len(curve.seeds) > 1:
        axes.fill_between(x, curve.mean - curve.std, curve.mean + curve.std, color=look.colour, alpha=0.13, linewidth=0)
    alone = {"marker": "o", "markersize": 4.0} if x.size == 1 else {}
    axes.plot(x, curve.mean, color=look.colour, linestyle=look.dash, linewidth=2.1, **alone)  # type: ignore[arg-type]


def _name_switch(axes: Axes, runs: Sequence[Run]) -> None:
    timeline = Timeline.of(runs)
    if timeline.offline and timeline.online:
        axes.annotate(
            "switch", (0.0, 1.0), xytext=(4, -2), xycoords=("data", "axes fraction"), textcoords="offset points",
            va="top", fontsize=8.5, color=style.FAINT,
        )  # fmt: skip


def _legend(
    figure: Figure,
    runs: Sequence[Run],
    kinds: dict[str, style.Dash] | None = None,
    *,
    all_runs: Sequence[Run] | None = None,
) -> None:
    """One colour per run, where there are several; one dash per kind of line."""
    everyone = list(all_runs or runs)
    handles = [
        Line2D([], [], color=style.colour(place), linestyle=style.dash(place), linewidth=2.4, label=name)
        for place, (run, name) in enumerate(zip(everyone, labels(everyone), strict=True))
        if len(everyone) > 1 and any(run is each for each in runs)
    ]
    handles += [
        Line2D([], [], color=style.FAINT, linestyle=dash, linewidth=1.6, label=name)
        for name, dash in (kinds or {}).items()
    ]
    if handles:
        figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 5))
