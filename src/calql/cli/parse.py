"""The command line, parsed once by tyro: the words of each option, which become values by the option's own type.

What was not given is not there, so that a command knows what its user set and what comes from elsewhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import make_dataclass
from typing import Annotated, Any, TypeVar

import tyro

from calql.cli.help import Group, show_help, slot
from calql.system.errors import UserError, unknown
from calql.system.options import ANY, bare, hints_of, ranges_of, read

Options = TypeVar("Options")
Action = TypeVar("Action")
Words = Mapping[str, Any]  # option -> its words; of a flag, whether it is on

HELP = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(aliases=("-h",))]


def parse(kind: type[Options], words: Sequence[str], *, command: str) -> Options:
    """Fill a dataclass from the command line, or show what it may be filled with and exit."""
    found = read_words([kind], words, command=command)
    if "help" in found:
        show_help([Group("", kind)], command, str(kind.__doc__))
    return made(kind, found, command=command)


def subcommand(
    group: str, words: Sequence[str], actions: Mapping[str, tuple[type[Any], Action]], usage: str
) -> tuple[type[Any], Action] | None:
    """What the first word names among the commands of a group; None where help was asked for, which is shown."""
    if not words or words[0] in ("-h", "--help"):
        lines = [f"  {name:<10} {_summary(options)}" for name, (options, _) in actions.items()]
        more = f"calql {group} COMMAND --help says more."
        print("\n".join([f"usage: calql {group} COMMAND {usage}", "", *lines, "", more]))
        return None
    if words[0] not in actions:
        raise unknown("command", words[0], actions, where=f"calql {group}")
    return actions[words[0]]


def _summary(options: type[Any]) -> str:
    """The first sentence of what a command says of itself, as a line."""
    sentence = " ".join(str(options.__doc__).split()).partition(". ")[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:]


def read_words(kinds: Iterable[type[Any]], words: Sequence[str], *, command: str) -> dict[str, Any]:
    """What was typed for the options of all these dataclasses; an unknown option is told with its nearest."""
    hints = {name: hint for kind in kinds for name, hint in hints_of(kind).items()}
    _require_once(words, hints, command)
    kind = make_dataclass("Words", [*((name, slot(hint), None) for name, hint in hints.items()), ("help", HELP, False)])
    found: Any
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured), contextlib.redirect_stdout(captured):  # no terminal: no colours
            found, rest = tyro.cli(kind, args=list(words), add_help=False, return_unknown_args=True)
    except SystemExit:
        raise UserError(
            _unboxed(captured.getvalue()), where=f"calql {command}", mend=f"see calql {command} --help"
        ) from None
    for word in rest:
        raise _unknown(word, hints, command)
    given = {name: value for name, value in vars(found).items() if value is not None}
    return given if given.pop("help") is False else {"help": True, **given}


def made(kind: type[Options], words: Words, *, command: str) -> Options:
    """The dataclass with what was typed for it."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    for field in fields:
        if field.default is field.default_factory is dataclasses.MISSING and not words.get(field.name):
            mend = f"give it before the options; see calql {command} --help"
            raise UserError(f"no {field.name.replace('_', ' ')} given", where=f"calql {command}", mend=mend)
    return kind(**values(kind, words))


def values(kind: type[Any], words: Words) -> dict[str, Any]:
    """What was typed for the options of one dataclass, as values of their types."""
    ranges = ranges_of(kind)
    given = {name: hint for name, hint in hints_of(kind).items() if name in words}
    return {name: read(name, words[name], hint, ranges.get(name, ANY)) for name, hint in given.items()}


def _require_once(words: Sequence[str], hints: Mapping[str, Any], command: str) -> None:
    """Of an option that takes any number of words, those of the last time alone would count, without a word."""
    for name, hint in hints.items():
        option = f"--{name.replace('_', '-')}"
        times = sum(word.partition("=")[0].replace("_", "-") == option for word in words)
        if times > 1 and typing.get_args(bare(hint)[0])[1:] == (Ellipsis,):
            mend = f"give all that belongs to it at once: {option} ONE ANOTHER"
            raise UserError(f"{option} is given {times} times", where=f"calql {command}", mend=mend)


def _unknown(word: str, known: Iterable[str], command: str) -> UserError:
    """An option that there is not, or a word that belongs to none."""
    if word.startswith("-"):
        name = word.lstrip("-").partition("=")[0].replace("_", "-")
        names = {"help", *(each.replace("_", "-") for each in known)}
        return unknown("option", name, names, where=f"calql {command}")
    return UserError(
        f"'{word}' belongs to no option", where=f"calql {command}", mend=f"leave it out; see calql {command} --help"
    )


def _unboxed(text: str) -> str:
    """What tyro says under its title; where it is not shown to a terminal, its box is a line of dashes."""
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(line for line in lines[1:] if line.strip("-")).rstrip(".") or "the options cannot be read"
