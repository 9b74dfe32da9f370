"""What `--vary NAME=a,b,c` asks for: one arm for each value, which train beside each other as one program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from calql.engine.plan import Arm
from calql.methods import make_method
from calql.results.arms import arm_name, split_vary
from calql.runs.request import Choice, value_like
from calql.system.errors import UserError, unknown

Vary = Mapping[str, Sequence[Any]]  # one option, and its values


def as_text(vary: Vary | None) -> str | None:
    """As the command line would have it."""
    if vary is None:
        return None
    if len(vary) != 1:
        raise UserError(f"vary names {len(vary)} options", mend="give one, for example {'calibrate': (True, False)}")
    (name, values), *_ = vary.items()
    return f"{name}={','.join(str(value).lower() for value in values)}"


def require_known(choice: Choice, options: Any) -> None:
    """Refuse `--vary` of an option that there is not; whether it can be varied depends on the actions."""
    if choice.vary is None:
        return
    name, _ = split_vary(choice.vary)
    known = {field.name for field in dataclasses.fields(options)}
    if name not in known:
        raise unknown("option to vary", name, known, where=f"method {choice.method}")


def arms_of(choice: Choice, options: Any, *, discrete: bool = False) -> tuple[Arm, ...]:
    """The arms, none without `--vary`; refuses an option of which one program cannot hold several values."""
    if choice.vary is None:
        return ()
    name, texts = split_vary(choice.vary)
    known = {field.name for field in dataclasses.fields(options)}
    method = make_method(choice.method, options, discrete=discrete)
    if name not in method.varies:
        can = ", ".join(method.varies) or "none"
        if name not in known:
            raise unknown("option to vary", name, method.varies or known, where=f"method {choice.method}")
        raise UserError(
            f"--vary {name}: the arms of a sweep are one program, which cannot differ in it",
            where=f"method {choice.method}",
            mend=f"train a run for each value; these can be varied: {can}",
        )
    values = [_value(getattr(options, name), name, text) for text in texts]
    if len(values) < 2 or len(set(values)) < len(values):
        raise UserError(f"--vary {choice.vary}", mend="give at least two values, each once")
    return tuple(
        Arm(
            arm_name(name, text),
            make_method(choice.method, dataclasses.replace(options, **{name: value}), discrete=discrete),
        )
        for text, value in zip(texts, values, strict=True)
    )


def _value(usual: Any, name: str, text: str) -> Any:
    try:
        return value_like(usual, name, text)
    except UserError as error:
        raise UserError(f"--vary {name}={text}", mend=error.mend) from None
