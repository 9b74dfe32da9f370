"""Tables on a terminal, and without the blanks that fill their lines where another program reads them."""

from __future__ import annotations

from rich.console import Console, RenderableType


def print_trimmed(shown: RenderableType, console: Console) -> None:
    """As it is on a terminal; elsewhere no line ends in blanks."""
    if console.is_terminal:
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
