"""calql compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calql.cli.parse import parse


@dataclass(frozen=True)
class CompareOptions:
    """Train every method on the point maze and write one report; finished methods are not run again."""

    out: str = "runs/comparison"
    """The folder of the runs and the report."""
    methods: tuple[str, ...] = ()
    """Only these methods."""


def run(command: str, words: Sequence[str]) -> int:
    from rich.console import Console

    from calql.experiments import compare as comparison
    from calql.results import result_table
    from calql.runs import life as training
    from calql.runs.stops import Stops

    options = parse(CompareOptions, words, command=command)
    with Stops(own_process=True) as stops:
        report = comparison.compare(Path(options.out), options.methods, watching=training.Watching(stops=stops))
    Console().print(result_table(comparison.summaries(options.out, options.methods), per_seed=False))
    print(f"report: {report}")
    return 0
