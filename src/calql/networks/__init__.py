"""Networks as pytrees: perceptrons, the tanh-Gaussian policy and the ensemble of critics."""

from calql.networks.critic import Critics, move_towards, q_values
from calql.networks.features import Identity, Spec, make_encoder
from calql.networks.mlp import MLP, Initialiser, Precision, Style, linear
from calql.networks.policy import Gaussian, TanhGaussianPolicy, log_prob, mode, sample

__all__ = [
    "MLP",
    "Critics",
    "Gaussian",
    "Identity",
    "Initialiser",
    "Precision",
    "Spec",
    "Style",
    "TanhGaussianPolicy",
    "linear",
    "log_prob",
    "make_encoder",
    "mode",
    "move_towards",
    "q_values",
    "sample",
]
