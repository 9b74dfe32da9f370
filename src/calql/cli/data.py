"""`calql data`: look at logged data."""

from __future__ import annotations

from rich.console import Console

from calql.data import describe, load, render
from calql.errors import UserError


def inspect(file: str) -> int:
    """Print what FILE (.hdf5, .npz or minari:ID) holds, and what is wrong with it.

    Bad values are listed rather than refused; only a file that cannot be read at all is an error.
    """
    found: list[UserError] = []
    dataset = load(file, on_problem=found.append)
    Console(soft_wrap=True).print(render(describe(dataset, [_sentence(problem) for problem in found])))
    return 0


def _sentence(problem: UserError) -> str:
    text = f"{problem.what}; {problem.mend}." if problem.mend else f"{problem.what}."
    return text[0].upper() + text[1:]
