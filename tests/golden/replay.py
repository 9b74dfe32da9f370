"""What authors' own programs computed, replayed: their parameters, batches and draws go in, their next state comes out.

A method is held to its source by one file here: how its options follow from a recording's configuration, how its
state is built from the recorded arrays, and which draw goes by which name. `follow` does the rest.

Recordings are the files in `data`, or in the folder that CALQL_GOLDEN names.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.methods.base import Trained, Transitions
from calql.networks import MLP, draws

FOLDER = Path(os.environ.get("CALQL_GOLDEN") or Path(__file__).parent / "data")
PARAMETERS = 1e-6  # absolute
MOMENTS = 1e-5  # relative to the largest of a leaf
AS_WRITTEN = {"xla_disable_hlo_passes": "fusion,algsimp"}  # which round otherwise than operation by operation

Network = TypeVar("Network")


class Recording:
    """One file: arrays by name, and the configuration they came from."""

    def __init__(self, path: Path) -> None:
        self.name, self.arrays = path.stem, np.load(path, allow_pickle=False)

    @cached_property
    def config(self) -> dict[str, Any]:
        return json.loads(str(self.arrays["config"]))

    def __call__(self, name: str) -> jax.Array:
        return jnp.asarray(self.arrays[name])

    def __contains__(self, name: str) -> bool:
        return name in self.arrays.files

    def under(self, prefix: str) -> dict[str, jax.Array]:
        """Everything recorded under a prefix, by the rest of its name, in the order of the file."""
        return {name[len(prefix) + 1 :]: self(name) for name in self.arrays.files if name.startswith(prefix + "/")}

    def updates(self) -> list[int]:
        """Numbers of the updates that the file holds."""
        found = (re.match(r"after(\d+)/", name) for name in self.arrays.files)
        return sorted({int(match[1]) for match in found if match})


def recordings(*families: str) -> list[Any]:
    """The files of these families: `rlpd` is rlpd.npz and rlpd-*.npz."""
    found = [path for path in sorted(FOLDER.glob("*.npz")) if any(_belongs(path.stem, f) for f in families)]
    missing = pytest.param(None, marks=pytest.mark.skip(reason=f"no recordings of {families} in {FOLDER}"))
    return [pytest.param(Recording(path), id=path.stem) for path in found] or [missing]


def _belongs(stem: str, family: str) -> bool:
    return stem == family or stem.startswith(f"{family}-")


# -- building our state from their arrays -------------------------------------------------------------------------


def affine(kernel: jax.Array, bias: jax.Array, like: eqx.nn.Linear) -> eqx.nn.Linear:
    """A layer of ours from their kernel [..., input, output]."""
    weight = jnp.swapaxes(kernel, -1, -2)
    assert like.bias is not None
    assert (weight.shape, bias.shape) == (like.weight.shape, like.bias.shape)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), like, (weight, bias))


def perceptron(leaves: Mapping[str, jax.Array], like: MLP) -> MLP:
    """A perceptron of ours from layer1, norm1, ..., and `out`, or `mean` beside `log_std`."""
    heads = ["out"] if "out/kernel" in leaves else ["mean", "log_std"]
    heads = [head for head in heads if f"{head}/kernel" in leaves]
    output = [jnp.concatenate([leaves[f"{h}/{kind}"] for h in heads], axis=-1) for kind in ("kernel", "bias")]
    hidden = tuple(
        affine(leaves[f"layer{i}/kernel"], leaves[f"layer{i}/bias"], layer) for i, layer in enumerate(like.hidden, 1)
    )
    norms = tuple(
        eqx.tree_at(lambda n: (n.scale, n.shift), norm, (leaves[f"norm{i}/scale"], leaves[f"norm{i}/bias"]))
        for i, norm in enumerate(like.norms, 1)
    )
    output_layer = affine(output[0], output[1], like.output)
    return eqx.tree_at(lambda m: (m.hidden, m.norms, m.output), like, (hidden, norms, output_layer))


def adam(leaves: Mapping[str, jax.Array], like: Any, build: Callable[[Mapping[str, jax.Array]], Any]) -> Any:
    """Adam's state of ours from `count`, `mu/...` and `nu/...`, whose leaves `build` puts together as parameters."""
    mu, nu = (build({k[3:]: v for k, v in leaves.items() if k.startswith(f"{m}/")}) for m in ("mu", "nu"))
    return like._replace(count=leaves["count"], mu=mu, nu=nu)


