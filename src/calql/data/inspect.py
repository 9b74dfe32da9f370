"""What is in a dataset, and what is wrong with it: `calql data inspect FILE`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from calql.data.columns import bad_values
from calql.data.dataset import Bools, Dataset, Part
from calql.data.findings import LAST_TERMINAL, constant_features, duplicate_rows, findings
from calql.data.stored import Stored
from calql.system.layout import Layout
from calql.system.walk import chunks

COLUMNS = ("observations", "actions", "rewards", "next_observations")
SHOWN = 16  # parts of observations
TIMEOUTS_LEFT_OUT = re.compile(r"time-out rows? left out")  # as the reader of D4RL's layout notes it


@dataclass(frozen=True)
class Range:
    """Smallest, mean and largest of some values."""

    low: float
    mean: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} / {self.mean:.6g} / {self.high:g}"


@dataclass(frozen=True)
class Description:
    """A dataset in numbers, its notes, and its problems as plain sentences."""

    source: str
    transitions: int
    episodes: int
    lengths: Range
    returns: Range  # undiscounted, recorded rewards
    rewards: Range
    success_rate: float | None  # share of episodes that reach the higher of two reward values
    terminal_share: float  # of episodes
    truncated_share: float  # of episodes; not terminal
    action_shape: tuple[int, ...]
    action_low: float
    action_high: float
    observation_shape: tuple[int, ...]
    observation_dtype: str
    observation_parts: tuple[Part, ...]  # what they are put together from, where that has names
    observation_layout: Layout | None  # of cameras and vectors together
    not_finite: dict[str, int]  # column -> how many values are NaN or inf
    constant_features: tuple[int, ...]  # observation features that never change
    duplicate_rows: int  # observation, action and reward all seen in an earlier row
    notes: tuple[str, ...]
    errors: tuple[str, ...]  # what `calql train` refuses
    warnings: tuple[str, ...]  # what is probably a mistake

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self.errors, *self.warnings)


def describe(dataset: Dataset, found: Sequence[str] = (), episode_limit: int | None = None) -> Description:
    """Count and measure; `found` are errors that reading the file brought up, the limit that of its environment."""
    rewards = dataset.rewards.astype(np.float64)
    terminal = dataset.terminals[dataset.episode_ends]
    numbers: dict[str, Any] = {
        "transitions": len(dataset),
        "episodes": len(dataset.episode_ends),
        "lengths": _range(dataset.episode_lengths),
        "returns": _range(np.add.reduceat(rewards, dataset.episode_starts)),
        "rewards": _range(rewards),
        "success_rate": success_rate(dataset),
        "terminal_share": float(terminal.mean()),
        "truncated_share": float((~terminal).mean()),
        "action_shape": dataset.actions.shape[1:],
        "action_low": _range(dataset.actions).low,
        "action_high": _range(dataset.actions).high,
        "observation_shape": dataset.observations.shape[1:],
        "observation_dtype": str(dataset.observations.dtype),
        "observation_parts": dataset.parts,
        "observation_layout": dataset.layout,
        "not_finite": not_finite(dataset),
        "constant_features": constant_features(dataset),
        "duplicate_rows": duplicate_rows(dataset),
    }
    seen = findings(dataset, episode_limit)
    errors = (*found, *_damage(dataset), *(sentence(f"{error.what}; {error.mend}") for error in seen.errors))
    warnings = tuple(map(sentence, seen.warnings))
    return Description(source=dataset.source, notes=dataset.notes, errors=errors, warnings=warnings, **numbers)


def _damage(dataset: Dataset) -> list[str]:
    """Whether observations on disk are still those that were written, where whoever wrote them kept a checksum."""
    seen = dataset.observations
    if not isinstance(seen, Stored) or "crc32" not in seen.facts:
        return []
    crc = 0
    for rows in chunks(seen):
        crc = zlib.crc32(seen[rows].tobytes(), crc)
    changed = crc != seen.facts["crc32"]
    return ["Observations are not those that were written (checksum); copy or convert the data again."] * changed


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def success_rate(dataset: Dataset) -> float | None:
    """Share of episodes that earn the higher of two reward values; None where there are not two."""
    flags = successes(dataset)
    return None if flags is None else float(flags.mean())


def successes(dataset: Dataset) -> Bools | None:
    """[episode]: whether it earns the higher of two reward values; None where there are not two."""
    values = np.unique(dataset.rewards[np.isfinite(dataset.rewards)])
    if len(values) != 2:
        return None
    best = dataset.rewards == values[1]
    return np.asarray(np.logical_or.reduceat(best, dataset.episode_starts))


def not_finite(dataset: Dataset) -> dict[str, int]:
    counts = {name: bad_values(dataset.numbers(name))[1] for name in COLUMNS}
    return {name: count for name, count in counts.items() if count}


def _range(values: NDArray[Any]) -> Range:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Range(float("nan"), float("nan"), float("nan"))
    return Range(float(finite.min()), float(finite.mean(dtype=np.float64)), float(finite.max()))


def render(description: Description) -> RenderableType:
    """A table of the numbers, then what the reader left out, then what is wrong."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts(description):
        table.add_row(name, value)
    parts: list[RenderableType] = [Text(description.source, style="bold"), table]
    if description.notes:
        parts += [Text("On reading:", style="bold"), *(Text(f"  - {note}") for note in description.notes)]
    if not description.problems:
        return Group(*parts, Text("No problem found.", style="green"))
    for heading, style, found in (
        ("Errors, which training refuses:", "bold red", description.errors),
        ("Warnings:", "bold yellow", description.warnings),
    ):
        if found:
            parts += [Text(heading, style=style), *(Text(f"  - {problem}") for problem in found)]
    return Group(*parts)


def _parts(parts: tuple[Part, ...]) -> str:
    """Which features are which."""
    listed = ", ".join(f"{part.name} {part.start}:{part.stop}" for part in parts[:SHOWN])
    return f"  ({listed}{', ...' if len(parts) > SHOWN else ''})" if parts else ""


def _observations(d: Description) -> str:
    if d.observation_layout is not None:
        return str(d.observation_layout)
    return f"{d.observation_dtype} {list(d.observation_shape)}{_parts(d.observation_parts)}"


def facts(d: Description) -> list[tuple[str, str]]:
    """The numbers in words, one line each."""
    success = "not known: rewards do not take just two values"
    if d.success_rate is not None:
        success = f"{d.success_rate:.1%} of episodes reach a reward of {d.rewards.high:g}"
    cut = any(TIMEOUTS_LEFT_OUT.search(note) for note in d.notes)
    last = any(note.startswith(LAST_TERMINAL) for note in d.notes)
    lost = " (one more is terminal, in the last row, which is left out)" if last else ""
    kind = f"float32 {list(d.action_shape)}" if d.action_shape else "whole numbers"
    bad = ", ".join(f"{count} in '{name}'" for name, count in d.not_finite.items())
    return [
        ("transitions", f"{d.transitions}"),
        ("episodes", f"{d.episodes}"),
        ("episode length", f"{d.lengths}  (min / mean / max)"),
        ("return", f"{d.returns}  (min / mean / max, undiscounted{', without time-out rows' if cut else ''})"),
        ("reward", f"{d.rewards}  (min / mean / max)"),
        ("success", success),
        ("episode ends", f"{d.terminal_share:.1%} terminal, {d.truncated_share:.1%} truncated{lost}"),
        ("observations", _observations(d)),
        ("actions", f"{kind}, {d.action_low:g} to {d.action_high:g}"),
        ("NaN or inf", bad or "none"),
        ("repeated rows", f"{d.duplicate_rows}"),
    ]
