"""calql export RUN --to FORMAT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from calql.cli.parse import parse
from calql.runs.export import numpy_policy
from calql.runs.export.export import Format, export_policy
from calql.system.errors import shown
from calql.system.options import Checked


@dataclass(frozen=True)
class ExportOptions(Checked):
    """Write the policy of a run as one file that other programs act with."""

    run: Annotated[str, tyro.conf.Positional]
    """The run folder, or its folder `policy` alone."""
    to: Format = "onnx"
    """What to write: onnx (ONNX Runtime and others), stablehlo (JAX), npz (plain NumPy)."""
    seed: str = "best"
    """Number of a seed, or best: the highest score in its last evaluation."""
    arm: str | None = None
    """Of a sweep: the arm (default: the best of all with --seed best)."""
    out: str | None = None
    """The file to write (default: policy.onnx, policy.stablehlo or policy.npz, here)."""


def run(command: str, words: Sequence[str]) -> int:
    options = parse(ExportOptions, words, command=command)
    written = export_policy(options.run, options.to, options.out, seed=options.seed, arm=options.arm)
    about = written.description
    inputs = ", ".join(f"{port['name']} {list(port['shape'])}" for port in about["inputs"])
    for line in (
        f"policy: {written.path} ({about['method']}, {_seed(about)})",
        f"inputs: {inputs}",
        f"checked: differs from ours by at most {written.difference:.1g}",
        f"sha256: {written.sha256}",
        *([f"act with it: {Path(numpy_policy.__file__)} (needs NumPy alone)"] if options.to == "npz" else []),
    ):
        print(shown(line))
    return 0


def _seed(about: Mapping[str, Any]) -> str:
    return str(about["chosen"]) if "seed" in str(about["chosen"]) else f"seed {about['seed']}, {about['chosen']}"
