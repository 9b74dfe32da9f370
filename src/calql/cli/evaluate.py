"""calql evaluate RUN."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from calql.cli.parse import parse
from calql.runs.scores import evaluate
from calql.system.options import Checked, Count, CountOrZero


@dataclass(frozen=True)
class EvaluateOptions(Checked):
    """Play episodes with the deterministic policy of a run's last checkpoint; prints JSON."""

    run: Annotated[str, tyro.conf.Positional]
    """The run folder."""
    episodes: Count = 50
    """Episodes for each seed."""
    start: CountOrZero = 0
    """Number of the first episode; the same numbers give the same episodes."""
    trust: bool = False
    """Import the environment that the run names, though you never trained with it."""


def run(command: str, words: Sequence[str]) -> int:
    options = parse(EvaluateOptions, words, command=command)
    found = evaluate(options.run, options.episodes, options.start, trust=options.trust)
    print(json.dumps(found, indent=2))
    return 0
