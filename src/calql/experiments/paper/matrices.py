"""Which tasks and which arms each table and figure of the paper is made of."""

from __future__ import annotations

from collections.abc import Mapping

from calql.experiments.experiment import Arm, Experiment
from calql.methods import method_entry
from calql.system.errors import unknown
from calql.system.options import POOLED

ADROIT = ("door-binary", "pen-binary", "relocate-binary")
KITCHEN = ("kitchen-partial", "kitchen-mixed", "kitchen-complete")
ANTMAZE = ("antmaze-large-diverse", "antmaze-large-play", "antmaze-medium-diverse", "antmaze-medium-play")
IMAGES = ("pick-place",)
MAIN = (*ADROIT, *KITCHEN, *ANTMAZE, *IMAGES)
METHODS = ("cal-ql", "cql", "iql", "awac", "o3f", "odt", "cql-sac", "hybrid", "sac-offline", "sac")

BODIES = ("hopper", "halfcheetah", "walker2d")
LEVELS = ("medium", "expert", "medium-expert", "medium-replay", "random")
LOCOMOTION = tuple(f"{body}-{level}" for body in BODIES for level in LEVELS)


def _plain(*methods: str) -> tuple[Arm, ...]:
    return tuple(Arm(method) for method in methods)


def _main(name: str, title: str) -> Experiment:
    """Every method on every task, but for images where a method takes none."""
    return Experiment(name, title, MAIN, tuple(Arm(method, only=_tasks_of(method)) for method in METHODS))


def _tasks_of(method: str) -> tuple[str, ...]:
    entry = method_entry(method)
    takes_images = entry.make(entry.options()).supports_images
    return () if takes_images else tuple(task for task in MAIN if task not in IMAGES)


def _mixing(method: str, *ratios: float) -> tuple[Arm, ...]:
    return tuple(Arm(method, f"mixing={ratio:g}", {"mixing": ratio}) for ratio in ratios)


def _iql() -> tuple[Arm, ...]:
    temperatures = tuple(
        Arm("iql", f"temperature_online={beta:g}", {"temperature_online": beta})
        for beta in (1.0, 3.0, 10.0, 25.0, 50.0)
    )
    return (
        Arm("iql", "utd=5", {"update_ratio": 5}),
        Arm("iql", "utd=1", {"update_ratio": 1}),
        Arm("cql", "utd=5", {"update_ratio": 5}),
        Arm("cql", "utd=1", {"update_ratio": 1}),
        Arm("iql", "aggressive", {"ascent_weight_online": 1.0}),
        *temperatures,
    )


def _references() -> tuple[Arm, ...]:
    return tuple(Arm("cal-ql", f"reference={kind}", {"reference": kind}) for kind in ("monte-carlo", "regression"))


# The paper shows 250 epochs of 1,000 offline updates in this figure, and a million in its tables.
_DATA = {"offline_updates": 250_000}
MOMENTS = {"switch": 0, "after": 1_000}  # environment steps after which Q is looked at in fig-idea


def _idea() -> tuple[Arm, ...]:
    return tuple(
        Arm(method, f"moment={moment}", {"online_steps": steps}, slices=moment)
        for method in ("cal-ql", "cql")
        for moment, steps in MOMENTS.items()
    )


EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        _main("table-scores", "Score before and after online fine-tuning (Table 1)"),
        _main("table-regret", "Cumulative regret of online fine-tuning (Table 2)"),
        Experiment(
            "fig-analysis",
            "Fine-tuning of offline methods on visual pick-and-place (Figures 2 and 3)",
            ("pick-place",),
            _plain("cql", "iql", "td3-bc", "awac"),
        ),
        _main("fig-curves", "Online learning curves, and the initial dip (Figures 6 and 12)"),
        Experiment(
            "fig-utd",
            "Cal-QL with many updates a step, against RLPD (Figure 7)",
            (*ADROIT, *ANTMAZE),
            (Arm("cal-ql-utd20", "utd=20"), Arm("rlpd", "utd=20"), Arm("cal-ql", "utd=1")),
            seeds=3,
            smoke_arms=3,
        ),
        Experiment(
            "fig-data",
            "Narrow against diverse data in AntMaze (Figure 8)",
            ("antmaze-medium-narrow", "antmaze-medium-diverse"),
            (Arm("cal-ql", options=_DATA), Arm("cql", options=_DATA)),
        ),
        Experiment(
            "fig-reference", "Monte-Carlo against regressed reference values (Figure 9)", KITCHEN[::-1], _references()
        ),
        Experiment(
            "table-locomotion",
            "Locomotion (Tables 5 and 6)",
            LOCOMOTION,
            _plain("cal-ql", "cql", "iql", "awac", "hybrid"),
        ),
        Experiment("fig-iql", "Why IQL improves slowly (Figures 10 and 11)", ("pick-place",), _iql()),
        Experiment(
            "fig-mixing",
            "Share of offline data in a batch (Figure 13)",
            ("door-binary",),
            (*_mixing("cal-ql", 0.5, 0.25, POOLED), *_mixing("iql", 0.2, 0.5, POOLED)),
        ),
        Experiment(
            "fig-idea",
            "Q over actions against the true return, before and after the first online updates (Figure 4)",
            ("point-maze-narrow",),
            _idea(),
            smoke_arms=4,
        ),
    )
}


def find_experiment(name: str, also: tuple[str, ...] = ()) -> Experiment:
    if name not in EXPERIMENTS:
        raise unknown("table or figure", name, (*EXPERIMENTS, *also), where="calql reproduce")
    return EXPERIMENTS[name]
