"""Options of the actor-critic learner: every axis on which its published relatives differ, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from calql.methods.actor_options import ActorOptions
from calql.methods.base import require
from calql.networks import DENSITY, GRADIENTS, Initialiser, Kernel, Precision
from calql.system.options import (
    FROM_ONE,
    Count,
    CountOrZero,
    Finite,
    KeptIfMinusOne,
    NotNegative,
    Positive,
    Range,
    Share,
    ShareAboveZero,
    ShareBelowOne,
)

Widths = Annotated[tuple[int, ...], FROM_ONE, tyro.conf.arg(metavar="INT [INT ...]")]
LogStdRange = Annotated[tuple[float, float], Range(ordered=True)]


# The regulariser is weighed against TD errors in units of returns, so on data of one's own, whose rewards may have any
# size, these are scaled first, and the weight is fixed: no gap suits all (docs/decisions/047-size-of-returns.md).
OWN_LARGEST_RETURN = {"own": 100.0}
OWN_WEIGHT = {"own": {"dual": False, "conservative_weight": 5.0}}

SMOKE = {  # what a try of some seconds has at most
    "critics": 2,
    "target_subset": 2,
    "sampled_actions": 2,
    "backup_actions": 2,
    "critic_steps": 4,
    "critic_steps_online": 4,
    "penalised_critics": 2,
}


@dataclass(frozen=True)
class ActorCriticOptions(ActorOptions):
    """Options of the learner. The defaults are the authors' code on AntMaze (preset `paper`)."""

    # Networks
    policy_widths: Widths = (256, 256)
    """Hidden widths of the policy."""
    critic_widths: Widths = (256, 256, 256, 256)
    """Hidden widths of each critic."""
    critics: Count = 2
    """Q-functions in the ensemble."""
    target_subset: CountOrZero = 0
    """Critics drawn at random for each TD target; 0 takes all of them."""
    subset_with_replacement: bool = False
    """Draw that subset, and --penalised-critics, with replacement: one critic may come twice (WSRL)."""
    shared_head: bool = False
    """All critics share one output layer (WSRL)."""
    critic_layer_norm: bool = False
    """Layer norm after each hidden layer of the critics; needed for high update ratios."""
    policy_layer_norm: bool = False
    """Layer norm after each hidden layer of the policy."""
    initialiser: Initialiser = "orthogonal"
    """How layers start, named after the code bases that have it; biases of the first three start at 0."""
    output_gain: NotNegative = 0.01
    """Orthogonal gain of output layers (CORL: 1.414); the bound of their uniform start with 'rebrac' and 'rlkit'."""
    last_hidden_gain: NotNegative = 2.0**0.5
    """Orthogonal gain of the last hidden layer (WSRL: 0.01, and 1.414 for outputs)."""
    state_dependent_std: bool = True
    """The network gives the log standard deviation; off: one trained vector (WSRL on AntMaze)."""
    log_std_scalars: bool = True
    """Scale and shift the log standard deviation by two trained numbers; off: an output layer of its own instead
    (RLPD, WSRL)."""
    log_std_offset: Finite = -1.0
    """Start of that trained shift."""
    log_std_range: LogStdRange = (-20.0, 2.0)
    """Bounds of the log standard deviation (WSRL: -11.513 2.303, a deviation of 1e-5 to 10)."""
    precision: Precision = "tf32"
    """Arithmetic of the hidden layers; inputs are not rounded in any, outputs and losses are float32 in all."""
    critic_kernel: Kernel = "plain"
    """On an H100 or H200, in bfloat16: 'fused' keeps the critics' activations on the chip. Elsewhere: plain."""

    # Optimisation
    batch_size: Count = 256
    """Transitions in one minibatch."""
    discount: ShareBelowOne = 0.99
    policy_rate: Positive = 1e-4
    """Adam step size of the policy and of the temperature."""
    critic_rate: Positive = 3e-4
    """Adam step size of the critics and of the dual variable."""
    target_rate: ShareAboveZero = 0.005
    """Share of the new critic in its target at every update."""
    target_bounds: bool = False
    """Cut TD targets to what rewards like those seen so far can add up to."""
    critic_steps: Count = 1
    """Critic updates on consecutive minibatches before one policy update (RLPD: its update ratio)."""
    critic_steps_online: CountOrZero = 0
    """The same after the switch; 0 keeps the offline number (WSRL: 4)."""
    critic_loss: Literal["sum", "mean"] = "sum"
    """How the losses of the critics are put together (RLPD, WSRL: mean); Adam makes little of the difference."""
    policy_on_all: bool = False
    """With several critic steps, update the policy on all their minibatches (WSRL) and not on the last alone."""
    step_when_idle: bool = False
    """With several critic steps, every Adam steps at each of them and at the policy's, with gradient 0 where its loss
    is left out: networks go on by their momentum (WSRL)."""

    # SAC
    target_entropy: Finite = 0.0
    """Entropy that the temperature steers to; 0 or more stands for minus --entropy-scale times the action dimension."""
    entropy_scale: NotNegative = 1.0
    """See --target-entropy (RLPD: 0.5)."""
    entropy_share: Share = 0.2
    """With discrete actions the temperature steers to this share of the largest entropy, log of the allowed actions."""
    entropy_in_backup: bool = False
    """Subtract alpha log pi in the TD target, after the best of several actions was chosen (as the authors do)."""
    policy_critic: Literal["min", "mean"] = "min"
    """How the policy's loss reduces the critics."""
    temperature_form: Literal["logarithm", "exponential", "softplus"] = "logarithm"
    """What multiplies the entropy's distance in the temperature's loss: log alpha, alpha itself (RLPD), or alpha
    as the softplus of its parameter (WSRL)."""
    temperature_states: Literal["current", "next"] = "current"
    """States whose entropy drives the temperature (WSRL: next, with as many fresh actions each as --backup-actions)."""
    backup_actions: Count = 10
    """Policy actions at s' for the max-target backup; 1 is the plain SAC backup."""
    backup_actions_online: CountOrZero = 0
    """The same after the switch; 0 keeps the offline number (WSRL but on AntMaze: 1)."""

    # The conservative regulariser
    conservative: bool = True
    """Use the regulariser at all."""
    conservative_online: bool = True
    """Keep it online (off: CQL then SAC)."""
    conservative_weight: NotNegative = 5.0
    """Weight of the regulariser, times alpha' where it is dual."""
    conservative_weight_online: KeptIfMinusOne = -1.0
    """Weight after the switch; negative keeps the offline one."""
    sampled_actions: Count = 10
    """Actions drawn from each of: uniform, the policy at s, the policy at s'."""
    importance_sampling: bool = True
    """Correct each sampled Q by its log-density; off: no densities, and the logged action joins the sum."""
    dual: bool = True
    """Tune the weight by dual ascent so that the regulariser stays at the gap."""
    gap: Finite = 0.8
    """Target of the regulariser where it is dual."""
    dual_start: Finite = 1.0
    """Start of log alpha' (exponential) or of its raw value (softplus)."""
    dual_form: Literal["exponential", "softplus"] = "exponential"
    """How alpha' comes from its parameter (WSRL: softplus)."""
    dual_draws: Literal["shared", "own"] = "shared"
    """Whether dual ascent sees the regulariser of the critics' loss, or one with actions and critics of its own draw
    (WSRL)."""
    soft_maximum_temperature: Positive = 1.0
    """Temperature of the logsumexp."""
    difference_clip: Annotated[tuple[float, float], Range(infinite=True, ordered=True)] = (float("-inf"), float("inf"))
    """Bounds of the regulariser per state, before the mean (CORL: -200 from below)."""
    penalised_critics: CountOrZero = 0
    """Critics drawn at random for the regulariser at each update; 0 penalises all (WSRL: 2). It is their mean or sum,
    by --critic-loss, that counts."""
    subtract_log_count: bool = False
    """Subtract the logarithm of the number of terms from the logsumexp (WSRL without importance sampling)."""

    # Calibration
    calibrate: bool = True
    """Never push Q of policy actions below the reference value: on is Cal-QL, off is CQL."""
    calibrate_online: bool = True
    """Keep calibrating after the switch (CORL switches it off)."""
    calibrate_random: bool = False
    """Calibrate Q of the uniform actions too (tianshou)."""
    calibrate_after_importance: bool = False
    """Take the maximum after the importance correction (the paper's listing) and not before (its code)."""

    @property
    def actor_needs(self) -> frozenset[str]:
        """Its entropy, and the slope of Q along its actions."""
        return frozenset({DENSITY, GRADIENTS})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("target_subset", "penalised_critics"):
            value = getattr(self, name)
            require(value <= self.critics, name, value, f"0 to the number of critics, {self.critics}")
