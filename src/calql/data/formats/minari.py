"""Minari datasets, read and written through the library, from and to its local store only."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.data.columns import (
    OnProblem,
    action_column,
    check_finite,
    flag_column,
    observation_column,
    same_length,
    scalar_column,
    stop,
    to_float32,
)
from calql.data.dataset import Bools, Dataset
from calql.data.formats.hdf5 import require_own
from calql.system.errors import UserError, unknown
from calql.system.extras import extra

WHAT = "a Minari dataset"


def read_minari(name: str, *, observation_key: str | None = None, on_problem: OnProblem = stop) -> Dataset:
    """A dataset of the local store, each row with its true next observation.

    `observation_key` picks one entry of dictionary observations; `a+b` joins several, in that order.
    """
    source = f"minari:{name}"
    episodes = [episode for episode in _episodes(name, source) if len(episode) > 0]
    if not episodes:
        raise UserError("holds no episode", where=source, mend="record at least one whole episode")
    observed = [_observations(e.observations, observation_key, source) for e in episodes]
    _check_steps(episodes, observed, source)
    actions = [_plain(e.actions, "actions", source) for e in episodes]
    terminals = [flag_column(e.terminations, "terminations", source) for e in episodes]
    truncated = [flag_column(e.truncations, "truncations", source) for e in episodes]
    unclosed = _close(terminals, truncated)
    dataset = Dataset(
        observations=observation_column(np.concatenate([o[:-1] for o in observed]), "observations", source),
        actions=action_column(np.concatenate(actions), source),
        rewards=_rewards(episodes, source),
        next_observations=observation_column(np.concatenate([o[1:] for o in observed]), "observations", source),
        terminals=np.concatenate(terminals),
        truncated=np.concatenate(truncated),
        source=source,
        notes=_close_note(unclosed),
    )
    for column in ("observations", "actions", "rewards", "next_observations"):
        check_finite(getattr(dataset, column), column, source, on_problem)
    return dataset


def in_minari(name: str) -> bool:
    """Whether the local store holds a dataset of that name; without the library there is no store."""
    try:
        return name in _minari().list_local_datasets()
    except UserError:
        return False


def write_minari(dataset: Dataset, name: str, **about: Any) -> None:
    """Store under a new name, exactly (images too); `about` goes to Minari (env, author, description...)."""
    minari = _minari()
    _check_sequence(dataset, name)
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=np.concatenate([dataset.observations[rows], dataset.next_observations[rows][-1:]]),
            actions=dataset.actions[rows],
            rewards=dataset.rewards[rows],
            terminations=dataset.terminals[rows],
            truncations=dataset.truncated[rows],
        )
        for rows in dataset.episodes()
    ]
    form = {"observation_space": _space(dataset.observations), "action_space": _space(dataset.actions)}
    path = _new_folder(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Minari asks for an author, a description and the like
            minari.create_dataset_from_buffers(name, buffers, **{**form, "jpeg_encoding": False, **about})
    except BaseException as error:
        shutil.rmtree(path, ignore_errors=True)
        if isinstance(error, OSError):
            raise UserError(f"cannot be written ({error})", where=f"minari:{name}") from error
        raise


def _episodes(name: str, source: str) -> list[Any]:
    minari = _minari()
    try:
        for path in (_folder(name) / "data").glob("*.hdf5"):
            require_own(path)
        return list(minari.load_dataset(name, download=False).iterate_episodes())
    except FileNotFoundError as error:
        known = list(minari.list_local_datasets())
        if known:
            raise unknown("local Minari dataset", name, known, where=source) from error
        raise UserError(
            "is not in the local Minari store, which is empty", where=source, mend=f"minari download {name}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise UserError(f"cannot be read ({error})", where=source, mend="download or write it again") from error


def _observations(raw: Any, key: str | None, source: str) -> NDArray[Any]:
    """[step + 1, ...] of one episode."""
    if not isinstance(raw, dict):
        if key is not None:
            raise UserError(
                f"observations have no key '{key}': they are plain arrays",
                where=source,
                mend="leave out '#...'",
            )
        return _plain(raw, "observations", source)
    if key is None:
        shapes = ", ".join(
            f"'{k}' {np.shape(v)[1:] if not isinstance(v, dict) else '(nested)'}" for k, v in raw.items()
        )
        raise UserError(
            f"observations are dictionaries of {shapes}",
            where=source,
            mend=f"choose one as '{source}#{next(iter(raw))}', or several to be joined as "
            f"'{source}#{'+'.join(raw)}', and flatten the environment's the same way",
        )
    parts = [_part(raw, name, source) for name in key.split("+")]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _part(raw: dict[str, Any], key: str, source: str) -> NDArray[Any]:
    if key not in raw:
        raise unknown("observation key", key, raw, where=source)
    return _plain(raw[key], f"observations['{key}']", source)


def _plain(raw: Any, name: str, source: str) -> NDArray[Any]:
    if isinstance(raw, dict | tuple | list):
        raise UserError(f"'{name}' is a {type(raw).__name__}", where=source, mend="only plain arrays can be read")
    return np.asarray(raw)


def _check_steps(episodes: list[Any], observed: list[NDArray[Any]], source: str) -> None:
    for episode, observations in zip(episodes, observed, strict=True):
        steps = len(episode)
        if len(observations) != steps + 1:
            raise UserError(
                f"episode {episode.id} has {steps} rewards and {len(observations)} observations",
                where=source,
                mend="an episode stores one observation more than it has steps",
            )
        counts = {k: len(getattr(episode, k)) for k in ("actions", "terminations", "truncations")}
        same_length(counts, steps, f"{source}, episode {episode.id}")


def _rewards(episodes: Iterable[Any], source: str) -> NDArray[np.float32]:
    rewards = np.concatenate([np.asarray(episode.rewards) for episode in episodes])
    return to_float32(scalar_column(rewards, "rewards", source))


def _close(terminals: list[Bools], truncated: list[Bools]) -> int:
    """Mark the last step of episodes that only stop; return how many there were."""
    unclosed = [i for i, ends in enumerate(terminals) if not (ends[-1] or truncated[i][-1])]
    for i in unclosed:
        truncated[i][-1] = True
    return len(unclosed)


def _close_note(unclosed: int) -> tuple[str, ...]:
    if unclosed == 1:
        return ("1 episode stops without an end and counts as truncated",)
    return (f"{unclosed} episodes stop without an end and count as truncated",) if unclosed else ()


def _check_sequence(dataset: Dataset, name: str) -> None:
    """Minari stores an episode's observations once, as a sequence."""
    inside = np.flatnonzero(~(dataset.terminals | dataset.truncated))
    same = dataset.next_observations[inside] == dataset.observations[inside + 1]
    broken = int((~same.reshape(len(inside), -1).all(axis=1)).sum()) if len(inside) else 0
    if broken:
        raise UserError(
            f"{broken} rows have a next observation that is not the observation of the following row",
            where=f"minari:{name}",
            mend="Minari cannot hold that: write an .npz file instead",
        )


def _new_folder(name: str) -> Path:
    path = _folder(name)
    if path.exists():
        raise UserError("exists already", where=f"minari:{name}", mend="choose another name or version")
    return path


def _folder(name: str) -> Path:
    """Where the local store keeps a dataset."""
    return Path(extra("minari.storage", WHAT).get_dataset_path(name))


def _minari() -> ModuleType:
    """The library, which is slow to import and which few commands need."""
    return extra("minari", WHAT)


def _space(values: NDArray[Any]) -> spaces.Box:
    if values.dtype == np.uint8:
        return spaces.Box(0, 255, values.shape[1:], np.uint8)
    return spaces.Box(-np.inf, np.inf, values.shape[1:], np.float32)
