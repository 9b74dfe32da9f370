"""Help by tyro: options in groups, each with its text from the source, its value and where that comes from."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, NoReturn

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from calql.system.options import bare, hints_of

KINDS = {int: "INT", float: "FLOAT", str: "TEXT"}


@dataclass(frozen=True)
class Group:
    """Options of one dataclass under a title, or some of them; with values and origins where these are known."""

    title: str
    kind: type[Any]
    names: Sequence[str] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)


def show_help(groups: Sequence[Group], command: str, description: str) -> NoReturn:
    """Print it and exit. Groups of one title are one."""
    titled: dict[str, list[Any]] = {}
    for group in groups:
        titled.setdefault(group.title, []).extend(_described(group))
    parts: list[Any] = titled.pop("", [])
    for number, (title, options) in enumerate(titled.items()):
        inner = make_dataclass("Options", options)
        parts.append((f"group_{number}", Annotated[inner, tyro.conf.arg(name=title)], field(default_factory=inner)))
    tyro.cli(
        make_dataclass("Help", parts),
        args=["--help"],
        prog=f"calql {command}",
        description=textwrap.fill(" ".join(description.split()), 80, initial_indent=" ", subsequent_indent=" "),
        config=(tyro.conf.OmitArgPrefixes,),
    )
    raise SystemExit(0)


def in_words(value: Any) -> str:
    """A value as it would be typed, without the words that stand for on and off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _described(group: Group) -> list[Any]:
    """Its options as fields for tyro."""
    hints, said = hints_of(group.kind), documented(group.kind)
    usual = {each.name: each.default for each in fields(group.kind)}
    found = []
    for name in group.names or hints:
        value = group.values.get(name, usual[name])
        hint = _hint(value, group.origins.get(name, "default"))
        marks = [tyro.conf.arg(help=said.get(name, ""), help_behavior_hint=hint)]
        if value is False and not hint:  # off as ever: one spelling will do
            marks.append(tyro.conf.FlagCreatePairsOff)
        kind: Any = Annotated[(slot(hints[name], _metavar(name, hints[name])), *marks)]
        found.append((name, kind, tyro.MISSING if value is MISSING else None))
    return found


def _hint(value: Any, origin: str) -> str:
    """Nothing where nothing is set, nor 'default: default': the option's text says what then holds."""
    unset = (
        value is None or value is MISSING or value == () or (value is False and origin == "default") or value == origin
    )
    return "" if unset else f"({origin}: {in_words(value)})"


def slot(hint: Any, metavar: str = "") -> Any:
    """An option as tyro is told of it: a flag, one word, or any number of words for a tuple; None if not given."""
    plain, marks = bare(hint)
    if plain is bool:
        return Annotated[(bool | None, tyro.conf.DisallowNone, *marks)]
    spec: PrimitiveConstructorSpec[Any] = PrimitiveConstructorSpec(
        nargs="*" if typing.get_origin(plain) is tuple else 1,
        metavar=metavar,
        instance_from_str=list,
        is_instance=lambda _: True,
        str_from_instance=lambda value: [str(value)],
    )
    return Annotated[(Any, spec, *marks)]


def _metavar(name: str, hint: Any) -> str:
    plain, marks = bare(hint)
    if tyro.conf.Positional in marks:
        return name.upper()
    origin, inner = typing.get_origin(plain), typing.get_args(plain)
    if origin is Literal:
        return "{" + ",".join(map(str, inner)) + "}"
    if origin is tuple:
        each = KINDS.get(inner[0], "VALUE")
        return f"{each} ..." if inner[-1] is Ellipsis else " ".join([each] * len(inner))
    return KINDS.get(plain, "VALUE")


def documented(kind: type[Any]) -> dict[str, str]:
    """The text under each option in the source of its dataclass and of those it derives from."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        except (OSError, TypeError):  # made while the program runs, or built in
            continue
        for option, text in pairwise(getattr(tree, "body", [])):
            if (
                isinstance(option, ast.AnnAssign)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[ast.unparse(option.target)] = " ".join(str(text.value.value).split())
    return found
