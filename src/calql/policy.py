"""The policy of a run as a function: observation in, action in the environment's own bounds out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql import experiment as experiments
from calql.engine.boundary import as_observation, not_finite, to_env_action
from calql.engine.rollout import lane
from calql.engine.run import Run
from calql.errors import UserError
from calql.methods.base import Method, Moment
from calql.networks.acting import in_float32
from calql.results import Silent
from calql.trust import trust_run


class LoadedPolicy:
    """Call it with each observation of an episode, and `reset()` it between episodes.

    The reward of the step before matters only to policies that remember (the decision transformer).
    """

    def __init__(self, method: Method, parameters: Any, action_space: Any, *, explore: bool, seed: int) -> None:
        self._parameters, self._space, self._method = parameters, action_space, method
        self._act = jax.jit(lambda p, c, m, k: method.act(p, c, m, k, explore=explore))
        self._key = jax.random.key(seed)
        self.reset()

    def reset(self) -> None:
        """A new episode begins."""
        self._carry, self._timestep = self._method.start(self._parameters), 0

    def __call__(self, observation: Any, reward: float = 0.0) -> NDArray[Any]:
        """The action for an observation; UserError where either is not a number: it must not reach an actuator."""
        seen = as_observation(observation)
        self._require_finite("the observation", seen)
        self._require_finite("the reward", np.asarray(reward, np.float32).reshape(1))
        self._key, key = jax.random.split(self._key)
        moment = Moment(jnp.asarray(seen), jnp.float32(reward), jnp.int32(self._timestep))
        action, self._carry = self._act(self._parameters, self._carry, moment, key)
        self._require_finite("the action of this policy", np.asarray(action))
        self._timestep += 1
        return to_env_action(self._space, np.asarray(action))

    def _require_finite(self, what: str, numbers: NDArray[Any]) -> None:
        if not np.isfinite(numbers).all():
            raise UserError(
                f"{what} holds {not_finite(numbers)}",
                where=f"policy, step {self._timestep + 1}",
                mend="stop the system and look at its sensors, or load another run's policy",
            )


def load_policy(
    folder: str | Path, *, seed: int | None = None, explore: bool = False, trust: bool = False
) -> LoadedPolicy:
    """The policy of a run's last checkpoint, of its first seed unless another is named.

    `trust` says that the environment which the run names may be imported, where it is not one you trained with.
    """
    if trust:
        trust_run(folder)
    experiment, config = experiments.from_config(Path(folder))
    chosen = config["seeds"][0] if seed is None else seed
    if chosen not in config["seeds"]:
        raise UserError(f"the run has no seed {seed}", where=str(folder), mend=f"its seeds: {config['seeds']}")
    run = Run(experiments.plan(experiment), Path(folder), Silent())
    try:
        run.restore()
        stacked = jax.device_get(run.program.policies(run.learning.state))
    finally:
        run.close()
    index = config["seeds"].index(chosen)
    return LoadedPolicy(
        run.program.method,
        in_float32(lane(stacked, index)),  # as it was evaluated
        experiment.action_space,
        explore=explore,
        seed=chosen,
    )
