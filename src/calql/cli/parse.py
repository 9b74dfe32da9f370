"""Options from dataclasses by tyro, with errors as one line and the nearest name for an unknown option."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from calql.errors import UserError, unknown

Options = TypeVar("Options")


def parse(kind: type[Options], words: Sequence[str], *, command: str, default: Options | None = None) -> Options:
    """Fill a dataclass from the command line; nested dataclasses share one flat set of options."""
    _check_names(kind if default is None else default, words, command)
    flat = tyro.conf.OmitArgPrefixes[kind]  # type: ignore[valid-type]
    kwargs: dict[str, Any] = {} if default is None else {"default": default}
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(flat, args=list(words), prog=f"calql {command}", **kwargs)
    except SystemExit as end:
        if not end.code:
            raise
        raise UserError(
            _one_line(captured.getvalue()), where=f"calql {command}", mend=f"see calql {command} --help"
        ) from None


def peek(words: Sequence[str], name: str) -> str | None:
    """The value of one option, before the rest can be parsed."""
    for index, word in enumerate(words):
        if word == f"--{name}" and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"--{name}="):
            return word.split("=", 1)[1]
    return None


def _check_names(kind: Any, words: Sequence[str], command: str) -> None:
    known = {"help", *_names(kind)}
    for word in words:
        if word.startswith("--"):
            name = word[2:].split("=", 1)[0].replace("_", "-")
            if name not in known and name.removeprefix("no-") not in known:
                raise unknown("option", name, known, where=f"calql {command}")


def _names(kind: Any) -> list[str]:
    """Option names of a dataclass and of those inside it."""
    names = []
    for field in dataclasses.fields(kind):
        inner = getattr(kind, field.name, None) if not isinstance(kind, type) else None
        if inner is None and isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
            inner = field.type
        names += _names(inner) if dataclasses.is_dataclass(inner) else [field.name.replace("_", "-")]
    return names


def _one_line(text: str) -> str:
    """What tyro's box says, without the box."""
    words = re.sub(r"[─│╭╮╰╯]", " ", re.sub(r"\x1b\[[0-9;]*m", "", text))
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    kept = [line for line in lines if not re.match(r"(Parsing error|For full helptext)", line)]
    return " ".join(kept) or "the options cannot be read"
