"""A policy as StableHLO, by `jax.export`: for whoever has JAX, or another compiler that reads it."""

from __future__ import annotations

import jax
from jax import export

from calql.runs.export.acting import Acting
from calql.system.extras import extra

PLATFORMS = ("cpu", "cuda", "tpu")


def as_stablehlo(acting: Acting) -> bytes:
    """The bytes of the file; `jax.export.deserialize` reads them."""
    extra("flatbuffers", "--to stablehlo")  # JAX writes and reads the file by it, and does not bring it
    return bytes(export.export(jax.jit(acting.function), platforms=PLATFORMS)(*acting.like).serialize())
