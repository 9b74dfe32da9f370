"""A dataset as one page: episodes, ranges, coverage, films, and what looks wrong, with links to the episodes.

The page is under 3 MB however large the data: what is counted is counted over all rows, what is listed is thinned, and
the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset, Description
from calql.data.inspect import facts
from calql.data.overview import Episodes, Feature, episodes, features, listed, sample
from calql.domains.scene import FloorPlan, Scene
from calql.results import html, interactive
from calql.results.html import Grid, TableCell, row
from calql.system.errors import UserError, unknown
from calql.views import charts, films
from calql.views.films import Film

TEMPLATES = Path(__file__).parent / "templates"
MOST_EPISODES = 1000  # rows of the table
MOST_FEATURES = 60  # rows of a table of ranges, and features to choose from
MOST_LINKS = 12  # episodes named beside a finding
DASHES = ("solid", "dashed", "dotted")

ShownBy = Mapping[str, Sequence[int]]  # what looks wrong -> the episodes that show it


@dataclass(frozen=True)
class Linked:
    """Something that looks wrong, and the listed episodes that show it."""

    place: int
    level: str  # problem, or warning
    text: str
    episodes: Sequence[int]
    more: int  # episodes that are not linked


@dataclass(frozen=True)
class Line:
    """A row of the table of episodes."""

    episode: int
    cells: Sequence[TableCell]
    findings: Sequence[int]


@dataclass(frozen=True)
class Columns:
    """What two features of can be chosen: numbers of observations, and of actions."""

    values: NDArray[Any]  # [row, feature]
    names: Sequence[str]
    left_out: int

    def pair(self, asked: Sequence[str], plan: FloorPlan | None) -> tuple[int, int]:
        """The two features that were asked for by name or number; else those of the plan, else the first two."""
        if not asked:
            return (plan.x, plan.y) if plan is not None else (0, min(1, len(self.names) - 1))
        if len(asked) != 2:
            raise UserError(f"{len(asked)} features are given", where="--dims", mend="name two: --dims 0 1")
        return self._place(asked[0]), self._place(asked[1])

    def _place(self, word: str) -> int:
        if word.isdecimal() and int(word) < len(self.names):
            return int(word)
        if word in self.names:
            return self.names.index(word)
        raise unknown("feature", word, [*self.names, f"0 to {len(self.names) - 1}"], where="--dims")


def data_page(
    name: str, dataset: Dataset, seen: Description, shown_by: ShownBy, scene: Scene, *, task: str = "",
    dims: Sequence[str] = (), drawn: Sequence[Film] = (),
) -> str:  # fmt: skip
    """The whole page; `seen` is what `describe` found, `drawn` are films of an environment."""
    found = episodes(dataset)
    suspicious = sorted({episode for several in shown_by.values() for episode in several})
    shown = listed(found, suspicious, MOST_EPISODES)
    linked = _linked(seen, shown_by, {int(each) for each in shown})
    columns = columns_of(dataset, scene)
    return html.render(
        "data.html.j2",
        folder=TEMPLATES,
        title=name,
        subtitle=f"{seen.transitions:,} steps in {seen.episodes:,} episodes" + (f" of {task}" if task else ""),
        lead=_lead(seen),
        findings=linked,
        notes=seen.notes,
        heads=_heads(found),
        lines=_lines(dataset, found, shown, shown_by, linked),
        listed=len(shown),
        total=seen.episodes,
        histograms=_histograms(found),
        films=[*films.of_images(dataset, found, films.telling(found, suspicious, films.RECORDED)), *drawn],
        ranges=_ranges(dataset, scene),
        facts=Grid([], [row(*fact) for fact in (("source", seen.source), *facts(seen))], name="the data in numbers"),
        script=interactive.script(),
        **_coverage(dataset, columns, columns.pair(dims, scene.plan), scene.plan, found),
    )


def columns_of(dataset: Dataset, scene: Scene) -> Columns:
    observations: list[NDArray[Any]] = []
    names: list[str] = []
    wide = 0
    if dataset.vectors is not None:
        wide = max(dataset.vectors.shape[1] - MOST_FEATURES, 0)
        observations = [dataset.vectors[:, :MOST_FEATURES]]
        names = _names(dataset, scene)[:MOST_FEATURES]
    actions = dataset.actions.reshape(len(dataset), -1)[:, :MOST_FEATURES]
    names += [f"action {place}" for place in range(actions.shape[1])]
    return Columns(np.concatenate([*observations, actions], axis=1), names, wide)


def _names(dataset: Dataset, scene: Scene) -> list[str]:
    """Of observations: as the scene or the data call them, the rest by number."""
    count = 0 if dataset.vectors is None else dataset.vectors.shape[1]
    names = [f"observation {place}" for place in range(count)]
    for part in dataset.parts:
        several = part.stop - part.start > 1
        names[part.start : part.stop] = [
            f"{part.name} {place}" if several else part.name for place in range(part.stop - part.start)
        ]
    return [*scene.names, *names[len(scene.names) :]]


def _lead(seen: Description) -> str:
    returns, lengths = seen.returns, seen.lengths
    success = "" if seen.success_rate is None else f" {seen.success_rate:.1%} of episodes succeed."
    problems = len(seen.problems)
    wrong = "Nothing looks wrong." if not problems else f"{problems} thing{'s' * (problems != 1)} to look at."
    return (
        f"Returns from {returns.low:.4g} to {returns.high:.4g} (mean {returns.mean:.4g}), episodes of "
        f"{lengths.low:g} to {lengths.high:g} steps.{success} {wrong}"
    )


def _linked(seen: Description, shown_by: ShownBy, shown: set[int]) -> list[Linked]:
    levels = [*(("problem", text) for text in seen.errors), *(("warning", text) for text in seen.warnings)]
    made = []
    for place, (level, text) in enumerate(levels):
        showing = shown_by.get(text, ())
        named = [episode for episode in showing if episode in shown][:MOST_LINKS]
        made.append(Linked(place, level, text, named, len(showing) - len(named)))
    return made


def _lines(
    dataset: Dataset, found: Episodes, shown: NDArray[Any], shown_by: ShownBy, linked: Sequence[Linked]
) -> list[Line]:
    by_episode: dict[int, list[int]] = {}
    for each in linked:
        for episode in shown_by.get(each.text, ()):
            by_episode.setdefault(episode, []).append(each.place)
    return [Line(int(e), _cells(dataset, found, int(e)), by_episode.get(int(e), [])) for e in shown]


def _heads(found: Episodes) -> html.Row:
    success = ["success"] if found.success is not None else []
    return row("episode", "return", "steps", *success, "end", "first row")


def _cells(dataset: Dataset, found: Episodes, episode: int) -> list[TableCell]:
    total = found.totals[episode]
    cells = [
        TableCell(f"{total:.6g}", value=f"{total:.9g}" if np.isfinite(total) else ""),
        TableCell(str(found.lengths[episode])),
    ]
    if found.success is not None:
        cells.append(TableCell("yes" if found.success[episode] else "no"))
    end = "terminal" if found.terminal[episode] else "cut"
    return [*cells, TableCell(end), TableCell(str(dataset.episode_starts[episode]))]


def _histograms(found: Episodes) -> list[Any]:
    return [
        charts.bars("returns", found.totals, "return of an episode", "Histogram of the returns of episodes"),
        charts.bars("lengths", found.lengths, "steps of an episode", "Histogram of the lengths of episodes"),
    ]


def _coverage(
    dataset: Dataset, columns: Columns, pair: tuple[int, int], plan: FloorPlan | None, found: Episodes
) -> dict[str, Any]:
    paths = _paths(dataset, found) if plan is not None and (plan.x, plan.y) == pair else []
    taken = sample(columns.values, columns.names)
    return {
        "coverage": charts.coverage("coverage", columns.values, columns.names, pair, plan, paths),
        "keys": [interactive.Key(path.label, interactive.INK, dash=DASHES[i]) for i, path in enumerate(paths)],
        "choices": list(enumerate(columns.names)),
        "pair": pair,
        "left_out": columns.left_out,
        "sampled": taken.codes.shape[1],
        "sample": charts.embedded_sample(taken),
    }


def _paths(dataset: Dataset, found: Episodes) -> list[charts.Path]:
    """The ways of the best, the middle and the worst episode by return."""
    order = np.argsort(found.totals, kind="stable")
    chosen = {"most return": order[-1], "least return": order[0], "middle return": order[len(order) // 2]}
    starts, ends = dataset.episode_starts, dataset.episode_ends
    named: dict[int, str] = {}
    for label, episode in chosen.items():
        named.setdefault(int(episode), label)
    return [charts.Path(f"episode {e}: {label}", slice(int(starts[e]), int(ends[e]) + 1)) for e, label in named.items()]


def _ranges(dataset: Dataset, scene: Scene) -> list[tuple[str, str, Grid]]:
    """Title, remark and table: of actions, and of observations where they are vectors."""
    actions = dataset.actions.reshape(len(dataset), -1)
    made = [_range_table("Actions", actions, [f"action {place}" for place in range(actions.shape[1])])]
    if dataset.vectors is not None and dataset.vectors.shape[1]:
        names = _names(dataset, scene)
        made.append(_range_table("Observations", dataset.vectors, names))
    return made


def _range_table(title: str, values: NDArray[Any], names: Sequence[str]) -> tuple[str, str, Grid]:
    measured = features(values[:, :MOST_FEATURES], names[:MOST_FEATURES])
    heads = [
        *row("feature", "least", "1%", "mean", "99%", "largest"),
        TableCell("spread", hint="standard deviation"),
        TableCell("at the ends", hint="share of rows at exactly the least or the largest value"),
    ]
    remark = f"The first {MOST_FEATURES} of {len(names)}." if len(names) > MOST_FEATURES else ""
    return title, remark, Grid(heads, [_range_row(each) for each in measured], sortable=True, name=title.lower())


def _range_row(feature: Feature) -> list[TableCell]:
    numbers = (feature.low, feature.from_, feature.mean, feature.to, feature.high, feature.spread)
    return [
        TableCell(feature.name),
        *(TableCell(f"{number:.4g}") for number in numbers),
        TableCell(f"{feature.at_ends:.1%}", value=f"{feature.at_ends:.6g}"),
    ]
