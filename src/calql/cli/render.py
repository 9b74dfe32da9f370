"""calql render TASK|RUN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calql.cli.parse import parse
from calql.options import Checked


@dataclass(frozen=True)
class RenderOptions(Checked):
    """Film one episode: of a task with random actions, or of a run with its policy."""

    what: Annotated[str, tyro.conf.Positional]
    """A task by name, or a run folder."""
    out: str = "episode.gif"
    """The film to write: .gif, or .mp4 with the extra [tasks]."""
    seed: int = 0
    """Seed of the episode."""
    trust: bool = False
    """Import the environment that the run names, though you never trained with it."""


def run(command: str, words: Sequence[str]) -> int:
    from calql.render import render

    options = parse(RenderOptions, words, command=command)
    folder = Path(options.what)
    if (folder / "config.json").is_file():
        from calql.experiment import from_config
        from calql.policy import load_policy
        from calql.trust import trust_run

        if options.trust:
            trust_run(folder)
        task = from_config(folder)[0].task.name
        written = render(task, options.out, load_policy(folder), options.seed)
    else:
        written = render(options.what, options.out, None, options.seed)
    print(f"film: {written}")
    return 0
