"""Dictionaries of observations as an environment or a control loop gives them, in the form of the data: by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.system.errors import UserError
from calql.system.layout import Layout, Piece, matching

Env = gymnasium.Env[Any, Any]


class InForm(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Observations as rows of the data: the parts that these have, in their order, packed where there is a camera."""

    def __init__(self, env: Env, form: Layout, keys: Mapping[str, str]) -> None:
        super().__init__(env)
        self._form, self._keys = form, keys
        low, high = (0, 255) if form.cameras else (-np.inf, np.inf)
        kind: Any = np.dtype(form.row_dtype).type
        self.observation_space = spaces.Box(low, high, form.row_shape, kind)

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        seen, info = self.env.reset(**given)
        return rows_of(seen, self._form, self._keys), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(action)
        return rows_of(seen, self._form, self._keys), reward, terminated, truncated, info


def in_form(env: Env, form: Layout | None, name: str = "the environment") -> Env:
    """The environment with observations as the data have them; refused where it lacks a part or has another."""
    space = env.observation_space
    if form is None or isinstance(env, InForm) or (not isinstance(space, spaces.Dict) and not form.packed):
        return env
    if not isinstance(space, spaces.Dict):
        raise UserError(
            f"observations are one array of shape {space.shape}, and those of the data a dictionary of {form}",
            where=name,
            mend="give a Dict observation space with these names",
        )
    parts = _flat(space)
    keys = {piece.name: _key(piece, parts, name) for piece in form.pieces}
    return InForm(env, form, keys)


def _flat(space: spaces.Dict, group: str = "") -> dict[str, spaces.Space[Any]]:
    """The entries by their path, where dictionaries are in dictionaries."""
    found: dict[str, spaces.Space[Any]] = {}
    for key, inner in space.spaces.items():
        found |= _flat(inner, f"{group}{key}/") if isinstance(inner, spaces.Dict) else {f"{group}{key}": inner}
    return found


def _key(piece: Piece, parts: Mapping[str, spaces.Space[Any]], name: str) -> str:
    key = matching(piece.name, list(parts))
    if key is None:
        raise UserError(
            f"observations are a dictionary of {', '.join(parts)}, without '{piece.name}' of the data",
            where=name,
            mend="give it that name there, or choose other parts of the data with --observations",
        )
    space = parts[key]
    right = isinstance(space, spaces.Box) and (space.dtype == np.uint8) == piece.image
    if not right or not _same_shape(piece, space.shape or ()):
        raise UserError(
            f"'{key}' of its observations is {space.dtype} {list(space.shape or ())}, and the data have {piece}",
            where=name,
            mend="wrap the environment or convert the data, so that both see the same (a camera gives uint8 in both)",
        )
    return key


def _same_shape(piece: Piece, shape: tuple[int, ...]) -> bool:
    if not piece.image:
        return int(np.prod(shape)) == piece.size
    return shape == piece.shape or (*shape, 1) == piece.shape


# -- rows ---------------------------------------------------------------------------------------------------------


def rows_of(seen: Mapping[str, Any], form: Layout, keys: Mapping[str, str] | None = None) -> NDArray[Any]:
    """One dictionary as a row, or arrays with a leading axis as rows; ValueError in words where it does not fit."""
    flat = _entries(seen)
    keys = keys or {piece.name: _entry(piece.name, flat) for piece in form.pieces}
    parts = {}
    for piece in form.pieces:
        value = np.asarray(flat[keys[piece.name]])
        parts[piece.name] = value if piece.image else _as_vector(value, piece)
    return form.packed_rows(parts)


def stacked(seen: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Dictionaries of several episodes as one with a leading axis."""
    flat = [_entries(each) for each in seen]
    return {key: np.stack([np.asarray(each[key]) for each in flat]) for key in flat[0]}


def _entries(seen: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in seen.items():
        found |= _entries(value, f"{group}{key}/") if isinstance(value, Mapping) else {f"{group}{key}": value}
    return found


def _entry(name: str, flat: Mapping[str, Any]) -> str:
    key = matching(name, list(flat))
    if key is None:
        raise ValueError(f"it has no '{name}' (but {', '.join(flat) or 'nothing'})")
    return key


def _as_vector(value: NDArray[Any], piece: Piece) -> NDArray[Any]:
    """Numbers of any form as [..., number]: the data hold them so."""
    if value.shape[-1:] == piece.shape:
        return value
    if value.size == piece.size:
        return value.reshape(piece.shape)
    leading = len(value) if value.ndim else 0
    if leading and value.size == leading * piece.size:
        return value.reshape(leading, *piece.shape)
    raise ValueError(f"'{piece.name}' has shape {value.shape}, not {piece.shape}")
