"""Every option has a type and a range, and no way in is laxer than another."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from calql.cli import bench, data, data_difficulty, data_view, evaluate, render, reproduce, train, watch
from calql.engine.options import RunOptions
from calql.methods import METHODS
from calql.methods.iql import IQLOptions
from calql.methods.learner_options import ActorCriticOptions
from calql.runs import life as training
from calql.runs.request import Choice
from calql.system.errors import UserError
from calql.system.options import Checked, Count, CountOrZero, Positive, ranges_of, require_same

CLASSES: list[Any] = [
    RunOptions,
    Choice,
    training.Watching,
    *dict.fromkeys(entry.options for entry in METHODS.values()),  # in one order in every process
    *(
        kind
        for module in (bench, data, data_difficulty, data_view, evaluate, render, reproduce, train, watch)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and dataclasses.is_dataclass(kind)
    ),
]


def numeric(kind: type[Any]) -> Iterator[str]:
    """Names of the options that are a number, or several."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if set(_parts(hints[field.name])) & {int, float}:
            yield field.name


def _parts(hint: Any) -> Iterator[Any]:
    """A type and all that it is made of, but for the values of a choice."""
    yield hint
    if typing.get_origin(hint) not in (typing.Literal, Callable):
        for inner in typing.get_args(hint):
            yield from _parts(inner)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_number_has_a_range_that_is_checked(kind: type[Any]) -> None:
    names = set(numeric(kind))
    assert names <= ranges_of(kind).keys()
    assert not names or issubclass(kind, Checked)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_no_range_is_left_over(kind: type[Any]) -> None:
    assert ranges_of(kind).keys() <= set(numeric(kind))


def test_a_name_has_one_range_in_the_whole_package() -> None:
    met: dict[str, Any] = {}
    for kind in CLASSES:
        require_same(met, ranges_of(kind), kind.__name__)
        met |= ranges_of(kind)


def test_another_default_keeps_the_range() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(ActorCriticOptions):
        critics: int = 5

    with pytest.raises(UserError, match="--critics is 0; it must be at least 1"):
        Mine(critics=0)


def test_another_range_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(ActorCriticOptions):
        critics: CountOrZero = 5

    with pytest.raises(UserError, match="--critics must be at least 0 by Mine, and at least 1 elsewhere"):
        Mine()


