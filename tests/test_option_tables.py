"""A misspelt name in a table of options is an error when the table is read, in every layer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import toy_task as toy

from calql import experiment as experiments
from calql import methods, tables
from calql.errors import UserError
from calql.experiment import Choice
from calql.methods import METHODS, PRESETS
from calql.tasks import all_tasks


@pytest.mark.parametrize("options", [{"*": {"gamma": 0.9}}, {"iql": {"expectil": 0.9}}, {"iql": {"critic_steps": 2}}])
def test_options_of_a_task(options: dict) -> None:
    """The last is an option, but not of that method."""
    task = replace(toy.task(), options=options)
    with pytest.raises(UserError, match="no option is called"):
        experiments.defaults(Choice(method="cal-ql"), task)


@pytest.mark.parametrize("changes", [{"options": {"iqql": {}}}, {"method_rewards": {"iqql": toy.task().rewards}}])
def test_methods_of_a_task(changes: dict) -> None:
    with pytest.raises(UserError, match="no method is called 'iqql'; did you mean 'iql'"):
        experiments.defaults(Choice(method="cal-ql"), replace(toy.task(), **changes))


def test_what_only_some_methods_have_may_be_set_for_all() -> None:
    task = replace(toy.task(), options={"*": {"expectile": 0.8, "mixing": 0.25}})
    run, options = experiments.defaults(Choice(method="cal-ql"), task)
    assert run.mixing == 0.25
    assert not hasattr(options, "expectile")
    assert experiments.defaults(Choice(method="iql"), task)[1].expectile == 0.8


def test_what_a_method_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(methods.METHODS, "iql", replace(METHODS["iql"], sets={"ofline_updates": 3}))
    with pytest.raises(UserError, match="no option is called 'ofline_updates'; did you mean 'offline_updates'"):
        experiments.defaults(Choice(method="iql"))
    experiments.defaults(Choice(method="cal-ql"))


def test_what_a_preset_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "corl", {"calibrate_onlin": False})
    with pytest.raises(UserError, match="preset 'corl': no option is called 'calibrate_onlin'"):
        experiments.defaults(Choice(preset="corl"))


def test_every_table_of_the_package() -> None:
    for name in METHODS:
        tables.check_method(name)
    for name in PRESETS:
        tables.check_preset(name)
    for task in all_tasks().values():
        tables.check_task(task)


def test_targets_are_bounded_on_own_data_and_as_presets_say() -> None:
    own = replace(toy.task(), options={"*": {"target_bounds": True}})
    assert experiments.defaults(Choice(), own)[1].target_bounds
    assert not experiments.defaults(Choice(preset="paper"), own)[1].target_bounds
    assert not experiments.defaults(Choice(), all_tasks()["point-maze-narrow"])[1].target_bounds
    assert experiments.defaults(Choice(preset="corl"), toy.task())[1].target_bounds
