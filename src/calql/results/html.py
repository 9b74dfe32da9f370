"""Pieces of the report's page. Every text that comes from outside is escaped here."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from calql.results.diagnosis import Finding
from calql.results.divergence import Story
from calql.results.runs import Run
from calql.results.style import colour
from calql.results.summary import NUMBERS, Number, Summary
from calql.results.table import HEADINGS, MEANINGS, cell, seed_cell

TILES: tuple[Number, ...] = ("before", "worst_early", "after", "regret", "unlearning_depth")


def page(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """The whole document, with nothing to load from elsewhere."""
    template = Template(resources.files("calql.results").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), subtitle=escape(subtitle), body="\n".join(parts))


def lead(sentences: str, notes: Sequence[str] = ()) -> str:
    extra = "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)
    return f'<div class="card head"><p class="lead">{escape(sentences)}</p>{extra}</div>'


def tiles(summary: Summary) -> str:
    """The numbers of a single run at a glance."""
    shown = [(name, cell(summary, name)) for name in TILES if summary.stat(name) is not None]
    boxes = (
        f'<div class="tile"><b>{_small_spread(text)}</b><span>{escape(MEANINGS[name])}</span></div>'
        for name, text in shown
    )
    return f'<div class="tiles">{"".join(boxes)}</div>' if shown else ""


def _small_spread(text: str) -> str:
    mean, mark, spread = text.partition(" ± ")
    return escape(mean) + (f" <small>± {escape(spread)}</small>" if mark else "")


def results(names: Sequence[str], summaries: Sequence[Summary], colours: Sequence[int]) -> str:
    """Sortable table, one row per run, and every seed below."""
    rows = []
    for name, summary, place in zip(names, summaries, colours, strict=True):
        badge = "" if summary.finished else '<span class="badge">unfinished</span>'
        dot = f'<span class="dot" style="background:{colour(place)}"></span>' if len(names) > 1 else ""
        cells = "".join(_cell(cell(summary, number), _mean(summary, number)) for number in NUMBERS)
        rows.append(f"<tr><td>{dot}{escape(name)}{badge}</td><td>{len(summary.seeds)}</td>{cells}</tr>")
    heads = ["run", "seeds", *(HEADINGS[number] for number in NUMBERS)]
    meanings = ["", "", *(MEANINGS[number] for number in NUMBERS)]
    note = "; ".join(f"{HEADINGS[number]}: {MEANINGS[number]}" for number in NUMBERS)
    return (
        '<div class="card"><div class="scroll">'
        + _table(heads, rows, meanings, kind="sortable")
        + f'</div><p class="note">Mean ± standard deviation over seeds. {escape(note)}.</p>'
        + f"<details><summary>Every seed</summary>{_seeds(names, summaries)}</details></div>"
    )


def _seeds(names: Sequence[str], summaries: Sequence[Summary]) -> str:
    rows = [
        f"<tr><td>{escape(name)}</td><td>{seed.seed}</td>"
        + "".join(_cell(seed_cell(seed, number), getattr(seed, number)) for number in NUMBERS)
        + "</tr>"
        for name, summary in zip(names, summaries, strict=True)
        for seed in summary.seeds
    ]
    heads = ["run", "seed", *(HEADINGS[number] for number in NUMBERS)]
    return f'<div class="scroll">{_table(heads, rows, kind="sortable")}</div>'


def findings(found: Sequence[tuple[str, Finding]], *, name_runs: bool) -> str:
    """What looks suspicious, or that nothing does."""
    if not found:
        return (
            '<div class="card"><p class="note" style="margin:0">None of the automatic checks found anything.</p></div>'
        )
    cards = (
        f'<div class="card finding {finding.level}"><h3>{escape(finding.title)}'
        + (f' <span class="run">· {escape(name)}</span>' if name_runs else "")
        + f"</h3><p>{escape(finding.text)}</p></div>"
        for name, finding in found
    )
    return "".join(cards)


def stories_of_divergence(told: Sequence[tuple[str, Story]], *, name_runs: bool) -> str:
    """What the numbers of seeds did before they diverged or were noticed; nothing where none did."""
    if not told:
        return ""
    cards = []
    for name, story in told:
        rows = [
            "<tr>" + "".join(f"<td>{escape(_number(row.get(column)))}</td>" for column in story.columns) + "</tr>"
            for row in story.rows
        ]
        title = f"Seed {story.seed}" + (f" · {name}" if name_runs else "")
        cards.append(
            f'<div class="card"><h3>{escape(title)}</h3><div class="scroll">{_table(story.columns, rows)}</div></div>'
        )
    note = "The last evaluations up to the one from which it was known, which comes last."
    return f'<h2>Before they diverged</h2><p class="note">{note}</p>{"".join(cards)}'


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def figure(title: str, image: bytes, caption: str) -> str:
    data = base64.b64encode(image).decode()
    return (
        f'<figure class="card"><h3>{escape(title)}</h3><img alt="{escape(title)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def differences(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Settings that are not the same in every run."""
    flat = [_flatten({key: run.config.get(key) for key in ("run", "options", "dataset")}) for run in runs]
    keys = [key for key in dict.fromkeys(key for each in flat for key in each)]
    unequal = [key for key in keys if len({json.dumps(each.get(key)) for each in flat}) > 1]
    if not unequal:
        return (
            '<div class="card"><p class="note" style="margin:0">The runs differ in nothing but their method.</p></div>'
        )
    rows = [
        f"<tr><td>{escape(key)}</td>" + "".join(f"<td>{escape(_text(each.get(key)))}</td>" for each in flat) + "</tr>"
        for key in unequal
    ]
    return f'<div class="card"><div class="scroll">{_table(["setting", *names], rows)}</div></div>'


