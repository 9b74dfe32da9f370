"""Reference values that are networks: regressed to Monte-Carlo returns, or fitted by SARSA on logged actions.

Both are trained until their error on held-out episodes no longer falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from calql.data.bar import Bar
from calql.methods.losses import backup, squared_error
from calql.methods.optimise import ADAM, descend
from calql.methods.reference.base import Fit, MonteCarlo, Trajectory, Values, over_episodes
from calql.methods.reference.batches import Block, Rows, blocks
from calql.methods.reference.held_out import Returns, hold_out, quality, returns_of
from calql.networks import Critics, Spec, Style, make_encoder, move_towards, q_values

RATE = 3e-4
TARGET_RATE = 0.05
CHUNK = 8192  # rows valued at a time
CHECK = 1_000  # updates between two looks at the held-out error
BETTER = 0.01  # share by which it has to fall to count as falling
PATIENCE = 3  # looks in a row at which it did not


Target = Callable[[Critics, Rows], jax.Array]
Error = Callable[[Critics], float]


@dataclass(frozen=True)
class FittedQ:
    """Q(s, a) of the behaviour: offset + scale * network."""

    critic: Critics
    offset: float
    scale: float
    notes: tuple[str, ...] = ()

    def __call__(self, trajectory: Trajectory) -> Values:
        return self.values(trajectory.observations, trajectory.actions)

    def values(self, observations: np.ndarray, actions: np.ndarray) -> Values:
        """Q of each row; rows are padded to chunks of one size, so that one compilation serves all lengths."""
        count = len(actions)
        size = min(CHUNK, 1 << (count - 1).bit_length())
        values = []
        for start in range(0, count, size):
            rows = slice(start, min(start + size, count))
            pad = size - (rows.stop - rows.start)
            columns = [np.pad(c[rows], [(0, pad), *((0, 0) for _ in c.shape[1:])]) for c in (observations, actions)]
            values.append(np.asarray(_evaluate(self.critic, *columns))[: size - pad])
        return (self.offset + self.scale * np.concatenate(values)).astype(np.float32)


@dataclass(frozen=True)
class Descent:
    """One stretch of a fit: which rows, towards what, and the held-out error that says when it is enough."""

    name: str
    usable: np.ndarray  # [row]
    target: Target
    error: Error | None  # None: nothing is held out, so that all updates are done


@dataclass(frozen=True)
class Trial:
    """Data divided for a fit, and the units that its network works in."""

    train: Fit
    held_out: Fit | None
    offset: float
    scale: float

    @classmethod
    def of(cls, fit: Fit) -> Trial:
        kept, spared = hold_out(fit)
        train = replace(fit, data=kept)
        known = _monte_carlo(train)[_or_all(returns_of(train).whole)]
        held_out = None if spared is None else replace(fit, data=spared)
        return cls(train, held_out, float(known.mean()), float(max(known.std(), 1e-3)))

    def rows(self) -> Rows:
        """The training columns, where they are."""
        data, discount = self.train.data, self.train.discount
        next_actions, _ = data.next_actions()
        # In units of (Q - offset) / scale, the reward that leaves the fixed point of the backup in place.
        mapped = self.train.rewards.map(data.rewards)
        rewards = (mapped - self.offset * (1.0 - discount * (1.0 - data.terminals))) / self.scale
        return Rows(
            data.observations,
            data.actions,
            rewards.astype(np.float32),
            ((_monte_carlo(self.train) - self.offset) / self.scale).astype(np.float32),
            data.terminals.astype(np.float32),
            data.next_observations,
            next_actions,
        )

    def fitted(self, critic: Critics) -> FittedQ:
        return FittedQ(critic, self.offset, self.scale)

    def error(self, returns: Returns | None = None) -> Error | None:
        """Held-out error of a critic: against Monte-Carlo returns, or against returns that it completes itself."""
        if self.held_out is None:
            return None
        data, known = self.held_out.data, _monte_carlo(self.held_out)

        def error(critic: Critics) -> float:
            values = self.fitted(critic).values(data.observations, data.actions)
            wanted = known if returns is None else returns.completed(values)
            return float(np.sqrt(np.mean((values - wanted) ** 2)))

        return error


def fit_regression(fit: Fit) -> FittedQ:
    """Least squares of Q(s, a) on the return-to-go of the logged rows."""
    trial = Trial.of(fit)
    everywhere = np.ones(len(trial.train.data), bool)
    return _fit(trial, "regression", [Descent("regression", everywhere, _returns, trial.error())])


def fit_sarsa(fit: Fit) -> FittedQ:
    """TD(0) of the behaviour's Q on logged next actions; for data that end in time-outs.

    It starts from a regression on the returns that are known to their end: from anywhere else, TD carries
    what happens at the end of an episode back by one step each time the target network has followed, which
    takes tens of thousands of updates. The last step of an episode that only stopped being recorded has no
    next action, so it has no target and is left out; a terminal step needs none.
    """
    trial = Trial.of(fit)
    data, returns = trial.train.data, returns_of(trial.train)
    following = None if trial.held_out is None else returns_of(trial.held_out)
    _, known = data.next_actions()
    td = Descent("SARSA", known | data.terminals, _td_target(fit.discount), trial.error(following))
    if not returns.whole.any():
        return _fit(trial, "SARSA", [td])
    start = Descent("SARSA, start", returns.whole, _returns, td.error)
    return _fit(trial, "SARSA", [start, td])


def _returns(target: Critics, rows: Rows) -> jax.Array:
    return rows.returns


def _td_target(discount: float) -> Target:
    def target(slow: Critics, rows: Rows) -> jax.Array:
        after = q_values(slow, slow.encode(rows.next_observations), rows.next_actions)[0]
        return backup(rows.rewards, rows.terminals, discount, after)

    return target


def _monte_carlo(fit: Fit) -> Values:
    return over_episodes(MonteCarlo(fit.rewards, fit.discount), fit)


def _or_all(rows: np.ndarray) -> np.ndarray:
    return rows if rows.any() else np.ones_like(rows)


def _fit(trial: Trial, name: str, descents: list[Descent]) -> FittedQ:
    """Each stretch from where the last one ended; together they do at most the updates asked for."""
    data, left = trial.train.data, trial.train.updates
    spec = Spec.of(data.observations, data.actions, layout=data.layout)
    key_encoder, key_critic, key_fit = jax.random.split(jax.random.key(trial.train.seed), 3)
    encoder, features = make_encoder(spec, key_encoder, standardise=not spec.image)
    critic = Critics(
        encoder, features, spec.action_dim, trial.train.widths, count=1, key=key_critic, style=Style(output_gain=1.0)
    )
    stream = trial.train.stream
    rows = trial.rows() if stream else jax.tree.map(jnp.asarray, trial.rows())
    converged = True
    for index, descent in enumerate(descents):
        most, key = left // (len(descents) - index), jax.random.fold_in(key_fit, index)
        critic, done, converged = _until_no_better(critic, rows, key, descent, most, stream=stream)
        left -= done
    fitted = trial.fitted(critic)
    return replace(fitted, notes=_notes(trial, fitted, name, trial.train.updates - left, converged))


def _until_no_better(
    critic: Critics, rows: Rows, key: jax.Array, descent: Descent, most: int, *, stream: bool
) -> tuple[Critics, int, bool]:
    """Updates until the held-out error has not fallen for a while: the critic, how many, whether it was that.

    The critic is the last one, not the best: the best by Monte-Carlo error would be the regression.
    """
    carry, advance = (critic, critic, ADAM.init(critic)), jax.jit(partial(_advance, descent.target))
    usable = np.flatnonzero(descent.usable)
    least, in_vain, done = np.inf, 0, 0
    with Bar() as bar:
        while done < most and in_vain < PATIENCE:
            bar.show(f"reference value ({descent.name}), updates", done, most)
            step = min(CHECK, most - done)
            for block in blocks(rows, usable, key, done, done + step, stream=stream):
                carry = advance(carry, block)
            done += step
            if descent.error is not None:
                error = descent.error(carry[0])
                in_vain = 0 if error < least * (1.0 - BETTER) else in_vain + 1
                least = error if in_vain == 0 else least
    return carry[0], done, in_vain >= PATIENCE


def _advance(target: Target, carry: Any, block: Block) -> Any:
    """Adam steps on the batches of a block."""

    def loss(critic: Critics, slow: Critics, batch: Rows) -> jax.Array:
        q = q_values(critic, critic.encode(batch.observations), batch.actions)
        return jnp.sum(squared_error(q, target(slow, batch)))

    def step(index: jax.Array, carry: Any) -> Any:
        critic, slow, adam = carry
        critic, adam = descend(jax.grad(loss)(critic, slow, block.batch(index)), adam, critic, RATE)
        return critic, move_towards(slow, critic, jnp.float32(TARGET_RATE)), adam

    return jax.lax.fori_loop(block.first, block.last, step, carry)


def _notes(trial: Trial, fitted: FittedQ, name: str, updates: int, converged: bool) -> tuple[str, ...]:
    """What the fit came to, and a warning where that is not good."""
    did = f"reference value ({name}): {updates:,} updates"
    if trial.held_out is None:
        return (f"{did}; with one episode none can be held out, so nobody knows how good it is",)
    held = trial.held_out
    found = quality(held, fitted.values(held.data.observations, held.data.actions))
    faults = [] if converged else ["its held-out error was still falling: raise --reference-updates"]
    if found is None:
        did += "; every held-out return depends on what was not recorded any more, so that none can be compared"
    else:
        did += f"; {found.sentence}"
        faults += found.faults
    return (did, *([f"the reference value is not good: {'; '.join(faults)}"] if faults else []))


@jax.jit
def _evaluate(critic: Critics, observations: jax.Array, actions: jax.Array) -> jax.Array:
    return q_values(critic, critic.encode(observations), actions)[0]
