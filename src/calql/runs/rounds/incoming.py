"""Files of new episodes: read by any format, and held against what the project was started with."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from calql.data import Dataset, Reading, concatenate, load, normalise_actions, one_hot
from calql.data.dataset import Fault
from calql.data.findings import findings, without_bad_episodes
from calql.data.formats.npz import FORMAT as NPZ
from calql.data.jumps import jumps, split_at_jumps
from calql.data.recorder import COLLECTED, POLICY_ACTIONS
from calql.data.rewards import RewardRule
from calql.engine.boundary import to_env_action
from calql.engine.options import RunOptions
from calql.runs import record
from calql.runs.policy_folder import DESCRIPTION
from calql.runs.request import Choice
from calql.runs.rounds.ledger import Entry
from calql.runs.rounds.store import Kept, as_collected
from calql.runs.spaces import ActionSpace
from calql.system.archives import read_archive
from calql.system.errors import UserError
from calql.system.run_config import damaged, options_from, read_object
from calql.system.run_files import CONFIG, POLICY

BROKEN = "its rows do not follow from each other"
SAME = "record episodes of the system that the project was started with"


@dataclass(frozen=True)
class Terms:
    """What new episodes have to agree with."""

    choice: Choice
    run: RunOptions
    space: ActionSpace
    rewards: RewardRule
    shape: tuple[int, ...]  # of an observation
    image: bool
    masked: bool
    episode_limit: int

    @classmethod
    def of(cls, folder: Path) -> Terms:
        """As a round that has ended tells them."""
        config, policy = record.read_config(folder), read_object(folder / POLICY / DESCRIPTION)
        try:
            known = config["environment"]
            space = record.recorded_space(known)
            assert space is not None
            seen = policy["observation"]
            return cls(
                choice=options_from(Choice, "choice", config, folder),
                run=record.recorded_options(config, folder)[0],
                space=space,
                rewards=RewardRule(**config["rewards"]),
                shape=tuple(int(length) for length in seen["shape"]),
                image=seen["dtype"] == "uint8",
                masked=bool(policy["action"].get("masked")),
                episode_limit=int(known["episode_limit"]),
            )
        except (KeyError, TypeError, ValueError, AssertionError) as error:
            raise damaged(folder / CONFIG, f"does not say what its episodes are like ({error!r})") from None


@dataclass(frozen=True)
class Asked:
    """How files are read, and who collected them where they do not say."""

    reading: Reading
    round: int
    seed: int | None


@dataclass(frozen=True)
class Arrived:
    """One episode of a file, checked."""

    kept: Kept
    entry: Entry
    place: str  # its file, and which one of it


@dataclass(frozen=True)
class Brought:
    """What files held."""

    episodes: Sequence[Arrived]
    notes: Sequence[str]


def read_files(
    files: Sequence[str | Path], terms: Terms, asked: Asked, policies: Mapping[str, tuple[int, int]]
) -> Brought:
    """Every episode of the files, in their order; one that cannot be learnt from refuses them all.

    `policies` are the rounds and seeds of the project by the checksums of their policies.
    """
    episodes: list[Arrived] = []
    notes: list[str] = []
    for file in _files(files):
        note = _collected(file)
        reading = _reading(asked.reading, terms.choice, recorded=note is not None)
        data = load(file, reading)
        data = split_at_jumps(data) if terms.run.split_at_jumps else data
        data = _continuing(data, drop=reading.drop_bad_episodes)
        notes += [f"{file}: {text}" for text in _said(data)]
        _require_sound(data, terms)
        episodes += _arrived(str(file), data, note or {}, terms, asked, policies)
    return Brought(episodes, notes)


def _files(named: Sequence[str | Path]) -> Iterator[str | Path]:
    """A folder that a recorder wrote stands for the files in it."""
    for each in named:
        path = Path(each).expanduser()
        recorded = sorted(path.glob("episode-*.npz")) if path.is_dir() else []
        yield from recorded if recorded else [each]


def _reading(given: Reading, choice: Choice, *, recorded: bool) -> Reading:
    """As asked for, else as the project's first data were read; what a recorder wrote says itself what is what."""
    drop = given.drop_bad_episodes
    if recorded:
        return Reading(drop_bad_episodes=drop)
    return given if given.chooses else dataclasses.replace(choice.reading, drop_bad_episodes=drop)


def _collected(file: str | Path) -> dict[str, Any] | None:
    """What a recorder noted in a file; None in others."""
    path = Path(file).expanduser()
    if not path.is_file() or not NPZ.sniff(path):
        return None
    wanted = (COLLECTED, POLICY_ACTIONS)
    arrays = read_archive(path, lambda names: [name for name in wanted if name in names])
    if COLLECTED not in arrays:
        return None
    try:
        note = dict(json.loads(arrays[COLLECTED].tobytes()))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(
            f"'{COLLECTED}' cannot be read ({error})", where=str(file), mend="copy the file again"
        ) from None
    return {**note, POLICY_ACTIONS: arrays.get(POLICY_ACTIONS)}


