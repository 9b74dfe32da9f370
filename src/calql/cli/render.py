"""calql render TASK|RUN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calql.cli.parse import parse
from calql.system.options import Checked
from calql.system.run_files import CONFIG


@dataclass(frozen=True)
class RenderOptions(Checked):
    """Film one episode: of a task with random actions, or of a run with its policy."""

    what: Annotated[str, tyro.conf.Positional]
    """A task by name, or a run folder."""
    out: str = "episode.gif"
    """The film to write: .gif, or .mp4 with the extra [films]."""
    seed: int = 0
    """Seed of the episode."""
    arm: str | None = None
    """Of a sweep: the arm whose policy plays."""
    trust: bool = False
    """Import the environment that the run names, though you never trained with it."""


def run(command: str, words: Sequence[str]) -> int:
    from calql.runs.film import render

    options = parse(RenderOptions, words, command=command)
    folder = Path(options.what)
    if (folder / CONFIG).is_file():
        from calql.runs.artifact import load_policy
        from calql.system.run_config import read_config

        task, policy = read_config(folder)["task"], load_policy(folder, arm=options.arm, trust=options.trust)
        written = render(task, options.out, policy, options.seed)
    else:
        written = render(options.what, options.out, None, options.seed)
    print(f"film: {written}")
    return 0
