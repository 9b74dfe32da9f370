"""Where versions of JAX differ in what they trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

# For `jax.jit(inline=...)`: the function's operations become those of its caller. From 0.11 on True says so too late.
INLINED: Any = jax.Inline.JAX_EARLY if hasattr(jax, "Inline") else True


def loop_inputs(scan: Mapping[str, Any]) -> tuple[int, int]:
    """Of the parameters of a scan: how many inputs all its rounds share, and how many are carried on."""
    if "num_consts" in scan:
        return scan["num_consts"], scan["num_carry"]
    shared, carried, _ = (len(list(part)) for part in scan["ft_in"].unpack())
    return shared, carried
