"""What the sections of the report say, as plain data for its template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calql.results.arms import arms_of
from calql.results.divergence import Story
from calql.results.html import Card, Grid, TableCell, row
from calql.results.interactive import colour
from calql.results.runs import RecordedRun
from calql.results.summary import NUMBERS, Number, Stat, Summary
from calql.results.table import HEADINGS, MEANINGS, cell, seed_cell, signed

TILES: tuple[Number, ...] = ("before", "worst_early", "after", "regret", "unlearning_depth")
PARTS = {"run": "run", "options": "method options", "dataset": "data", "versions": "versions"}  # of a config


@dataclass(frozen=True)
class Tile:
    """A number at a glance."""

    value: str
    interval: str  # over seeds; nothing for a single one
    meaning: str


@dataclass(frozen=True)
class Settings:
    """The resolved config of a run, its versions and its command."""

    name: str
    command: str
    grids: Sequence[Grid]


def tiles(summary: Summary) -> list[Tile]:
    """The numbers of a single run."""
    found = [(name, stat) for name in TILES if (stat := summary.stat(name)) is not None]
    return [Tile(signed(stat.mean, name), interval(stat, name), MEANINGS[name]) for name, stat in found]


def results(names: Sequence[str], summaries: Sequence[Summary], colours: Sequence[int]) -> Card:
    """One row per run."""
    rows = [
        [
            TableCell(
                name,
                dot=colour(place) if len(names) > 1 else "",
                badge="" if summary.finished else "unfinished",
            ),
            TableCell(str(len(summary.seeds))),
            *(_over_seeds(summary, number) for number in NUMBERS),
        ]
        for name, summary, place in zip(names, summaries, colours, strict=True)
    ]
    heads = [*row("run", "seeds"), *(TableCell(HEADINGS[number], hint=MEANINGS[number]) for number in NUMBERS)]
    meanings = "; ".join(f"{HEADINGS[number]}: {MEANINGS[number]}" for number in NUMBERS)
    note = f"Mean over seeds, and below it its 95% bootstrap interval. {meanings}."
    return Card(Grid(heads, rows, sortable=True, name="results"), note=note)


def _over_seeds(summary: Summary, number: Number) -> TableCell:
    stat = summary.stat(number)
    value = "" if stat is None else str(stat.mean)
    if number == "steps_to_recover" or stat is None:
        return TableCell(cell(summary, number), value=value)
    return TableCell(signed(stat.mean, number), interval(stat, number), value)


def interval(stat: Stat, number: Number) -> str:
    """0.81 to 0.95; nothing for a single seed."""
    ends = (stat.low, stat.high)
    return "" if None in ends else " to ".join(signed(end, number) for end in ends if end is not None)


def seeds(names: Sequence[str], summaries: Sequence[Summary]) -> Grid:
    """One row per seed of each run."""
    rows = [
        [
            *row(name, str(seed.seed)),
            *(_sorted_by(seed_cell(seed, number), getattr(seed, number)) for number in NUMBERS),
        ]
        for name, summary in zip(names, summaries, strict=True)
        for seed in summary.seeds
    ]
    return Grid(row("run", "seed", *(HEADINGS[number] for number in NUMBERS)), rows, sortable=True, name="every seed")


def stories_of_divergence(told: Sequence[tuple[str, Story]], *, name_runs: bool) -> list[Card]:
    """What the numbers of seeds did before they diverged or were noticed."""
    return [
        Card(_story(story), title=f"Seed {story.seed}" + (f" · {name}" if name_runs else "")) for name, story in told
    ]


def _story(story: Story) -> Grid:
    return Grid(row(*story.columns), [row(*(_number(each.get(key)) for key in story.columns)) for each in story.rows])


def differences(names: Sequence[str], runs: Sequence[RecordedRun]) -> Card | None:
    """Settings that are not the same in every run."""
    flat = [_flatten({key: run.config.get(key) for key in ("run", "options", "dataset")}) for run in runs]
    keys = dict.fromkeys(key for each in flat for key in each)
    unequal = [key for key in keys if len({json.dumps(each.get(key)) for each in flat}) > 1]
    rows = [row(key, *(_text(each.get(key)) for each in flat)) for key in unequal]
    return Card(Grid(row("setting", *names), rows)) if rows else None


def settings(name: str, run: RecordedRun) -> Settings:
    known = [_pairs(title, run.config[key]) for key, title in PARTS.items() if run.config.get(key)]
    rest = {key: value for key, value in run.config.items() if key not in (*PARTS, "command")}
    return Settings(name, str(run.config.get("command") or ""), [*known, _pairs("more", rest)])


SPEEDS = (
    "updates/s and env steps/s are those of each seed, as in the terminal: updates while updating, steps while "
    "collecting. seed-updates/s are those of all seeds together. Medians over the phase."
)


def speed(names: Sequence[str], runs: Sequence[RecordedRun]) -> Card | None:
    """Median rates of each phase, and the wall clock; a sweep is one program, so its arms share a line."""
    folders = {run.folder: name if not run.arm else "all arms" for name, run in zip(names, runs, strict=True)}
    first = {folder: next(run for run in runs if run.folder == folder) for folder in folders}
    rows = [line for folder, name in folders.items() for line in _speed_of(name, first[folder])]
    heads = row("run", "phase", "updates/s", "seed-updates/s", "env steps/s", "wall clock at its end")
    return Card(Grid(heads, rows, name="speed"), note=SPEEDS) if rows else None


def _speed_of(name: str, run: RecordedRun) -> Iterator[Sequence[TableCell]]:
    networks = max(len(run.seeds) * max(len(arms_of(run.config)), 1), 1)
    for phase in ("offline", "online"):
        rows = [each for each in run.speed if each.get("phase") == phase]
        if rows:
            elapsed = max(float(each.get("elapsed_s") or 0.0) for each in rows)
            updates = [_median(rows, "updates_per_s", share) for share in (networks, 1)]
            steps = _median(rows, "env_steps_per_s", networks) if phase == "online" else "-"
            yield row(name, phase, *updates, steps, f"{elapsed / 60:.1f} min")


def _median(rows: Sequence[Mapping[str, Any]], name: str, share: int) -> str:
    """Of a rate of all seeds, a share of it."""
    values = [float(each[name]) for each in rows if each.get(name) is not None]
    return f"{np.median(values) / share:,.0f}" if values else "-"


def _pairs(title: str, values: Any) -> Grid:
    flat = _flatten(values) if isinstance(values, Mapping) else {title: values}
    return Grid(row(title, ""), [[TableCell(key), TableCell(_text(value), css="text")] for key, value in flat.items()])


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat |= _flatten(value, name) if isinstance(value, Mapping) else {name: value}
    return flat


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


def _sorted_by(text: str, value: float | None) -> TableCell:
    return TableCell(text, value="" if value is None else str(value))
