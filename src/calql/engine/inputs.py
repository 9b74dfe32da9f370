"""From logged data and collected episodes to the columns that updates draw from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset, possible_returns
from calql.data.dataset import MASKS
from calql.data.rewards import RewardRule
from calql.engine.episodes import Episode
from calql.methods.base import Method, Spec, Transitions
from calql.methods.reference import Fit, MonteCarlo, Reference, Trajectory, fit_reference, over_episodes

Columns = dict[str, NDArray[Any]]  # fields of Transitions by name, on the host
Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # allowed at a step and after it, each [step, choice]


@dataclass(frozen=True)
class Inputs:
    """Logged data as columns, and the rule that makes collected episodes the same kind of rows."""

    logged: Transitions  # [row, ...]; on the device, unless they are streamed to it
    return_to_go: NDArray[np.float32]  # [row], discounted, of mapped rewards
    episode_starts: NDArray[np.int64]  # first row of each logged episode
    spec: Spec
    reference: Reference
    rewards: RewardRule
    optional: frozenset[str]  # columns that the method asked for
    discount: float
    possible: tuple[float, float]  # least and largest return that rewards like the logged ones can add up to
    streamed: bool = False

    @property
    def masked(self) -> bool:
        """Whether some action was forbidden in the logged data, so that an environment has to say what is."""
        masks = self.logged.action_masks
        return masks is not None and not bool(jnp.all(masks))

    def pad(
        self, episodes: Sequence[Episode | None], limit: int, capacity: int = 0
    ) -> tuple[Transitions, NDArray[np.int32]]:
        """Collected episodes (None: no new one) as rows [seed, limit, ...] and their lengths [seed], on the host.

        Where the limit of logs alone was a guess, an episode that is handed in may be longer: then a multiple of it, so
        that few programs are compiled, and never more than the buffer holds.
        """
        longest = max(len(episode.rewards) for episode in episodes if episode is not None)
        limit = min(-(-longest // limit) * limit, max(capacity, limit))
        rows = [None if episode is None else self._rows(episode) for episode in episodes]
        like = next(columns for columns in rows if columns is not None)
        padded = {name: np.zeros((len(rows), limit, *column.shape[1:]), column.dtype) for name, column in like.items()}
        lengths = np.zeros(len(rows), np.int32)
        for index, columns in enumerate(rows):
            for name, column in (columns or {}).items():
                padded[name][index, : len(column)] = column
                lengths[index] = len(column)
        return Transitions(**padded), lengths  # type: ignore[arg-type]  # the device takes them as they are

    def widened(self, returns: NDArray[np.float32], episodes: Sequence[Episode | None]) -> NDArray[np.float32]:
        """Least and largest possible return [seed, 2], now that these episodes have been seen too."""
        found = returns.copy()
        for index, episode in enumerate(episodes):
            if episode is not None:
                rewards = self.rewards.map(episode.rewards)
                low, high = possible_returns(rewards, _terminals(episode), self.discount)
                found[index] = min(found[index, 0], low), max(found[index, 1], high)
        return found

    def _rows(self, episode: Episode) -> Columns:
        """One collected episode as rows, valued by the reference now that it has ended."""
        seen, recorded = episode.observations, episode.rewards.astype(np.float32)
        trajectory = Trajectory(seen[:-1], episode.actions, self.rewards.collected.map(recorded), _terminals(episode))
        masks = None if episode.masks is None else (episode.masks[:-1], episode.masks[1:])
        return columns_of(trajectory, seen[1:], recorded, self.reference(trajectory), self.optional, masks)


def prepare(method: Method, reference: str, fit: Fit) -> Inputs:
    """Value the logged data, and put them on the device unless they are to be streamed."""
    data = fit.data
    fitted = fit_reference(reference if method.uses_reference else "none", fit)
    parts = []
    for rows in data.episodes():
        trajectory = fit.trajectory(rows)
        values, masks = fitted(trajectory), _masks(data, rows)
        parts.append(step_columns(trajectory, data.rewards[rows], values, method.columns, masks))
    logged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    logged |= {"observations": data.observations, "next_observations": data.next_observations}
    returns = over_episodes(MonteCarlo(fit.rewards, fit.discount), fit)
    possible = possible_returns(logged["rewards"], logged["terminals"], fit.discount)
    return Inputs(
        Transitions(**logged) if fit.stream else on_device(logged),  # type: ignore[arg-type]
        returns,
        data.episode_starts,
        spec_of(data),
        fitted,
        fit.rewards,
        method.columns,
        fit.discount,
        possible,
        fit.stream,
    )


def _terminals(episode: Episode) -> NDArray[np.bool_]:
    terminals = np.zeros(len(episode.rewards), bool)
    terminals[-1] = episode.terminal
    return terminals


def spec_of(data: Dataset) -> Spec:
    """What networks are built for: shapes, and the statistics of observations that are vectors."""
    return Spec.of(data.observations, data.actions, discrete=data.discrete, layout=data.form)


def _masks(data: Dataset, rows: slice) -> Masks | None:
    """What was allowed at those rows, and after them; None for continuous actions."""
    if data.action_masks is None or data.next_action_masks is None:
        return None
    return data.action_masks[rows], data.next_action_masks[rows]


def on_device(columns: Columns) -> Transitions:
    return Transitions(**{name: jnp.asarray(column) for name, column in columns.items()})


def columns_of(
    trajectory: Trajectory,
    next_observations: NDArray[Any],
    recorded: NDArray[np.float32],
    reference: NDArray[np.float32],
    wanted: frozenset[str],
    masks: Masks | None = None,
) -> Columns:
    """The columns of one episode; optional ones only where the method wants them."""
    seen = {"observations": trajectory.observations, "next_observations": next_observations}
    return seen | step_columns(trajectory, recorded, reference, wanted, masks)


def step_columns(
    trajectory: Trajectory,
    recorded: NDArray[np.float32],
    reference: NDArray[np.float32],
    wanted: frozenset[str],
    masks: Masks | None = None,
) -> Columns:
    """All of them but the observations."""
    count, actions = len(recorded), trajectory.actions
    columns: Columns = {
        "actions": actions,
        "rewards": trajectory.rewards,
        "terminals": trajectory.terminals.astype(np.float32),
        "reference": reference,
    }
    optional: Columns = {
        "next_actions": np.concatenate([actions[1:], actions[-1:]]),
        "has_next_action": (np.arange(count) < count - 1).astype(np.float32),
        "timestep": np.arange(count, dtype=np.int32),
        "remaining": np.arange(count - 1, -1, -1, dtype=np.int32),
        "return_to_go": np.cumsum(recorded[::-1])[::-1].astype(np.float32),
    }
    columns |= {} if masks is None else dict(zip(MASKS, masks, strict=True))
    return columns | {name: column for name, column in optional.items() if name in wanted}
