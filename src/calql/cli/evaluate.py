"""calql evaluate RUN."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from calql import training
from calql.cli.parse import parse
from calql.options import Checked
from calql.trust import trust_run


@dataclass(frozen=True)
class EvaluateOptions(Checked):
    """Play episodes with the deterministic policy of a run's last checkpoint; prints JSON."""

    run: Annotated[str, tyro.conf.Positional]
    """The run folder."""
    episodes: int = 50
    """Episodes for each seed."""
    start: int = 0
    """Number of the first episode; the same numbers give the same episodes."""
    trust: bool = False
    """Import the environment that the run names, though you never trained with it."""


def run(command: str, words: Sequence[str]) -> int:
    options = parse(EvaluateOptions, words, command=command)
    if options.trust:
        trust_run(options.run)
    print(json.dumps(training.evaluate(options.run, options.episodes, options.start), indent=2))
    return 0
