"""How figures look: one quiet style, and colours that stay apart for colour-blind readers (Okabe and Ito)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import matplotlib

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4d4d4d")
Dash = Literal["-"] | tuple[float, Sequence[float]]
DASHES: tuple[Dash, ...] = ("-", (0, (5, 1)), (0, (1, 1)))
INK, FAINT = "#1f2733", "#5b6472"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.parse_math": False,  # a name may hold dollars
    "text.color": INK,
    "axes.edgecolor": "#c3cad4",
    "axes.labelcolor": FAINT,
    "axes.labelsize": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e3e7ed",
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
}


@contextmanager
def styled() -> Iterator[None]:
    """The style, without touching the defaults of a program that uses this package."""
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        yield


def colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def dash(place: int) -> Dash:
    """A second mark for more runs than colours."""
    return DASHES[place // len(COLOURS) % len(DASHES)]
