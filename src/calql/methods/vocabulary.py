"""The vocabulary of metrics: every name that a method may return, what it means and where it is shown.

Who reads rows knows metrics by their meaning here and not by the method that made them. What follows a slash in a name
says of which network or action it is: `bound_rate/q1/policy` is of the family `bound_rate`. Beside them stands
what may help when a metric says that a seed runs away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Signal = Literal["value", "td error", "likelihood"]
Unit = Literal["return", "squared return", "share", "nats", "squared action", "weight", "loss"]
Panel = Literal["values", "bounds", "regulariser", "learning", "weights", "cloning"]

AVERAGE_Q = "average_q"  # these two are of the same logged pairs, measured at each evaluation
AVERAGE_RETURN_TO_GO = "average_return_to_go"
FQE_VALUE, FQE_LOW, FQE_HIGH = "fqe_value", "fqe_low", "fqe_high"  # these are of runs without an environment
BEHAVIOUR_VALUE, ACTION_DISTANCE = "behaviour_value", "action_distance"
HELD_OUT_AGREEMENT, HELD_OUT_LIKELIHOOD = "held_out_agreement", "held_out_likelihood"
BOUND_RATE = "bound_rate"
ENTROPY = "entropy"


class Adapted(NamedTuple):
    """A weight that rises for as long as a metric stands above the value that an option asks for."""

    metric: str
    asked: str  # the option
    instead: str  # options without that adaptation


class Remedy(NamedTuple):
    """Options to try, for methods that have the option and where others are as said."""

    words: str  # with the present values of options in braces
    option: str
    where: Mapping[str, Any] = {}


class Meaning(NamedTuple):
    """What a metric is, in which unit, the figure that shows it, and what its size tells.

    A `signal` is looked at for divergence: values against the possible returns, TD errors against their own past,
    likelihoods against a floor. What `steers` learning is told beside it when a seed runs away. A family that has
    `parts`, the last word of a name, has a panel for each.
    """

    text: str
    unit: Unit
    panel: Panel | None = None
    title: str = ""  # of its panel, where it has one
    signal: Signal | None = None
    steers: bool = False
    parts: tuple[tuple[str, str], ...] = ()  # with the title of each, in their order
    adapted: Adapted | None = None


FIXED_WEIGHT = (
    "--no-dual --conservative-weight W (a W of 5 suits returns of up to 100, a smaller one smaller returns; "
    "--reward-scale scales them)"
)

METRICS: dict[str, Meaning] = {
    AVERAGE_Q: Meaning(
        "mean Q of a fixed sample of logged pairs, at the evaluation", "return", "values", "Average Q", "value"
    ),
    AVERAGE_RETURN_TO_GO: Meaning(
        "mean return-to-go of the same pairs", "return", "values", "Average return-to-go of the data"
    ),
    FQE_VALUE: Meaning(
        "value of the policy by fitted Q evaluation, at the starts of held-out episodes",
        "return",
        "values",
        "Value by fitted Q evaluation",
    ),
    FQE_LOW: Meaning("lower end of its 95% interval over held-out episodes", "return"),
    FQE_HIGH: Meaning("upper end of that interval", "return"),
    BEHAVIOUR_VALUE: Meaning("mean return of the same held-out episodes as they were logged", "return"),
    ACTION_DISTANCE: Meaning(
        "mean squared distance of the policy's action to the logged one, on held-out episodes",
        "squared action",
        "cloning",
        "Squared distance to held-out actions",
    ),
    HELD_OUT_AGREEMENT: Meaning(
        "share of held-out steps in which the policy chooses the logged action",
        "share",
        "cloning",
        "Agreement with held-out actions",
    ),
    HELD_OUT_LIKELIHOOD: Meaning(
        "mean log-probability of the actions of held-out episodes under the policy",
        "nats",
        "cloning",
        "Log-likelihood of held-out actions",
    ),
    "average_q_batch": Meaning("mean Q of the pairs that were drawn", "return", signal="value"),
    "average_target": Meaning("mean TD target", "return", signal="value"),
    "average_value": Meaning("mean of the value network at the states that were drawn", "return", signal="value"),
    BOUND_RATE: Meaning(
        "share of sampled actions whose Q lies below the reference value",
        "share",
        "bounds",
        "Bound rate",
        parts=(("policy", "Bound rate, actions at s"), ("next", "Bound rate, actions at s′")),
    ),
    "bounded_targets": Meaning(
        "share of TD targets outside the range of possible returns, before they were cut to it", "share"
    ),
    "conservative_gap": Meaning(
        "how far a soft maximum of Q over sampled actions stands above Q of the logged one",
        "return",
        "regulariser",
        "Conservative gap",
    ),
    "alpha_prime": Meaning(
        "weight of the conservative regulariser",
        "weight",
        "regulariser",
        "Conservative weight α′",
        steers=True,
        adapted=Adapted("conservative_gap", "gap", FIXED_WEIGHT),
    ),
    "td_loss": Meaning("mean squared TD error of the critics", "squared return", "learning", "TD loss", "td error"),
    "value_loss": Meaning(
        "asymmetric squared error of the value network", "squared return", "learning", "Value loss", "td error"
    ),
    ENTROPY: Meaning(
        "entropy of the policy, estimated from its own actions", "nats", "learning", "Policy entropy", steers=True
    ),
    "alpha": Meaning("weight of the entropy", "weight", "learning", "Entropy temperature α", steers=True),
    "advantage": Meaning("mean advantage of logged actions", "return", "weights", "Advantage of logged actions"),
    "weight": Meaning(
        "mean weight of a logged action in the policy's loss", "weight", "weights", "Weight of a logged action"
    ),
    "largest_weight": Meaning(
        "largest weight of a logged action in a batch", "weight", "weights", "Largest weight in a batch"
    ),
    "log_likelihood": Meaning(
        "mean log-density of logged actions under the policy",
        "nats",
        "cloning",
        "Log-likelihood of logged actions",
        "likelihood",
    ),
    "squared_error": Meaning(
        "mean squared distance of the deterministic action to the logged one",
        "squared action",
        "cloning",
        "Squared error of the deterministic action",
    ),
    "agreement": Meaning(
        "share of logged discrete actions that are the policy's most likely ones",
        "share",
        "cloning",
        "Agreement with logged actions",
    ),
    "cloning_distance": Meaning(
        "mean squared distance of the policy's action to the logged one",
        "squared action",
        "cloning",
        "Squared distance to logged actions",
    ),
    "critic_loss": Meaning("what the critics descend: TD errors over all critics, and the regulariser", "loss"),
    "policy_loss": Meaning("what the policy descends", "loss"),
}

CRITICS = (
    Remedy("--target-bounds", "target_bounds", {"target_bounds": False}),
    Remedy(
        "a --conservative-weight below {conservative_weight:g}",
        "conservative_weight",
        {"conservative": True, "dual": False},
    ),
    Remedy("a --critic-rate below {critic_rate:g}", "critic_rate"),
)
REMEDIES: dict[Signal, tuple[Remedy, ...]] = {
    "value": CRITICS,
    "td error": CRITICS,
    "likelihood": (Remedy("a --policy-rate below {policy_rate:g}", "policy_rate"),),
}


def meaning_of(name: str) -> Meaning | None:
    """Of a metric by its name, or of the family that it belongs to; None for what is not a metric."""
    return METRICS.get(name.partition("/")[0])


def of_panel(panel: Panel) -> dict[str, Meaning]:
    """The metrics that a figure shows, in its order."""
    return {name: meaning for name, meaning in METRICS.items() if meaning.panel == panel}


def in_family(family: str, names: set[str]) -> list[str]:
    """Those of the names that belong to a metric with parts."""
    return sorted(name for name in names if name.startswith(f"{family}/"))


def by_part(family: str, names: set[str]) -> dict[str, list[str]]:
    """Those of the names that belong to a family, by the titles of its parts; parts that it does not name come last."""
    members, titles = in_family(family, names), dict(METRICS[family].parts)
    found = {name.rsplit("/", 1)[1] for name in members}
    order = [*(part for part in titles if part in found), *sorted(found - titles.keys())]
    return {
        titles.get(part, f"{METRICS[family].title}, {part}"): [name for name in members if name.endswith(f"/{part}")]
        for part in order
    }
