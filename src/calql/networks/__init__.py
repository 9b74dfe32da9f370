"""Networks as pytrees: perceptrons, policies, the ensemble of critics, the causal transformer, the image encoder."""

from calql.networks import draws
from calql.networks.critic import Critics, Kernel, Value, for_policy, kernel_here, kernel_notes, move_towards, q_values
from calql.networks.features import Identity, Pixels, Spec, Standardise, make_encoder
from calql.networks.initialisers import Initialiser, linear
from calql.networks.mlp import MLP, Precision, Style, drop_out
from calql.networks.policy import (
    BoundedGaussianPolicy,
    DeterministicPolicy,
    Gaussian,
    LogStdForm,
    TanhGaussianPolicy,
    clipped_sample,
    log_prob,
    mode,
    normal_log_prob,
    plain_sample,
    sample,
)

__all__ = [
    "MLP",
    "BoundedGaussianPolicy",
    "Critics",
    "DeterministicPolicy",
    "Gaussian",
    "Identity",
    "Initialiser",
    "Kernel",
    "LogStdForm",
    "Pixels",
    "Precision",
    "Spec",
    "Standardise",
    "Style",
    "TanhGaussianPolicy",
    "Value",
    "clipped_sample",
    "draws",
    "drop_out",
    "for_policy",
    "kernel_here",
    "kernel_notes",
    "linear",
    "log_prob",
    "make_encoder",
    "mode",
    "move_towards",
    "normal_log_prob",
    "plain_sample",
    "q_values",
    "sample",
]