def settings(name: str, run: Run, *, open_: bool) -> str:
    """The resolved config of a run, its versions and its command."""
    config = run.config
    parts = [f"<details{' open' if open_ else ''}><summary>{escape(name)}</summary>"]
    if config.get("command"):
        parts.append(f"<pre>{escape(str(config['command']))}</pre>")
    parts.append('<div class="pair">')
    for key, title in (("run", "run"), ("options", "method options"), ("dataset", "data"), ("versions", "versions")):
        if config.get(key):
            parts.append(f"<div>{_pairs(title, config[key])}</div>")
    rest = {k: v for k, v in config.items() if k not in ("run", "options", "dataset", "versions", "command")}
    parts.append(f"<div>{_pairs('more', rest)}</div></div></details>")
    return f'<div class="card">{"".join(parts)}</div>'


def speed(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Median rates of each phase, and the wall clock."""
    rows = []
    for name, run in zip(names, runs, strict=True):
        for phase in ("offline", "online"):
            of_phase = [row for row in run.speed if row.get("phase") == phase]
            if of_phase:
                updates, steps = _median(of_phase, "updates_per_s"), _median(of_phase, "env_steps_per_s")
                elapsed = max(float(row.get("elapsed_s") or 0.0) for row in of_phase)
                rows.append(
                    f"<tr><td>{escape(name)}</td><td>{phase}</td><td>{updates}</td>"
                    f"<td>{steps if phase == 'online' else '-'}</td><td>{elapsed / 60:.1f} min</td></tr>"
                )
    if not rows:
        return ""
    note = '<p class="note">All seeds together; updates/s while updating, environment steps/s while collecting.</p>'
    heads = ["run", "phase", "updates/s", "env steps/s", "wall clock at its end"]
    return f'<h2>Speed</h2><div class="card"><div class="scroll">{_table(heads, rows)}</div>{note}</div>'


def _median(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    return f"{np.median(values):,.0f}" if values else "-"


def _pairs(title: str, values: Any) -> str:
    flat = _flatten(values) if isinstance(values, Mapping) else {title: values}
    rows = [
        f'<tr><td>{escape(key)}</td><td class="text">{escape(_text(value))}</td></tr>' for key, value in flat.items()
    ]
    return _table([title, ""], rows)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat |= _flatten(value, name) if isinstance(value, Mapping) else {name: value}
    return flat


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


def _table(heads: Sequence[str], rows: Iterable[str], meanings: Sequence[str] = (), *, kind: str = "") -> str:
    titles = meanings or [""] * len(heads)
    head = "".join(
        f'<th title="{escape(title)}">{escape(name)}</th>' if title else f"<th>{escape(name)}</th>"
        for name, title in zip(heads, titles, strict=True)
    )
    attribute = f' class="{kind}"' if kind else ""
    return f"<table{attribute}><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(text: str, value: float | None) -> str:
    return f'<td data-value="{"" if value is None else value}">{escape(text)}</td>'


def _mean(summary: Summary, number: Number) -> float | None:
    stat = summary.stat(number)
    return None if stat is None else stat.mean
