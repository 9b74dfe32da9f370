"""Which cells a claim or a figure is about."""

from __future__ import annotations

from collections.abc import Callable

from calql.experiments.analysis.evaluations import Result

Choose = Callable[[Result], bool]


def everything(_: Result) -> bool:
    return True


def arm(method: str, *variants: str) -> Choose:
    """A method in one of some variants; as it is where none is named."""
    return lambda result: result.method == method and result.variant in (variants or ("",))


def of_methods(*methods: str) -> Choose:
    """Some methods, in all their variants."""
    return lambda result: result.method in methods


def of_variants(*starts: str) -> Choose:
    """All methods in the variants whose names begin so."""
    return lambda result: result.variant.startswith(starts)


def fine_tuned(result: Result) -> bool:
    return result.run.online_steps > 0
