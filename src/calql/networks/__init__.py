"""Networks as pytrees: perceptrons, actors, the ensemble of critics, the causal transformer, the image encoder."""

from calql.networks import draws
from calql.networks.actors import (
    DENSITY,
    DISCRETE,
    GRADIENTS,
    ActionDistribution,
    Actor,
    Categorical,
    log_density,
    make_actor,
    sample_with_density,
)
from calql.networks.choice_critic import ChoiceCritics, at_actions, best_allowed
from calql.networks.critic import Critics, Kernel, Value, for_policy, kernel_here, kernel_notes, move_towards, q_values
from calql.networks.features import Identity, Pixels, Spec, Standardise, make_encoder
from calql.networks.initialisers import Initialiser, linear
from calql.networks.mlp import MLP, Precision, Style, drop_out

__all__ = [
    "DENSITY",
    "DISCRETE",
    "GRADIENTS",
    "MLP",
    "ActionDistribution",
    "Actor",
    "Categorical",
    "ChoiceCritics",
    "Critics",
    "Identity",
    "Initialiser",
    "Kernel",
    "Pixels",
    "Precision",
    "Spec",
    "Standardise",
    "Style",
    "Value",
    "at_actions",
    "best_allowed",
    "draws",
    "drop_out",
    "for_policy",
    "kernel_here",
    "kernel_notes",
    "linear",
    "log_density",
    "make_actor",
    "make_encoder",
    "move_towards",
    "q_values",
    "sample_with_density",
]
