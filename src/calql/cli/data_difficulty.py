"""calql data difficulty: how hard datasets are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calql.system.options import Checked, Count


@dataclass(frozen=True)
class DifficultyOptions(Checked):
    """Say how hard datasets are: size, successes, score of behaviour cloning, and what is known of the paper's.

    Finished sets are not measured again; the table gathers what was measured under the same --out.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Datasets by name, as in calql data list."""
    updates: Count = 10_000
    """Gradient steps of behaviour cloning."""
    seeds: Count = 3
    """Seeds of it, which train as one program."""
    episodes: Count = 20
    """Episodes played with each seed at the end."""
    size: Count | None = None
    """Transitions, of datasets that have a size (default: all)."""
    out: str = "runs/difficulty"
    """The folder of the runs and of difficulty.csv."""


def difficulty(options: DifficultyOptions) -> int:
    from calql.domains.datasets import recipe
    from calql.experiments import difficulty as measured
    from calql.experiments.tables import markdown
    from calql.results import Progress
    from calql.runs.life import Watching

    for name in options.names:
        recipe(name)  # a wrong name is told before an hour of work
    cloning = measured.Cloning(options.updates, options.seeds, options.episodes, options.size)
    root = Path(options.out)
    found = []
    for name in options.names:
        found = measured.write([measured.measure(name, cloning, root, Watching(Progress()))], root / measured.FILE)
    print(markdown(measured.table(found)))
    return 0
