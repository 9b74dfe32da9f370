"""Stored policies as NumPy functions: the layouts of D4RL's, Stable-Baselines3's and the ant's weights."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.system.errors import UserError

Array = NDArray[np.float32]
Layer = tuple[Array, Array]  # weight [in, out], bias [out]

LOG_STD_RANGE = (-20.0, 2.0)


@dataclass(frozen=True)
class StoredPolicy:
    """A Gaussian (or deterministic) policy of an MLP; callable on one observation or on a batch."""

    hidden: tuple[Layer, ...]
    mean: Layer
    log_std: Layer | Array | None  # a head, one vector for all states, or none: deterministic
    activation: str  # "relu" or "tanh"
    squashed: bool  # tanh after sampling

    @property
    def action_size(self) -> int:
        return int(self.mean[1].shape[0])

    def features(self, observation: NDArray[Any]) -> Array:
        value = np.asarray(observation, np.float32)
        for weight, bias in self.hidden:
            value = value @ weight + bias
            value = np.maximum(value, 0.0) if self.activation == "relu" else np.tanh(value)
        return value

    def mode(self, observation: NDArray[Any]) -> Array:
        """The most likely action, in [-1, 1]."""
        weight, bias = self.mean
        return self._bounded(self.features(observation) @ weight + bias)

    def sample(self, observation: NDArray[Any], rng: np.random.Generator) -> Array:
        """An action drawn from the policy, in [-1, 1]."""
        features = self.features(observation)
        weight, bias = self.mean
        action = features @ weight + bias
        if self.log_std is not None:
            action = action + np.exp(self._log_std(features)) * rng.standard_normal(action.shape, np.float32)
        return self._bounded(action)

    def _log_std(self, features: Array) -> Array:
        if isinstance(self.log_std, tuple):
            weight, bias = self.log_std
            return np.clip(features @ weight + bias, *LOG_STD_RANGE)
        assert self.log_std is not None
        return self.log_std

    def _bounded(self, action: Array) -> Array:
        return np.tanh(action) if self.squashed else np.clip(action, -1.0, 1.0)


def load_policy(path: Path | str) -> StoredPolicy:
    """Read a policy's .npz; its arrays' names tell the layout."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, zipfile.BadZipFile) as problem:
        raise UserError(f"is not a readable .npz policy ({problem})", where=str(path)) from None
    try:
        if "actor_mu_weight" in arrays:
            return _stable_baselines(arrays)
        return _d4rl(arrays)
    except KeyError as problem:
        raise UserError(f"holds no array {problem}, so it is no known policy layout", where=str(path)) from None


def _stable_baselines(arrays: Mapping[str, NDArray[Any]]) -> StoredPolicy:
    names = sorted(name for name in arrays if name.startswith("actor_latent_pi_") and name.endswith("_weight"))
    return StoredPolicy(
        hidden=tuple(_layer(arrays, name.removesuffix("_weight")) for name in names),
        mean=_layer(arrays, "actor_mu"),
        log_std=_layer(arrays, "actor_log_std"),
        activation="relu",
        squashed=True,
    )


def _d4rl(arrays: Mapping[str, NDArray[Any]]) -> StoredPolicy:
    """rlkit's names. Where a constant `log_std` is stored, the head beside it was never used."""
    names = sorted(name for name in arrays if name.startswith("fc") and name.endswith("_weight"))
    kind = str(arrays.get("output_distribution", "tanh_gaussian"))
    spread: Layer | Array | None = None
    if "log_std" in arrays:
        spread = np.asarray(arrays["log_std"], np.float32)
    elif kind != "deterministic":
        spread = _layer(arrays, "last_fc_log_std")
    return StoredPolicy(
        hidden=tuple(_layer(arrays, name.removesuffix("_weight")) for name in names),
        mean=_layer(arrays, "last_fc"),
        log_std=spread,
        activation=str(arrays.get("nonlinearity", "relu")),
        squashed=kind != "gaussian",
    )


def _layer(arrays: Mapping[str, NDArray[Any]], name: str) -> Layer:
    weight = np.ascontiguousarray(np.asarray(arrays[f"{name}_weight"], np.float32).T)
    return weight, np.asarray(arrays[f"{name}_bias"], np.float32)
