"""What to try against a seed that runs away, by its rows and by the options that its method has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calql.methods.vocabulary import REMEDIES, Adapted, Remedy, Signal, meaning_of
from calql.results.metrics import Row


def remedies(signal: Signal, rows: Sequence[Row], options: Mapping[str, Any], width: float = 0.0) -> str:
    """In words, from the rows of one seed; possible returns span `width`, where that is known."""
    stuck = _stuck(rows, options)
    facts = [_in_words(name, adapted, rows, options, width) for name, adapted in stuck.items()]
    tries = [adapted.instead for adapted in stuck.values()]
    tries += [remedy.words.format(**options) for remedy in REMEDIES[signal] if _applies(remedy, options)]
    return " ".join([*facts, *([f"Try {', or '.join(tries)}."] if tries else [])])


def _applies(remedy: Remedy, options: Mapping[str, Any]) -> bool:
    wanted = all(options.get(name) == value for name, value in remedy.where.items())
    return wanted and options.get(remedy.option) is not None


def _stuck(rows: Sequence[Row], options: Mapping[str, Any]) -> dict[str, Adapted]:
    """The weights that rise and do not bring their metric down to what is asked for."""
    found = {name: meaning.adapted for name in rows[-1] if (meaning := meaning_of(name)) and meaning.adapted}
    return {name: each for name, each in found.items() if _missed(name, each, rows, options)}


def _missed(name: str, adapted: Adapted, rows: Sequence[Row], options: Mapping[str, Any]) -> bool:
    weights, gaps, asked = _numbers(rows, name), _numbers(rows, adapted.metric), options.get(adapted.asked)
    return bool(weights and gaps) and asked is not None and gaps[-1] > asked and weights[-1] >= weights[0]


def _in_words(name: str, adapted: Adapted, rows: Sequence[Row], options: Mapping[str, Any], width: float) -> str:
    weights, gap = _numbers(rows, name), _numbers(rows, adapted.metric)[-1]
    rose = f"rose from {_short(weights[0])} to" if weights[-1] > weights[0] else "is"
    asked = f"{adapted.metric} stands at {_short(gap)}, --{adapted.asked} asks for {options[adapted.asked]:g}"
    beside = f" where possible returns span {width:.4g}" if width else ""
    return f"{name} {rose} {_short(weights[-1])} and its target is not reached: {asked}{beside}."


def _numbers(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if row.get(name) is not None]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
