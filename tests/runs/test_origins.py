"""Every option knows the table that its value came from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import toy_task as toy

from calql.domains.own.size import PAPER, fitting
from calql.domains.own.tasks import outline
from calql.domains.registry import get_task
from calql.engine.options import RunOptions
from calql.runs import request
from calql.runs.changes import noted
from calql.runs.origins import origins_of, resolve, resumed
from calql.runs.request import Choice
from calql.system.cores import available_cores
from calql.system.errors import UserError


@pytest.mark.parametrize(
    ("task", "method", "preset", "option", "value", "origin"),
    [
        ("antmaze-umaze", "cal-ql", "default", "seeds", 4, "default"),
        ("antmaze-umaze", "cal-ql", "default", "reference", "monte-carlo", "default"),
        ("antmaze-umaze", "cal-ql", "default", "conservative_weight", 5.0, "domain antmaze"),
        ("antmaze-umaze", "cal-ql", "default", "offline_updates", 1_000_000, "domain antmaze"),
        ("pen-binary", "cal-ql", "default", "online_steps", 200_000, "task pen-binary"),
        ("door-binary", "cal-ql", "default", "online_steps", 1_000_000, "task door-binary"),
        ("antmaze-umaze", "iql", "default", "policy_widths", (256, 256), "method iql"),
        ("antmaze-umaze", "iql", "default", "reference", "none", "method iql"),
        ("antmaze-umaze", "iql", "default", "expectile", 0.9, "method iql on antmaze"),
        ("point-maze-narrow", "iql", "default", "policy_widths", (64, 64), "method iql on point-maze"),
        ("antmaze-umaze", "rebrac", "default", "discount", 0.999, "method rebrac on antmaze"),
        ("antmaze-umaze", "rebrac", "default", "policy_penalty", 0.003, "method rebrac on antmaze-umaze"),
        ("antmaze-umaze", "rlpd", "default", "offline_updates", 0, "method rlpd"),
        ("antmaze-umaze", "cal-ql", "corl", "update_schedule", "step", "preset corl"),
        ("antmaze-umaze", "cal-ql", "corl", "policy_widths", (256, 256, 256), "preset corl"),
        ("antmaze-umaze", "cal-ql", "corl", "gap", 0.8, "domain antmaze"),
    ],
)
def test_the_layer_that_wins_is_named(
    task: str, method: str, preset: str, option: str, value: object, origin: str
) -> None:
    found = resolve(method, preset, get_task(task))
    assert (found.values[option], found.origins[option]) == (value, origin)
    assert found.origins.keys() == found.values.keys()


def test_what_you_set_is_yours_even_where_it_changes_nothing() -> None:
    found = request.resolve(Choice(), get_task("point-maze-narrow"), {"seeds": 4, "conservative_weight": 1.0})
    assert (found.run.seeds, found.origins["seeds"]) == (4, "you")
    assert (found.options.conservative_weight, found.origins["conservative_weight"]) == (1.0, "you")
    assert found.origins["first_seed"] == "default"


def test_an_option_that_neither_has_is_refused() -> None:
    with pytest.raises(UserError, match="no option is called 'sedes'; did you mean 'seeds'"):
        request.resolve(Choice(), toy.task(), {"sedes": 4})


def test_own_data_is_a_domain() -> None:
    found = resolve("cal-ql", "default", outline("corridor:Corridor-v0"))
    assert (found.options.target_bounds, found.origins["target_bounds"]) == (True, "domain own")
    assert (found.run.offline_updates, found.origins["offline_updates"]) == (100_000, "domain own")


def test_own_data_on_a_cpu_is_sized_for_it_unless_the_papers_size_is_asked_for() -> None:
    own = {"dataset": "mine.npz", "env": "corridor:Corridor-v0"}
    choice = Choice(**own)
    small = request.resolve(choice, request.outline(choice))
    assert small.options.critic_widths == (64, 64)
    assert small.origins["critic_widths"].startswith("machine with ")
    assert (small.run.offline_updates, small.origins["offline_updates"]) == (10_000, "domain own")
    paper = Choice(**own, preset="paper")
    large = request.resolve(paper, request.outline(paper))
    assert (large.options.critic_widths, large.options.batch_size) == ((256,) * 4, 256)
    assert (large.run.offline_updates, large.run.online_steps) == (100_000, 100_000)


def test_the_machine_stands_above_a_method_and_below_you() -> None:
    choice = Choice(dataset="mine.npz", env="corridor:Corridor-v0", method="iql")
    found = request.resolve(choice, request.outline(choice), {"batch_size": 32})
    assert (found.options.policy_widths, found.options.batch_size) == ((64, 64), 32)
    assert found.origins["batch_size"] == "you"
    from_scratch = Choice(dataset="mine.npz", env="corridor:Corridor-v0", method="sac")
    assert request.resolve(from_scratch, request.outline(from_scratch)).run.offline_updates == 0


def test_an_accelerator_gets_the_papers_size() -> None:
    assert fitting("gpu") == PAPER
    assert fitting("gpu").notes() == []
    cores = available_cores()
    (note,) = fitting("cpu").notes()
    assert f"--preset paper trains networks of 256 units with batches of 256 for {100_000:,} updates" in note
    assert f"with Cal-QL, some {3.75 / cores:.1g} hours here for each seed before it goes online" in note
    assert note.startswith("what you do not set is sized for ")
    assert "online" not in fitting("cpu").notes(online=False)[0]
    assert "hours" not in fitting("cpu").of_choices().notes()[0]


def test_a_reference_value_that_the_data_ask_for() -> None:
    task = replace(outline("corridor:Corridor-v0"), reference="sarsa")
    found = resolve("cal-ql", "default", task)
    assert (found.run.reference, found.origins["reference"]) == ("sarsa", "domain own")
    assert resolve("bc", "default", task).origins["reference"] == "method bc"


def test_options_of_a_run_that_differ_from_the_tables_are_yours() -> None:
    usual = request.resolve(Choice(method="bc"), toy.task())
    run, options = request.set_options(usual.run, usual.options, {"seeds": 1, "action_limit": 0.99}, "bc")
    found = origins_of(usual, run, options, given=("hold_out",))
    assert (found["seeds"], found["hold_out"], found["action_limit"]) == ("you", "you", "method bc")


def test_a_resumption_is_yours_too() -> None:
    assert resumed({"seeds": "you", "block": "default"}, ["block"]) == {"seeds": "you", "block": "you (on resuming)"}
    run = vars(RunOptions())
    common = {"rewards": {}, "environment": {}, "cores": 2, "devices": 1, "versions": {}}
    config = {**common, "run": run, "origins": {"online_steps": "domain own", "seeds": "default"}}
    now = {**common, "run": {**run, "online_steps": 2_000_000}}
    assert noted(config, now)["origins"] == {"online_steps": "you (on resuming)", "seeds": "default"}
    del config["origins"]  # a run of before
    assert "origins" not in noted(config, now)
