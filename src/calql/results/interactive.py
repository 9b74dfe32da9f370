"""Interactive charts of a page: figures as plain dicts for plotly.js, whose script is part of the page.

A chart is a place on the page and its figure as JSON beside it; `charts.js` draws it when it comes into view, in the
colours of the page, and gives it keys to zoom with and its numbers as a table. No Python package is needed for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from markupsafe import Markup

from calql.results.html import macro, ours
from calql.results.metrics import plain

HERE = Path(__file__).parent
PLOTLY, CHARTS = HERE / "vendor" / "plotly-cartesian.min.js", HERE / "templates" / "charts.js"
TEMPLATE = "charts.html.j2"
INK, FAINT = "var(--ink)", "var(--faint)"  # colours that follow the page, dark or light
COUNT = 7  # colours of the page, as many as in `style`

Trace = Mapping[str, Any]


@dataclass(frozen=True)
class Key:
    """A name in the legend: a button that hides and shows what belongs to its group, everywhere on the page."""

    label: str
    colour: str
    group: str = ""  # the label, where it is not said
    dash: str = "solid"

    @property
    def of(self) -> str:
        return self.group or self.label


def chart(name: str, traces: Sequence[Trace], layout: Trace, *, alt: str, height: int = 300) -> Markup:
    """A place that is drawn into. `name` is unique on the page; `alt` says in words what is to be seen."""
    figure = embedded({"data": traces, "layout": layout})
    return macro(TEMPLATE, "chart")(name, figure, alt, height)


@cache
def script() -> Markup:
    """plotly.js and what draws with it: once on a page, after its charts."""
    return macro(TEMPLATE, "scripts")(*(ours(path.read_text("utf-8")) for path in (PLOTLY, CHARTS)))


def colour(place: int) -> str:
    """One of the page's colours, which differ between dark and light."""
    return f"var(--c{place % COUNT})"


def member(*groups: str) -> dict[str, Any]:
    """Which names of the legend a trace comes and goes with: it is seen while none of them is hidden."""
    return {"meta": {"groups": list(groups)}}


def text(words: str) -> str:
    """A name from outside: plotly reads some tags and entities in texts, and those of a name are to be seen."""
    return escape(words, quote=False)


def embedded(value: Any) -> Markup:
    """JSON that nothing in a page can end: no character of it means anything to HTML; what is not finite is null."""
    written = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return ours(written)
