"""Minari datasets, read and written through the library, from and to its local store only."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.data.assemble import assemble
from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset, Ints
from calql.data.folders import require_plain
from calql.data.formats.base import Format
from calql.data.formats.hdf5 import require_own
from calql.data.reading import AS_IT_IS, Reading
from calql.data.recording import Column, Recording, joined
from calql.system.errors import UserError, unknown
from calql.system.extras import extra

MINARI = "minari:"
STEPS = ("actions", "rewards", "terminations", "truncations")  # what an episode has one of for each step
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AssertionError)
WHAT = "a Minari dataset"


def read_minari(name: str, *, observation_key: str | None = None, on_problem: OnProblem = stop) -> Dataset:
    """A dataset of the local store, each row with its true next observation.

    `observation_key` picks one entry of dictionary observations; `a+b` joins several, in that order.
    """
    return read_stored(name, Reading(observations=_keys(observation_key)), on_problem)


def read_stored(name: str, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """A dataset of the local store by its name; `NAME#a+b` chooses entries of dictionary observations."""
    name, _, key = name.partition("#")
    if key and not reading.observations:
        reading = replace(reading, observations=_keys(key))
    source = f"{MINARI}{name}"
    return _made(_episodes(name, source), reading, source, on_problem)


def read_folder(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """A dataset that lies in a folder of anybody's."""
    require_plain(path)
    minari = _minari()
    try:
        for file in (path / "data").glob("*.hdf5"):
            require_own(file)
        episodes = list(minari.MinariDataset(path / "data").iterate_episodes())
    except UNREADABLE as error:
        raise _unreadable(error, str(path)) from error
    return _made(episodes, reading, str(path), on_problem)


def _keys(key: str | None) -> tuple[str, ...]:
    return tuple(part for part in (key or "").split("+") if part)


def _made(recorded: list[Any], reading: Reading, source: str, on_problem: OnProblem) -> Dataset:
    """Steps with the observation before and after each; an episode stores one observation more than it has steps."""
    episodes = [episode for episode in recorded if len(episode) > 0]
    if not episodes:
        raise UserError("holds no episode", where=source, mend="record at least one whole episode")
    observed = [_observations(e.observations, source) for e in episodes]
    _refuse_choice(observed[0], reading, source)
    lengths, troubles = joined([_rows(e, seen, source) for e, seen in zip(episodes, observed, strict=True)])
    steps = {name: [_plain(getattr(e, name), name, source) for e in episodes] for name in STEPS}
    seen = {f"observations{key}": _each(observed, key, source) for key in observed[0]}
    plain = {"observation": "observations"} if "observations" in seen else {}
    recording = Recording(
        {name: _column(values, lengths, name, source) for name, values in (steps | seen).items()},
        lengths,
        {"terminal": "terminations", "timeout": "truncations"} | plain,
        {name: _column([v[1:] for v in values], lengths, name, source) for name, values in seen.items()},
        "" if plain else "observations/",
        [str(e.id) for e in episodes],
        troubles,
        _close_note(sum(not (e.terminations[-1] or e.truncations[-1]) for e in episodes)),
    )
    return assemble(recording, reading, source, on_problem)


def _rows(episode: Any, observed: Mapping[str, NDArray[Any]], source: str) -> dict[str, int]:
    """How many steps each column of an episode is long enough for."""
    seen = {f"observations{key}": max(len(values) - 1, 0) for key, values in observed.items()}
    return seen | {name: len(_plain(getattr(episode, name), name, source)) for name in STEPS}


def _each(observed: list[dict[str, NDArray[Any]]], key: str, source: str) -> list[NDArray[Any]]:
    if any(key not in each for each in observed):
        raise UserError(f"'observations{key}' is missing in an episode", where=source, mend="write it again")
    return [each[key] for each in observed]


def _column(values: list[NDArray[Any]], lengths: Ints, name: str, source: str) -> Column:
    shapes = sorted({value.shape[1:] for value in values})
    if len(shapes) > 1:
        raise UserError(f"'{name}' has shapes {shapes[0]} and {shapes[1]}", where=source, mend="write it again")
    return Column.of(np.concatenate([value[:length] for value, length in zip(values, lengths, strict=True)]))


def _refuse_choice(observed: Mapping[str, Any], reading: Reading, source: str) -> None:
    if "" in observed and reading.observations:
        raise UserError(
            f"observations have no key '{reading.observations[0]}': they are plain arrays",
            where=source,
            mend="leave out '#...'",
        )


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
            observations=_sequence(dataset, rows),
            actions=dataset.actions[rows],
            rewards=dataset.rewards[rows],
            terminations=dataset.terminals[rows],
            truncations=dataset.truncated[rows],
        )
        for rows in dataset.episodes()
    ]
    form = {"observation_space": _observation_space(dataset), "action_space": _space(dataset.actions)}
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
    except UNREADABLE as error:
        raise _unreadable(error, source) from error


def _unreadable(error: Exception, source: str) -> UserError:
    return UserError(f"cannot be read ({error})", where=source, mend="download or write it again")


def _observations(raw: Any, source: str) -> dict[str, NDArray[Any]]:
    """[step + 1, ...] of one episode, by the path of each entry of a dictionary; a plain array has none."""
    if not isinstance(raw, dict):
        return {"": _plain(raw, "observations", source)}
    found: dict[str, NDArray[Any]] = {}
    for key, value in raw.items():
        found |= {f"/{key}{inner}": values for inner, values in _observations(value, source).items()}
    return found


def _plain(raw: Any, name: str, source: str) -> NDArray[Any]:
    if isinstance(raw, dict | tuple | list):
        raise UserError(f"'{name}' is a {type(raw).__name__}", where=source, mend="only plain arrays can be read")
    return np.asarray(raw)


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


def _sequence(dataset: Dataset, rows: slice) -> Any:
    """Observations of an episode, one more than it has steps; a dictionary where they are packed."""
    values = np.concatenate([dataset.observations[rows], dataset.next_observations[rows][-1:]])
    return values if dataset.layout is None else dataset.layout.apart(values)


def _observation_space(dataset: Dataset) -> spaces.Space[Any]:
    if dataset.layout is None:
        return _space(dataset.observations)
    return spaces.Dict({name: _space(part) for name, part in dataset.layout.apart(dataset.observations[:1]).items()})


def _space(values: NDArray[Any]) -> spaces.Box:
    if values.dtype == np.uint8:
        return spaces.Box(0, 255, values.shape[1:], np.uint8)
    return spaces.Box(-np.inf, np.inf, values.shape[1:], np.float32)


def write_named(dataset: Dataset, path: Path) -> None:
    """To the local store, under a name."""
    write_minari(dataset, str(path).removeprefix(MINARI))


FORMAT = Format(
    summary="Minari dataset: by name (minari:NAME), or its folder",
    sniff=lambda path: (path / "data" / "main_data.hdf5").is_file(),
    read=read_folder,
    write=write_named,
)