def _continuing(data: Dataset, *, drop: bool) -> Dataset:
    """With episodes as faulty whose rows do not go on where the row before them ended."""
    inside = ~(data.terminals | data.truncated)
    rows = np.flatnonzero(jumps(data) & inside)
    broken = np.unique(np.searchsorted(data.episode_ends, rows))
    faults = (*data.faults, *(Fault(int(episode), str(episode), BROKEN) for episode in broken))
    marked = dataclasses.replace(data, faults=faults)
    return without_bad_episodes(marked) if drop else marked


def _said(data: Dataset) -> tuple[str, ...]:
    """What the reader left out or changed; that time-outs are kept is as it should be."""
    return tuple(note for note in data.notes if "kept as truncated" not in note)


def _require_sound(data: Dataset, terms: Terms) -> None:
    """Refuse what is of another system, or what no training makes sense of."""
    for error in findings(data).errors:
        raise error
    seen = data.observations
    if seen.shape[1:] != terms.shape or (seen.dtype == np.uint8) != terms.image:
        raise UserError(
            f"observations are {seen.dtype} of shape {seen.shape[1:]}, and those of the project "
            f"{'uint8' if terms.image else 'float32'} of shape {terms.shape}",
            where=data.source,
            mend=SAME,
        )
    if terms.masked and data.action_masks is None:
        raise UserError(
            "has no 'action_masks', and the project's data say which actions are allowed",
            where=data.source,
            mend="record what was allowed at each step",
        )
    if int(data.episode_lengths.max()) > terms.run.capacity:
        raise UserError(
            f"an episode has {int(data.episode_lengths.max())} steps, and the buffer holds {terms.run.capacity}",
            where=data.source,
            mend="cut it into shorter ones",
        )
    _acted(data, terms)


def warnings_about(episodes: Sequence[Arrived], terms: Terms) -> list[str]:
    """What is probably a mistake in new episodes: looked for in all of them together, since one alone shows little."""
    if not episodes:
        return []
    data = concatenate([arrived.kept.data for arrived in episodes], source="the new episodes")
    limit = terms.choice.episode_limit if terms.choice.offline else terms.episode_limit  # without one, logs set none
    return [*findings(data, limit).warnings, *_acted(data, terms)]


def _acted(data: Dataset, terms: Terms) -> list[str]:
    """Refuse actions that the project's system does not have; warnings about the others."""
    if isinstance(terms.space, spaces.Discrete):
        one_hot(data, terms.space)
        return []
    if data.discrete or data.actions.shape[1:] != terms.space.shape:
        kind = f"{data.actions.dtype} of shape {data.actions.shape[1:]}"
        raise UserError(f"actions are {kind}, and those of the project {terms.space}", where=data.source, mend=SAME)
    return normalise_actions(data, terms.space.low, terms.space.high, limit=terms.run.action_limit)[1]


def _arrived(
    file: str, data: Dataset, note: Mapping[str, Any], terms: Terms, asked: Asked,
    policies: Mapping[str, tuple[int, int]],
) -> Iterator[Arrived]:  # fmt: skip
    said = note.get("seed")
    unknown = asked.round, said if type(said) is int and said >= 0 else asked.seed
    round_, seed = policies.get(str(note.get("policy")), unknown)
    own_actions = _own_actions(file, data, note.get(POLICY_ACTIONS), terms)
    for number, rows in enumerate(data.episodes()):
        episode = dataclasses.replace(data.select(rows), notes=(), source=file)
        kept = Kept(episode, own_actions)
        success = _success(note.get("success"), episode, terms.rewards)
        as_collected(kept, terms.space, terms.run, success=success)  # refused now, or never
        total = float(episode.rewards.astype(np.float64).sum())
        added = time.strftime("%Y-%m-%d %H:%M:%S")
        entry = Entry(kept.id, len(episode), total, success, round_, seed, file, added)
        yield Arrived(kept, entry, f"{file}, episode {number}")


def _own_actions(file: str, data: Dataset, actions: Any, terms: Terms) -> Any:
    """What the policy gave, if that is what was sent: what other units round away does not come back from them."""
    if actions is None:
        return None
    if len(data.episode_ends) == 1 and np.shape(actions)[:1] == (len(data),):
        found = np.asarray(actions, np.float32)
        if np.array_equal(np.asarray(to_env_action(terms.space, found), data.actions.dtype), data.actions):
            return found
    raise UserError(
        f"'{POLICY_ACTIONS}' are not the actions that it says were taken", where=file, mend="leave the column out"
    )


def _success(said: Any, episode: Dataset, rewards: RewardRule) -> bool | None:
    """As recorded; where rewards are sparse, whether any was earned; else nobody knows."""
    if isinstance(said, bool):
        return said
    return None if rewards.failure is None else bool(np.any(episode.rewards != np.float32(rewards.failure)))
