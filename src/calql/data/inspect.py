"""What is in a dataset, and what is wrong with it: `calql data inspect FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from calql.data.columns import counted
from calql.data.dataset import Dataset

COLUMNS = ("observations", "actions", "rewards", "next_observations")
CHUNK = 100_000


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
    not_finite: dict[str, int]  # column -> how many values are NaN or inf
    constant_features: tuple[int, ...]  # observation features that never change
    duplicate_rows: int  # observation, action and reward all seen in an earlier row
    notes: tuple[str, ...]
    problems: tuple[str, ...]


def describe(dataset: Dataset, found: Sequence[str] = ()) -> Description:
    """Count and measure; `found` are problems that reading the file brought up."""
    rewards = dataset.rewards.astype(np.float64)
    terminal = dataset.terminals[dataset.episode_ends]
    facts: dict[str, Any] = {
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
        "not_finite": not_finite(dataset),
        "constant_features": constant_features(dataset.observations),
        "duplicate_rows": duplicate_rows(dataset),
    }
    problems = (*(found or _not_finite_sentences(facts["not_finite"])), *_sentences(dataset, facts))
    return Description(source=dataset.source, notes=dataset.notes, problems=problems, **facts)


def success_rate(dataset: Dataset) -> float | None:
    """Share of episodes that earn the higher of two reward values; None where there are not two."""
    values = np.unique(dataset.rewards[np.isfinite(dataset.rewards)])
    if len(values) != 2:
        return None
    best = dataset.rewards == values[1]
    return float(np.logical_or.reduceat(best, dataset.episode_starts).mean())


def not_finite(dataset: Dataset) -> dict[str, int]:
    counts = {name: int((~np.isfinite(getattr(dataset, name))).sum()) for name in COLUMNS}
    return {name: count for name, count in counts.items() if count}


def constant_features(observations: NDArray[Any]) -> tuple[int, ...]:
    """Features of vector observations that have one value throughout; images have none."""
    if observations.ndim != 2 or len(observations) < 2:
        return ()
    return tuple(int(i) for i in np.flatnonzero((observations == observations[0]).all(axis=0)))


def duplicate_rows(dataset: Dataset) -> int:
    """Rows whose observation, action and reward are those of an earlier row."""
    seen: set[int] = set()
    for start in range(0, len(dataset), CHUNK):
        rows = slice(start, start + CHUNK)
        parts = (dataset.observations[rows], dataset.actions[rows], dataset.rewards[rows])
        raw = [np.ascontiguousarray(p).reshape(len(p), -1).view(np.uint8) for p in parts]
        joined = np.ascontiguousarray(np.concatenate(raw, axis=1))
        seen.update(map(hash, joined.view(f"V{joined.shape[1]}").ravel().tolist()))
    return len(dataset) - len(seen)


def broken_sequence(dataset: Dataset) -> int:
    """Rows inside an episode whose next observation is not the observation of the following row."""
    inside = np.flatnonzero(~(dataset.terminals | dataset.truncated))
    if len(inside) == 0:
        return 0
    differs = dataset.next_observations[inside] != dataset.observations[inside + 1]
    differs &= np.isfinite(dataset.next_observations[inside])
    return int(differs.reshape(len(inside), -1).any(axis=1).sum())


def _range(values: NDArray[Any]) -> Range:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Range(float("nan"), float("nan"), float("nan"))
    return Range(float(finite.min()), float(finite.mean(dtype=np.float64)), float(finite.max()))


def _not_finite_sentences(counts: dict[str, int]) -> list[str]:
    return [f"'{name}' holds {counted(count, 'NaN or inf value')}." for name, count in counts.items()]


def _sentences(dataset: Dataset, facts: dict[str, Any]) -> list[str]:
    """What else may be wrong; each a sentence that says what follows from it."""
    found = []
    if facts["rewards"].low == facts["rewards"].high:
        found.append(f"Every reward is {facts['rewards'].low:g}: there is nothing to tell good from bad.")
    if facts["terminal_share"] == 0.0:
        found.append("No episode ends in a terminal step: returns are cut where the recording stopped.")
    if broken := broken_sequence(dataset):
        found.append(
            f"{broken} rows have a next observation that is not the following row's: "
            "an episode end may be missing there."
        )
    if max(abs(facts["action_low"]), abs(facts["action_high"])) > 1.0:
        outside = int((np.abs(dataset.actions) > 1.0).any(axis=1).sum())
        found.append(f"{outside} actions leave [-1, 1]: what exceeds the environment's bounds is clipped.")
    if features := facts["constant_features"]:
        named = ", ".join(map(str, features[:8])) + (", ..." if len(features) > 8 else "")
        found.append(f"{len(features)} observation features never change ({named}).")
    if facts["duplicate_rows"] > 0.01 * len(dataset):
        found.append(f"{facts['duplicate_rows']} rows repeat an earlier row.")
    if dataset.observations.ndim == 2 and np.abs(dataset.observations).max() > 1e4:
        found.append("Some observations exceed 10000 in size: networks learn badly from such values.")
    return found


def render(description: Description) -> RenderableType:
    """A table of the numbers, then what the reader left out, then what is wrong."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(description):
        table.add_row(name, value)
    parts: list[RenderableType] = [Text(description.source, style="bold"), table]
    if description.notes:
        parts += [Text("On reading:", style="bold"), *(Text(f"  - {note}") for note in description.notes)]
    if not description.problems:
        return Group(*parts, Text("No problem found.", style="green"))
    problems = (Text(f"  - {problem}") for problem in description.problems)
    return Group(*parts, Text("Problems:", style="bold red"), *problems)


def _facts(d: Description) -> list[tuple[str, str]]:
    success = "not known: rewards do not take just two values"
    if d.success_rate is not None:
        success = f"{d.success_rate:.1%} of episodes reach a reward of {d.rewards.high:g}"
    bad = ", ".join(f"{count} in '{name}'" for name, count in d.not_finite.items())
    return [
        ("transitions", f"{d.transitions}"),
        ("episodes", f"{d.episodes}"),
        ("episode length", f"{d.lengths}  (min / mean / max)"),
        ("return", f"{d.returns}  (min / mean / max, undiscounted)"),
        ("reward", f"{d.rewards}  (min / mean / max)"),
        ("success", success),
        ("episode ends", f"{d.terminal_share:.1%} terminal, {d.truncated_share:.1%} truncated"),
        ("observations", f"{d.observation_dtype} {list(d.observation_shape)}"),
        ("actions", f"float32 {list(d.action_shape)}, {d.action_low:g} to {d.action_high:g}"),
        ("NaN or inf", bad or "none"),
        ("repeated rows", f"{d.duplicate_rows}"),
    ]
