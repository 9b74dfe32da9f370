"""calql reproduce NAME."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from calql.cli.parse import parse
from calql.errors import unknown


@dataclass(frozen=True)
class ReproduceOptions:
    """Run the experiment behind a figure of the paper and write it with its numbers."""

    name: Annotated[str, tyro.conf.Positional]
    """The figure: fig-theory."""
    scale: Literal["smoke", "small", "paper"] = "small"
    """How much of it: smoke is a minute or two on two cores."""
    seeds: int | None = None
    """Seeds per instance (default: the scale's)."""
    out: str | None = None
    """The folder to write (default: runs/NAME)."""


def _theory(options: ReproduceOptions, out: Path) -> Path:
    import calql.theory

    return calql.theory.run(options.scale, options.seeds, out)


EXPERIMENTS: dict[str, Callable[[ReproduceOptions, Path], Path]] = {"fig-theory": _theory}


def run(command: str, words: Sequence[str]) -> int:
    options = parse(ReproduceOptions, words, command=command)
    if options.name not in EXPERIMENTS:
        raise unknown("experiment", options.name, EXPERIMENTS, where="calql reproduce")
    out = Path(options.out) if options.out is not None else Path("runs") / options.name
    print(f"report: {EXPERIMENTS[options.name](options, out) / 'report.md'}")
    return 0
