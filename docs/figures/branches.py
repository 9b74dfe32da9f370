"""One run gone on with in several ways, to see which of them a seed diverges in (docs/decisions/011-divergence.md).

    python docs/figures/branches.py branch RUN FOLDER lag=0 precision=tf32     # a copy of a run with other options
    python docs/figures/branches.py resume FOLDER [rounded] [WORD ...]         # calql train --resume FOLDER WORD ...
    python docs/figures/branches.py table FOLDER ...                           # what became of each, as Markdown

`calql train --resume` refuses another precision or lag: it would be another run, and that is what is asked for here.
`rounded` rounds the inputs of networks to bfloat16, as bfloat16 did until they were kept with all their digits.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from calql.networks import mlp, products
from calql.networks.kernels import fused
from calql.results.divergence import stories
from calql.results.metrics import read_rows
from calql.system.run_files import CONFIG, METRICS

LAST = 5  # evaluations


def branch(run: Path, folder: Path, options: Sequence[str]) -> None:
    shutil.copytree(run, folder)
    config = json.loads((folder / CONFIG).read_text())
    for option in options:
        name, text = option.split("=")
        group = config["run"] if name in config["run"] else config["options"]
        group[name] = type(group[name])(json.loads(text) if text[0].isdigit() else text)
    (folder / CONFIG).write_text(json.dumps(config, indent=2))


def resume(folder: Path, words: Sequence[str]) -> int:
    from calql.__main__ import main

    given = ["train", "--resume", str(folder), *(word for word in words if word != "rounded")]
    if "rounded" not in words:
        return main(given)
    with rounded_inputs():
        return main(given)


@contextmanager
def rounded_inputs() -> Iterator[None]:
    """First layers see what bfloat16 keeps of inputs and weights; so do the fused kernels."""
    affine = mlp._affine

    def first(layer: Any, x: jax.Array, *rest: Any, **more: Any) -> jax.Array:
        is_input = x.dtype == jnp.float32 and rest[:1] == ("float32",)
        return (
            affine(jax.tree.map(coarse, layer), coarse(x), *rest, **more)
            if is_input
            else affine(layer, x, *rest, **more)
        )

    def halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        high = coarse(x).astype(jnp.bfloat16)
        return high, jnp.zeros_like(high)

    with (
        mock.patch.object(mlp, "_affine", first),
        mock.patch.object(products, "halves", halves),
        mock.patch.object(fused, "halves", halves),
    ):
        yield


@jax.custom_vjp
def coarse(x: jax.Array) -> jax.Array:
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


coarse.defvjp(lambda x: (coarse(x), None), lambda _, gradient: (gradient,))


def table(folders: Sequence[Path]) -> None:
    """What became of each branch, a line each: ranges over its seeds (of each arm) of their last five evaluations."""
    print("| branch | seeds | steps | TD loss | dual weight | average Q | score | alarms |")
    print("|---|---|---|---|---|---|---|---|")
    for folder in folders:
        config, rows = json.loads((folder / CONFIG).read_text()), read_rows(folder / METRICS)
        members: dict[Any, list[dict[str, Any]]] = {}
        for row in rows:
            if row["phase"] == "online" and "td_loss" in row:
                members.setdefault((row.get("arm"), row["seed"]), []).append(row)
        arms = [[row for row in rows if row.get("arm") == arm] for arm in {row.get("arm") for row in rows}]
        steps = [mine[-1]["env_steps"] for mine in members.values()]
        cells = [
            f"{folder.name} ({config['options']['precision']}, lag {config['run']['lag']})",
            str(len(members)),
            f"{min(steps):,}",
            *(over_seeds(members, name) for name in ("td_loss", "alpha_prime", "average_q_batch", "score")),
            str(sum(len(stories(config, arm)) for arm in arms)),
        ]
        print(f"| {' | '.join(cells)} |")


def over_seeds(members: dict[Any, list[dict[str, Any]]], name: str) -> str:
    """The smallest and the largest of the seeds' means over their last evaluations."""
    means = [np.mean([row.get(name, np.nan) for row in mine[-LAST:]]) for mine in members.values()]
    return f"{min(means):.3g} to {max(means):.3g}"


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "branch":
        branch(Path(rest[0]), Path(rest[1]), rest[2:])
    elif verb == "resume":
        sys.exit(resume(Path(rest[0]), rest[1:]))
    else:
        table([Path(name) for name in rest])