def trained(
    recording: Recording, prefix: str, name: str, like: Trained[Any], build: Callable[[Mapping[str, jax.Array]], Any]
) -> Trained[Any]:
    """A network of ours and its Adam, from where a recording keeps both by the network's name."""
    moments = adam(recording.under(f"{prefix}/adam/{name}"), like.adam, build)
    return Trained(build(recording.under(f"{prefix}/{name}")), moments)


def transitions(leaves: Mapping[str, jax.Array], minibatches: int = 1) -> Transitions:
    """A batch [minibatch, row, ...] from columns under the names that authors give them."""
    named = {"states": "observations", "next_states": "next_observations", "mc_returns": "reference"}
    columns = {named.get(name, name): value for name, value in leaves.items()}
    if "masks" in columns:
        columns["terminals"] = 1.0 - columns.pop("masks")
    if "dones" in columns:
        columns["terminals"] = columns.pop("dones")
    columns.setdefault("reference", jnp.full_like(columns["rewards"], -jnp.inf))
    if "next_actions" in columns:
        columns["has_next_action"] = jnp.ones_like(columns["rewards"])
    return Transitions(**jax.tree.map(lambda c: c.reshape(minibatches, -1, *c.shape[1:]), columns))


# -- draws ----------------------------------------------------------------------------------------------------------


class Draws:
    """Recorded draws by our names, each given once and in order."""

    def __init__(self, named: Iterator[tuple[str, jax.Array]]) -> None:
        self.left: dict[str, deque[jax.Array]] = defaultdict(deque)
        for name, values in named:
            self.left[name].append(values)

    def __call__(self, name: str, shape: tuple[int, ...]) -> jax.Array:
        assert self.left[name], f"nothing left that was drawn as {name}"
        return self.left[name].popleft()

    def all(self) -> dict[str, list[jax.Array]]:
        """Every one that is left."""
        return {name: list(values) for name, values in self.left.items()}

    def all_used(self) -> bool:
        return not any(self.left.values())


def drawn(recording: Recording, update: int, named: Callable[[str, jax.Array], tuple[str, jax.Array] | None]) -> Draws:
    """The draws of an update; `named` gives each label our name and its values our layout, or None to leave it out."""
    order = json.loads(str(recording.arrays["draw_order"])).get(str(update), [])
    labels = [(re.sub(r"^\d+_[a-z]+_", "", name.split("/")[-1]), recording(name)) for name in order]
    return Draws(pair for label, values in labels if (pair := named(label, values)) is not None)


def samples_last(values: jax.Array) -> jax.Array:
    """[sample, row, action] as [row, sample, action]."""
    return jnp.swapaxes(values, 0, 1)


# -- replaying ------------------------------------------------------------------------------------------------------


def replayed(update: Callable[[], Network], source: Draws, *, unrolled: bool = True) -> Network:
    """An update with recorded draws, of which it must use every one; `unrolled` where its loops draw."""
    with jax.disable_jit(unrolled), draws.recorded(source):
        result = update()
    assert source.all_used(), {name: len(left) for name, left in source.left.items() if left}
    return result


def replaying(step: Callable[..., tuple[Any, Any]], *, unrolled: bool = True) -> Callable[[Any, Any, Draws], Any]:
    """An update as a function of state, batch and recorded draws: compiled once, and no operation joined to others."""

    @partial(jax.jit, compiler_options=AS_WRITTEN)
    def run(state: Any, batch: Any, given: dict[str, list[jax.Array]]) -> Any:
        source = Draws((name, values) for name, every in given.items() for values in every)
        return replayed(lambda: step(state, batch, jax.random.key(0))[0], source, unrolled=unrolled)

    return lambda state, batch, source: run(state, batch, source.all())


def agree(ours: Any, theirs: Any, at: str) -> None:
    """Parameters, targets and scalars to 1e-6, counts exactly, moments to 1e-5 of the largest in their leaf."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True):
        name = jax.tree_util.keystr(path)
        moments = ".mu" in name or ".nu" in name
        tolerance = MOMENTS * float(jnp.max(jnp.abs(b))) if moments else PARAMETERS
        if jnp.issubdtype(b.dtype, jnp.integer):
            tolerance = 0.0
        worst = float(jnp.max(jnp.abs(a - b)))
        assert worst <= tolerance, f"{at}{name}: {worst:.2e} apart, {tolerance:.2e} allowed"


def follow(
    recording: Recording,
    state: Any,
    updates: list[int],
    *,
    update: Callable[[Any, int], Any],
    recorded_state: Callable[[str], Any],
) -> Any:
    """Our state through these updates, held to the recorded one after each."""
    for number in updates:
        state = update(state, number)
        agree(state, recorded_state(f"after{number}"), f"{recording.name}, after update {number}: ")
    return state
