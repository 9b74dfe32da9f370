"""Act with a policy that `calql export --to npz` wrote, with NumPy and nothing else.

This file needs neither calql nor JAX: copy it next to the policy. The policy is a list of array operations and their
constants; reading one runs no code of its file, whoever wrote it, and an operation that OPERATIONS lacks is refused.

    policy = NumpyPolicy("policy.npz")
    action = policy(observation)          # one observation, or several as [episode, ...]; a dictionary of parts by name
    policy.reset()                        # between episodes
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from math import erf
from typing import Any

import numpy as np
from numpy.lib import format as npy

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

FORMAT = 1
DESCRIPTION, CONSTANT = "description", "constant/"
OBSERVATION = "observation"  # the input, or before a dot and the names of its parts
MASK = "action_mask"  # an input of policies that have to be told what is allowed


def _slice(x: Array, starts: Array, ends: Array, axes: Array, steps: Array | None = None) -> Array:
    cut = [slice(None)] * x.ndim
    for place, axis in enumerate(axes):
        cut[axis] = slice(int(starts[place]), int(ends[place]), None if steps is None else int(steps[place]))
    return x[tuple(cut)]


def _pad(x: Array, ends: Array, filling: Array) -> Array:
    half = len(ends) // 2
    return np.pad(x, list(zip(ends[:half], ends[half:], strict=True)), constant_values=filling)


def _gather_nd(x: Array, places: Array, batch_dims: int) -> Array:
    """One entry along axis 1 of each array of the batch."""
    if batch_dims != 1 or places.shape != (len(x), 1):
        raise ValueError("GatherND in another form than one entry a row")
    return x[np.arange(len(x)), places[:, 0]]


def _erf(x: Array) -> Array:
    return np.vectorize(erf, otypes=[x.dtype])(x)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "Abs": np.abs, "Add": np.add, "And": np.logical_and, "Ceil": np.ceil, "Cos": np.cos, "Equal": np.equal,
    "Erf": _erf, "Exp": np.exp, "Floor": np.floor, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
    "Less": np.less, "LessOrEqual": np.less_equal, "Log": np.log, "MatMul": np.matmul, "Max": np.maximum,
    "Min": np.minimum, "Mul": np.multiply, "Neg": np.negative, "Not": np.logical_not, "Or": np.logical_or,
    "Pow": np.power, "Reciprocal": np.reciprocal, "Sign": np.sign, "Sin": np.sin, "Sqrt": np.sqrt,
    "Sub": np.subtract, "Tanh": np.tanh, "Where": np.where, "Xor": np.logical_xor,
    "ArgMax": lambda x, axis, keepdims: np.argmax(x, axis, keepdims=bool(keepdims)),
    "ArgMin": lambda x, axis, keepdims: np.argmin(x, axis, keepdims=bool(keepdims)),
    "Cast": lambda x, to: x.astype(to),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Div": lambda x, y: x / y if x.dtype.kind == "f" else np.trunc(x / y).astype(x.dtype),
    "Einsum": lambda *parts, equation: np.einsum(equation, *parts),
    "Expand": lambda x, shape: np.broadcast_to(x, shape),
    "Gather": lambda x, places, axis: np.take(x, places, axis),
    "GatherND": _gather_nd,
    "Identity": lambda x: x,
    "Mod": lambda x, y, fmod: np.fmod(x, y),
    "Pad": _pad,
    "ReduceMax": lambda x, axes, keepdims: np.max(x, tuple(axes), keepdims=bool(keepdims)),
    "ReduceMin": lambda x, axes, keepdims: np.min(x, tuple(axes), keepdims=bool(keepdims)),
    "ReduceSum": lambda x, axes, keepdims: np.sum(x, tuple(axes), keepdims=bool(keepdims)),
    "Reshape": lambda x, shape: np.reshape(x, shape),
    "Shape": lambda x, start, end: np.array(x.shape[start:end], np.int64),
    "Sigmoid": lambda x: np.reciprocal(1 + np.exp(-x)),
    "Slice": _slice,
    "Transpose": lambda x, perm: np.transpose(x, perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
}  # fmt: skip


class Program:
    """Operations one after the other: arrays by name in, arrays by name out."""

    def __init__(self, nodes: Sequence[Any], constants: Mapping[str, Array], outputs: Sequence[str]) -> None:
        for node in nodes:
            if node["op"] not in OPERATIONS:
                raise ValueError(f"the policy asks for the operation {node['op']!r}, which this reader does not know")
        self._steps = [(OPERATIONS[n["op"]], n["inputs"], n["output"], n["attributes"]) for n in nodes]
        self._constants, self._outputs = constants, outputs

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        values = {**self._constants, **inputs}
        for operation, names, output, attributes in self._steps:
            values[output] = operation(*[values[name] for name in names], **attributes)
        return {name: values[name] for name in self._outputs}


class NumpyPolicy:
    """Call it with each observation of an episode, and `reset()` it between episodes."""

    def __init__(self, path: Any) -> None:
        arrays = _read(path)
        self.description = json.loads(bytes(arrays.pop(DESCRIPTION)))
        if self.description.get("format") != FORMAT:
            raise ValueError(f"{path}: is of format {self.description.get('format')}, and this reader reads {FORMAT}")
        if checksum(self.description, arrays) != self.description["checksum"]:
            raise ValueError(f"{path}: its content is not what its checksum says; copy it again")
        constants = {name.removeprefix(CONSTANT): array for name, array in arrays.items()}
        outputs = [port["name"] for port in self.description["outputs"]]
        self._program = Program(self.description["program"], constants, outputs)
        self.reset()

    def reset(self) -> None:
        """A new episode begins."""
        self._timestep = 0
        self._state: Arrays = {}

    def __call__(self, observation: Any, reward: Any = 0.0, mask: Any = None) -> Array:
        """The action in the environment's units.

        The reward of the step before matters to policies that remember, the mask of allowed actions to those that ask.
        """
        seen, single = self._observed(observation)
        count = len(next(iter(seen.values())))
        given = self._inputs(seen, np.broadcast_to(np.asarray(reward, "float32"), count))
        if MASK in given:
            given[MASK] = self._mask(mask, given[MASK].shape)
        found = self._program(given)
        action = found["action"]
        if not np.isfinite(action).all():
            raise ValueError("the policy's action is not a number: it must not reach an actuator")
        self._timestep += 1
        self._state = {name.removeprefix("next_"): found[name] for name in found if name != "action"}
        return action[0] if single else action

    def _observed(self, observation: Any) -> tuple[Arrays, bool]:
        """The observation by the names of the inputs, with a leading axis; whether it came without one."""
        found, single = {}, False
        for port in self.description["inputs"]:
            head, _, part = port["name"].partition(".")
            if head != OBSERVATION:
                continue
            if part and part not in observation:
                raise ValueError(f"the observation has no '{part}'")
            value = np.asarray(observation[part] if part else observation, port["dtype"])
            single = value.ndim == len(port["shape"]) - 1
            found[port["name"]] = value[None] if single else value
            if list(found[port["name"]].shape[1:]) != port["shape"][1:]:
                raise ValueError(f"{part or 'the observation'} has shape {value.shape}, not {port['shape'][1:]}")
        return found, single

    def _mask(self, mask: Any, shape: tuple[int, ...]) -> Array:
        if mask is None:
            raise ValueError("this policy has to be told which actions are allowed: give mask=info['action_mask']")
        return np.broadcast_to(np.asarray(mask, bool), shape)

    def _inputs(self, seen: Arrays, reward: Array) -> Arrays:
        count = len(reward)
        given = {**seen, "previous_reward": reward, **self._state}
        given["timestep"] = np.full(count, self._timestep, np.int32)
        ports = self.description["inputs"]
        empty = {p["name"]: (count, *p["shape"][1:]) for p in ports if p["name"] not in given}
        kinds = {p["name"]: p["dtype"] for p in ports}
        given.update({name: np.zeros(shape, kinds[name]) for name, shape in empty.items()})
        return {name: given[name] for name in kinds}


def checksum(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Of all that the file says and holds, but for the checksum itself."""
    words = {name: value for name, value in description.items() if name != "checksum"}
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Any) -> Arrays:
    """Arrays by name. Nothing is unpickled, and no array is made larger than the file is."""
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError(f"{path}: is compressed, which no exported policy is")
        return {name.removesuffix(".npy"): _array(archive.read(name), path) for name in archive.namelist()}


def _array(raw: bytes, path: Any) -> Array:
    file = io.BytesIO(raw)
    if npy.read_magic(file) != (1, 0):
        raise ValueError(f"{path}: holds an array of an unknown format")
    shape, fortran, kind = npy.read_array_header_1_0(file)
    found = np.frombuffer(raw, kind, offset=file.tell())  # refuses objects
    return found.reshape(shape[::-1]).T if fortran else found.reshape(shape)
