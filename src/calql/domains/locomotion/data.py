"""Locomotion data: rollouts of a random, a medium and an expert policy in the bodies' environments.

D4RL's medium and expert sets are rollouts too. Its medium-replay is the replay buffer of a training run,
which no set of finished policies can give: ours mixes random and medium in all shares, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Dataset, concatenate
from calql.data.store import BuildContext, Recipe, Source
from calql.domains.common.policies import Layer, StoredPolicy, load_policy
from calql.domains.common.rollout import Controller, collect, policy_controller
from calql.domains.locomotion.env import BODIES, EPISODE_LIMIT, Runner

LEVELS = ("random", "medium", "medium-replay", "medium-expert", "expert")
PERTURBED = "medium-replay-perturbed"
MILLION = 1_000_000
REPLAY_SIZES = {"halfcheetah": 202_000, "hopper": 402_000, "walker2d": 302_000}  # D4RL's
MOST_DISTURBED = 0.5  # of the spread of a layer's weights
GOLDEN = 0.6180339887498949  # multiples of it, without their whole part, spread evenly over [0, 1)


def medium_source(body: str) -> Source:
    return Source(
        f"d4rl_policies/{body}_medium-v2_policy.npz",
        f"D4RL's {body} medium policy",
        "the metadata/policy group of D4RL's medium-v2 file",
    )


def expert_source(body: str) -> Source:
    name = BODIES[body].removesuffix("-v4")
    return Source(
        f"sb3_experts/tqc_{name}-v3.npz",
        f"a {body} expert",
        f"rl-trained-agents (tqc/{name}-v3), its actor stored as actor_latent_pi_0_weight, actor_mu_weight, ...",
    )


@dataclass(frozen=True)
class RandomActor:
    """Actions from the uniform distribution."""

    actions: int

    def __call__(self, observation: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return rng.uniform(-1.0, 1.0, self.actions)


@dataclass(frozen=True)
class Mixture:
    """The policy's action, or with probability `random` a uniform one."""

    policy: StoredPolicy
    random: float

    def __call__(self, observation: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if rng.random() < self.random:
            return rng.uniform(-1.0, 1.0, self.policy.action_size)
        return self.policy.sample(observation, rng)


def random_controller(actions: int, episode: int) -> Controller:
    return RandomActor(actions)


def mixed_controller(policy: StoredPolicy, episode: int) -> Controller:
    """Every share of random actions is equally frequent, however many episodes there are."""
    return Mixture(policy, (episode * GOLDEN) % 1.0)


def perturbed_controller(policy: StoredPolicy, seed: int, episode: int) -> Controller:
    """The policy with its weights disturbed, in every episode otherwise and by another share of their spread.

    Shares are spread evenly up to `MOST_DISTURBED`. Each episode has a policy of its own that acts alike all along, as
    the policies of a training run do; random actions in between would average out when they are imitated.
    """
    share, rng = MOST_DISTURBED * ((episode * GOLDEN) % 1.0), np.random.default_rng([seed, episode])

    def disturbed(layer: Layer) -> Layer:
        weight, bias = layer
        return (weight + share * weight.std() * rng.standard_normal(weight.shape)).astype(np.float32), bias

    return replace(policy, hidden=tuple(map(disturbed, policy.hidden)), mean=disturbed(policy.mean)).sample


def build(body: str, level: str, context: BuildContext) -> Dataset:
    size = context.size or full_size(body, level)
    if level == "medium-expert":
        halves = [_part(body, "medium", size // 2, context), _part(body, "expert", size - size // 2, context)]
        return concatenate(halves, source=f"{body}-{level}")
    return _part(body, level, size, context)


def _part(body: str, level: str, size: int, context: BuildContext) -> Dataset:
    """One policy's share; medium is the same rollouts in 'medium' and in 'medium-expert'."""
    make_env = partial(Runner, body)
    name = f"{body}-{level}"
    if level == "random":
        env = make_env()
        count = int(env.action_space.shape[0])  # type: ignore[index]
        made = collect(
            context, name, make_env, partial(random_controller, count), size, max_steps=EPISODE_LIMIT, chunk=20
        )
        return replace(made, notes=("uniform random actions",))
    source = expert_source(body) if level == "expert" else medium_source(body)
    policy = load_policy(context.source(source))
    made = collect(context, name, make_env, _controller(level, policy, context.seed), size, max_steps=EPISODE_LIMIT)
    return replace(made, notes=(_note(level, source),))


def _controller(level: str, policy: StoredPolicy, seed: int) -> Callable[[int], Controller]:
    if level == PERTURBED:
        return partial(perturbed_controller, policy, seed)
    return partial(mixed_controller if level == "medium-replay" else policy_controller, policy)


def _note(level: str, source: Source) -> str:
    if level == PERTURBED:
        return (
            "not a replay buffer: episodes of the medium policy with weights disturbed by a share of their spread that "
            f"is fixed for the episode and spread evenly from 0 to {MOST_DISTURBED:g} over the episodes"
        )
    if level == "medium-replay":
        return (
            "not a replay buffer: episodes of the medium policy in which each action is random with a "
            "probability that is fixed for the episode and spread evenly from 0 to 1 over the episodes"
        )
    return f"actions sampled from {source.what}"


def full_size(body: str, level: str) -> int:
    if level.startswith("medium-replay"):
        return REPLAY_SIZES[body]
    return 2 * MILLION if level == "medium-expert" else MILLION


def _needs(body: str, level: str) -> tuple[Source, ...]:
    medium = (medium_source(body),) if "medium" in level else ()
    return medium + ((expert_source(body),) if "expert" in level else ())


def _recipe(body: str, level: str) -> Recipe:
    return Recipe(
        name=f"{body}-{level}",
        version=1,
        build=partial(build, body, level),
        needs=_needs(body, level),
        summary="rollouts in today's simulator",
        size=full_size(body, level),
        variant_of=f"{body}-medium-replay" if level == PERTURBED else "",
    )


RECIPES = {f"{body}-{level}": _recipe(body, level) for body in BODIES for level in (*LEVELS, PERTURBED)}
