"""`policy/` of a run folder: its policies in words and arrays, all that acting needs.

The description names the file of arrays by their checksum, so the two always belong together: new arrays are written
first, then the description takes its name in one step, then the arrays before them go. A kill leaves a whole policy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.engine.checkpoint import as_disk_error
from calql.methods import make_method, method_entry
from calql.methods.base import Method, Policy
from calql.networks import Spec
from calql.results.arms import Member
from calql.runs.spaces import ActionSpace, action_space
from calql.system.archives import read_archive
from calql.system.errors import UserError
from calql.system.files import written_whole
from calql.system.layout import Layout
from calql.system.run_config import options_from, read_object
from calql.system.run_files import PARTIAL

FORMAT = 1
DESCRIPTION, ARRAYS = "policy.json", "arrays-{}.npz"
MEND = "copy it again, or write it anew with a checkpoint of its run"
KINDS = {
    "format": int, "method": str, "options": dict, "seeds": list, "arms": list, "phase": str, "observation": dict,
    "action": dict, "arrays": str, "checksums": list,
}  # fmt: skip

Arrays = dict[str, NDArray[Any]]
Choose = Callable[[Sequence[Member]], Sequence[Member]]  # which of those that there are to read


@dataclass(frozen=True)
class Policies:
    """The policies of a run, one a seed (of a sweep, one a seed of each arm), and what it takes to act with them."""

    method: Method
    spec: Spec
    action_space: ActionSpace  # to whose bounds the policy's [-1, 1] are mapped, or whose choices it makes
    of_member: Mapping[Member, Policy]  # those that were asked for, on the host
    description: Mapping[str, Any]  # all that was written down about them


def write_policies(folder: Path, description: Mapping[str, Any], policies: Policy) -> None:
    """Put policies [member, ...] into the folder, whole or not at all, in the place of those before."""
    places = range(len(members_of(description["seeds"], description["arms"])))
    parts = [_named(jax.tree.map(lambda leaf, i=i: leaf[i], policies)) for i in places]
    checksums = [_checksum(part) for part in parts]
    name = ARRAYS.format(hashlib.sha256("".join(checksums).encode()).hexdigest()[:12])
    text = json.dumps({**description, "arrays": name, "checksums": checksums}, indent=2, default=str) + "\n"
    try:
        folder.mkdir(exist_ok=True)
        with written_whole(folder / name, aside=folder / f"arrays{PARTIAL}") as file:
            arrays = {f"{place}/{leaf}": array for place in places for leaf, array in parts[place].items()}
            np.savez(file, **arrays)
        with written_whole(folder / DESCRIPTION, aside=folder / f"description{PARTIAL}") as file:
            file.write(text.encode())
        for old in folder.glob(ARRAYS.format("*")):
            if old.name != name:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise as_disk_error(error, folder) from error


def read_policies(folder: Path, choose: Choose = tuple) -> Policies:
    """The chosen policies (all by default); no more than theirs is read."""
    while True:
        found = _description(folder)
        try:
            return _filled(folder, found, choose)
        except FileNotFoundError:  # a run that goes on has written others meanwhile
            if _description(folder)["arrays"] == found["arrays"]:
                raise UserError(f"has no {found['arrays']}", where=str(folder), mend=MEND) from None


def _description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    found = read_object(path)
    if found.get("format") != FORMAT:
        raise UserError(
            f"is of format {found.get('format')}, and this version reads {FORMAT}",
            where=str(path),
            mend="use the version of calql that wrote it",
        )
    for name, kind in KINDS.items():
        if not isinstance(found.get(name), kind):
            raise UserError(f"has no '{name}', or not as it is written", where=str(path), mend=MEND)
    if not found["seeds"] or any(type(seed) is not int for seed in found["seeds"]):
        raise UserError("has no seeds", where=str(path), mend=MEND)
    if Path(found["arrays"]).name != found["arrays"]:
        raise UserError("names arrays outside its folder", where=str(path), mend=MEND)
    return found


def members_of(seeds: Sequence[int], arms: Sequence[str]) -> list[Member]:
    """In the order of their arrays: seeds, or the seeds of the first arm, of the next one, and so on."""
    return [(arm, seed) for arm in arms for seed in seeds] if arms else list(seeds)


def _filled(folder: Path, found: Mapping[str, Any], choose: Choose) -> Policies:
    path, members = folder / DESCRIPTION, members_of(found["seeds"], found["arms"])
    chosen = choose(members)
    entry = method_entry(found["method"])
    options = options_from(entry.options, "options", found, folder, DESCRIPTION)
    try:
        acted = action_space(found["action"])
        spec = _spec(found["observation"], acted)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise UserError(f"has no spaces that make sense ({error!r})", where=str(path), mend=MEND) from None
    made = make_method(found["method"], options, discrete=spec.discrete)
    method, like = structure(made, spec, online=found["phase"] == "online")
    parts = _read(folder / found["arrays"], [members.index(member) for member in chosen], found["checksums"])
    of_member = {whose: _fitted(part, like, folder, found) for whose, part in zip(chosen, parts, strict=True)}
    return Policies(method, spec, acted, of_member, found)


def structure(made: Method, spec: Spec, *, online: bool) -> tuple[Method, Policy]:
    """The method as it acts in this phase, and a policy of shapes alone: no parameter is computed."""
    acting: list[Method] = []

    def fresh() -> Policy:
        state = made.init(jax.random.key(0), spec)
        method, state = made.switch(state) if online else (made, state)
        acting.append(method)
        return method.policy(state)

    shapes = jax.eval_shape(fresh)
    return acting[0], shapes


def _spec(observation: Mapping[str, Any], acted: ActionSpace) -> Spec:
    discrete = isinstance(acted, spaces.Discrete)
    layout = Layout.from_words(observation["parts"]) if observation.get("parts") else None
    shape = tuple(int(length) for length in observation["shape"])
    if layout is not None and layout.row_shape != shape:
        raise ValueError(f"parts of {layout} are no observation of shape {shape}")
    return Spec(
        observation_shape=shape,
        action_dim=int(acted.n if isinstance(acted, spaces.Discrete) else acted.shape[0]),
        discrete=discrete,
        image=observation["dtype"] == "uint8" and not (layout is not None and layout.packed),
        layout=layout,
        mean=tuple(float(x) for x in observation["mean"]),
        std=tuple(float(x) for x in observation["std"]),
    )


def _read(path: Path, places: Sequence[int], checksums: Sequence[Any]) -> list[Arrays]:
    """The arrays of some policies by name, those of each compared with their checksum."""
    parts: dict[str, Arrays] = {str(place): {} for place in places}
    arrays = read_archive(path, lambda names: [n for n in names if n.partition("/")[0] in parts], mend=MEND)
    for name, array in arrays.items():
        whose, _, leaf = name.partition("/")
        parts[whose][leaf] = array
    for place in places:
        if [_checksum(parts[str(place)])] != list(checksums[place : place + 1]):
            raise UserError(f"holds other arrays than {DESCRIPTION} describes", where=str(path), mend=MEND)
    return [parts[str(place)] for place in places]


def _fitted(part: Arrays, like: Policy, folder: Path, found: Mapping[str, Any]) -> Policy:
    """The policy `like`, its leaves from arrays of the same names and shapes."""
    shapes = _named(like)
    for name in (*shapes, *part):
        array, shape = part.get(name), shapes.get(name)
        if array is None or shape is None or array.shape != shape.shape or array.dtype != shape.dtype:
            versions = found.get("versions")
            wrote = versions.get("calql", "?") if isinstance(versions, dict) else "?"
            raise UserError(
                f"does not fit this version of the method '{found['method']}' ('{name}')",
                where=str(folder),
                mend=f"use the version of calql that wrote it ({wrote})",
            )
    return jax.tree.unflatten(jax.tree.structure(like), [part[name] for name in shapes])


def _named(policy: Policy) -> dict[str, Any]:
    """Its leaves by their place in it, in order."""
    leaves = jax.tree_util.tree_leaves_with_path(policy)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _checksum(part: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(part):
        array = np.ascontiguousarray(part[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()