@pytest.mark.parametrize("kind", [k for k in CLASSES if issubclass(k, Checked)], ids=lambda kind: kind.__name__)
def test_no_number_may_be_nan(kind: type[Any]) -> None:
    hints = typing.get_type_hints(kind)
    needed = {
        field.name: ("x",) if typing.get_origin(hints[field.name]) is tuple else "x"
        for field in dataclasses.fields(kind)
        if field.default is field.default_factory is dataclasses.MISSING
    }
    for name in numeric(kind):
        several = typing.get_origin(hints[name]) is tuple
        with pytest.raises(UserError, match=f"--{name.replace('_', '-')} is .*it must be"):
            kind(**needed, **{name: (float("nan"),) * 2 if several else float("nan")})


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (ActorCriticOptions, {"policy_rate": 0.0}, "--policy-rate is 0.0; it must be above 0"),
        (ActorCriticOptions, {"critic_rate": -1e-3}, "--critic-rate is -0.001; it must be above 0"),
        (ActorCriticOptions, {"target_rate": 2.0}, "--target-rate is 2.0; it must be above 0 and at most 1"),
        (ActorCriticOptions, {"log_std_range": (2.0, -20.0)}, "it must be the lower bound first"),
        (ActorCriticOptions, {"difference_clip": (5.0, -5.0)}, "it must be the lower bound first"),
        (ActorCriticOptions, {"conservative_weight": -5.0}, "--conservative-weight is -5.0; it must be at least 0"),
        (ActorCriticOptions, {"conservative_weight_online": -2.0}, "it must be at least 0, or -1"),
        (ActorCriticOptions, {"batch_size": 2.5}, "--batch-size is 2.5; it must be a whole number, at least 1"),
        (ActorCriticOptions, {"batch_size": "256"}, "--batch-size is '256'; it must be a whole number"),
        (ActorCriticOptions, {"policy_widths": (256, 0)}, "--policy-widths is 0; it must be at least 1"),
        (ActorCriticOptions, {"critic_widths": (-3,)}, "--critic-widths is -3; it must be at least 1"),
        (ActorCriticOptions, {"policy_widths": ()}, "it must be at least one whole number"),
        (ActorCriticOptions, {"policy_widths": 256}, "it must be several values in a row"),
        (ActorCriticOptions, {"critic_loss": "maen"}, "it must be sum or mean .did you mean 'mean'"),
        (ActorCriticOptions, {"dual": "no"}, "--dual is 'no'; it must be true or false"),
        (ActorCriticOptions, {"discount": None}, "--discount is None; it must be a number"),
        (IQLOptions, {"expectile": 1.0}, "--expectile is 1.0; it must be above 0 and below 1"),
        (RunOptions, {"seeds": True}, "--seeds is True; it must be a whole number"),
        (RunOptions, {"seeds": 2**40}, "it must be at most 2147483647"),
        (RunOptions, {"mixing": -0.5}, r"--mixing is -0.5; it must be in \[0, 1\], or -1"),
        (RunOptions, {"reference": "montecarlo"}, "no reference value is called 'montecarlo'; did you mean"),
        (RunOptions, {"update_schedule": "steps"}, "did you mean 'step'"),
        (RunOptions, {"lag": 2}, "--lag is 2; it must be 0 or 1"),
        (RunOptions, {"online_steps": float("inf")}, "--online-steps is inf; it must be a whole number"),
        (RunOptions, {"checkpoint_minutes": float("inf")}, "--checkpoint-minutes is inf"),
        (Choice, {"episode_limit": -5}, "--episode-limit is -5; it must be at least 1"),
        (Choice, {"reward_scale": 0.0}, "--reward-scale is 0.0; it must be other than 0"),
        (Choice, {"task": 3}, "--task is 3; it must be a text"),
        (training.Watching, {"max_minutes": -1}, "--max-minutes is -1; it must be above 0"),
        (evaluate.EvaluateOptions, {"run": "x", "episodes": 0}, "--episodes is 0; it must be at least 1"),
    ],
)
def test_what_no_option_may_be(kind: type[Any], change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        kind(**change)


def test_numbers_of_other_libraries_become_pythons() -> None:
    made = ActorCriticOptions(
        batch_size=np.int64(32),  # type: ignore[arg-type]
        discount=np.float32(0.5),  # type: ignore[arg-type]
        gap=1,
        policy_widths=[8, np.int32(8)],  # type: ignore[arg-type,list-item]
        dual=np.bool_(False),  # type: ignore[arg-type]
    )
    assert (made.batch_size, made.discount, made.gap) == (32, 0.5, 1.0)
    assert made.policy_widths == (8, 8)
    assert [type(v) for v in (made.batch_size, made.discount, made.gap, made.dual)] == [int, float, float, bool]


def test_an_unbounded_clip_is_meant() -> None:
    assert ActorCriticOptions(difference_clip=(-200.0, float("inf"))).difference_clip[1] == float("inf")


def test_ranges_of_ones_own() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(Checked):
        curiosity: Positive = 1.0
        looks: Count | None = None

    assert Mine(looks=3).looks == 3
    for change, said in (({"curiosity": 0.0}, "it must be above 0"), ({"looks": 0}, "it must be at least 1")):
        with pytest.raises(UserError, match=said):
            Mine(**change)  # type: ignore[arg-type]


def test_a_method_of_ones_own_may_have_options_without_a_range() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(Checked):
        curiosity: float = -3.0

    assert Mine().curiosity == -3.0
    with pytest.raises(UserError, match="--curiosity is nan; it must be a finite number"):
        Mine(float("nan"))
