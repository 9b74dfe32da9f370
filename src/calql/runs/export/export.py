"""`calql export`: the policy of one seed of a run as a file that other programs act with."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax

from calql.results.arms import Member
from calql.runs.artifact import policies_of
from calql.runs.export.acting import Acting, acting
from calql.runs.export.choice import BEST, choose
from calql.runs.export.description import describe
from calql.runs.export.graph import Port
from calql.runs.export.numpy_file import as_npz
from calql.runs.export.numpy_policy import Program
from calql.runs.export.onnx_file import as_onnx
from calql.runs.export.stablehlo_file import as_stablehlo
from calql.runs.export.translate import translate
from calql.runs.export.verify import verify
from calql.system.errors import UserError, unknown
from calql.system.files import written_whole

Format = Literal["onnx", "stablehlo", "npz"]
FORMATS: tuple[Format, ...] = ("onnx", "stablehlo", "npz")


@dataclass(frozen=True)
class Exported:
    """A file that was written."""

    path: Path
    description: Mapping[str, Any]
    sha256: str  # of the whole file
    difference: float  # largest, between its actions and ours, over the observations that it was checked on


def export_policy(
    folder: str | Path, to: Format, out: str | Path | None = None, *, seed: str | int = BEST, arm: str | None = None
) -> Exported:
    """Write the policy of a run folder or of a policy folder; of several seeds the best one, or the one named."""
    if to not in FORMATS:
        raise unknown("format", to, FORMATS, where="--to")
    path = Path(out or f"policy.{to}")
    _refuse_existing(path, to)
    picked: list[tuple[Member, str]] = []

    def one(members: Any) -> list[Member]:
        picked[:] = [choose(members, Path(folder), str(seed), arm)]
        return [picked[0][0]]

    policies = policies_of(Path(folder), one)
    member, reason = picked[0]
    program = acting(policies, member)
    inputs, outputs = _ports(program)
    description = describe(policies, member, inputs, outputs, reason, Path(folder))
    content, play = _written(program, to, description)
    difference = verify(policies, member, inputs, play)
    _write(path, content, to, description)
    return Exported(path, description, hashlib.sha256(content).hexdigest(), difference)


Play = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _ports(program: Acting) -> tuple[list[Port], list[Port]]:
    outputs = jax.eval_shape(program.function, *program.like)
    return (
        [Port.of(name, like) for name, like in zip(program.inputs, program.like, strict=True)],
        [Port.of(name, like) for name, like in zip(program.outputs, outputs, strict=True)],
    )


def _written(program: Acting, to: Format, description: Mapping[str, Any]) -> tuple[bytes, Play]:
    """The bytes of the file, and what is in them as a function."""
    if to == "stablehlo":
        content = as_stablehlo(program)
        call = jax.export.deserialize(bytearray(content)).call
        return content, lambda given: dict(zip(program.outputs, call(*given.values()), strict=True))
    graph = translate(program.function, [*program.inputs, *program.outputs], program.like)
    play = Program([vars(node) for node in graph.nodes], graph.constants, program.outputs)
    return (as_onnx if to == "onnx" else as_npz)(graph, description), play


def _write(path: Path, content: bytes, to: Format, description: Mapping[str, Any]) -> None:
    """Whole or not at all; StableHLO has no place for words, so they lie beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if to == "stablehlo":
        words = {**description, "checksum": hashlib.sha256(content).hexdigest()}
        with written_whole(_beside(path)) as file:
            file.write((json.dumps(words, indent=2) + "\n").encode())
    with written_whole(path) as file:
        file.write(content)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _refuse_existing(path: Path, to: Format) -> None:
    """A policy that something acts with is not written over unasked."""
    for each in (path, *([_beside(path)] if to == "stablehlo" else [])):
        if os.path.lexists(each):
            raise UserError("exists already", where=str(each), mend="choose another --out, or remove it")
