"""calql watch RUN..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calql.cli.parse import parse
from calql.results.live import attend
from calql.results.runs import read_runs
from calql.results.serve import Server
from calql.results.watched import Watched
from calql.system.errors import UserError
from calql.system.options import Checked, Port
from calql.system.serve import address, listening, new_token


@dataclass(frozen=True)
class WatchOptions(Checked):
    """Show the report of runs that go on in the browser, brought up to date as rows arrive; ends when they do."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Run folders; several are compared on one page."""
    port: Port = 0
    """The port of this machine to listen on (0: any that is free)."""


def run(command: str, words: Sequence[str]) -> int:
    options = parse(WatchOptions, words, command=command)
    folders = [Path(name) for name in options.runs]
    for folder in folders:
        read_runs(folder)  # what is wrong with a folder is said at once
    watched = Watched(folders)
    if watched.ended:
        mend = "look at them with 'calql report', or start watching while one goes on"
        raise UserError("every run has ended", where=", ".join(options.runs), mend=mend)
    listener, token = listening(options.port), new_token()
    print(f"live: {address(listener, token)}  (Ctrl-C ends this page, not the run)", flush=True)
    attend(Server(listener, watched, token), lambda: watched.ended)
    print("every run has ended; write the report with 'calql report'")
    return 0
