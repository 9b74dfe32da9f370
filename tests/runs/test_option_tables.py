"""A misspelt name in a table of options is an error when the table is read, in every layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import toy_task as toy

from calql.domains.registry import all_tasks
from calql.methods import METHODS, PRESETS
from calql.methods.entry import Compared
from calql.methods.iql import IQLOptions
from calql.runs import request, tables
from calql.runs.request import Choice
from calql.system.errors import UserError
from calql.system.options import CountOrZero


def test_options_of_a_task() -> None:
    task = replace(toy.task(), options={"gamma": 0.9})
    with pytest.raises(UserError, match="no option is called"):
        request.defaults(Choice(method="cal-ql"), task)


@pytest.mark.parametrize("options", [{"expectil": 0.9}, {"critic_steps": 2}])
def test_options_of_a_method_on_a_domain(options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last is an option, but not of that method."""
    monkeypatch.setitem(METHODS._known(), "iql", replace(METHODS["iql"], on={"antmaze": options}))
    with pytest.raises(UserError, match="no option is called"):
        request.defaults(Choice(method="iql"), toy.task())


@pytest.mark.parametrize("table", [{"on": {"antmase": {}}}, {"rewards": {"antmase": toy.task().rewards}}])
def test_domains_of_a_method(table: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._known(), "iql", replace(METHODS["iql"], **table))
    with pytest.raises(UserError, match="no domain or task is called 'antmase'; did you mean 'antmaze'"):
        request.defaults(Choice(method="iql"), toy.task())
    request.defaults(Choice(method="cal-ql"), toy.task())


def test_an_option_of_the_runs_name_has_the_runs_range(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Other(IQLOptions):
        seeds: CountOrZero = 0

    monkeypatch.setitem(METHODS._known(), "iql", replace(METHODS["iql"], options=Other))
    with pytest.raises(UserError, match="--seeds must be at least 0 by the method 'iql', and at least 1 elsewhere"):
        request.defaults(Choice(method="iql"), toy.task())


def test_what_only_some_methods_have_may_be_set_for_all() -> None:
    task = replace(toy.task(), options={"expectile": 0.8, "mixing": 0.25})
    run, options = request.defaults(Choice(method="cal-ql"), task)
    assert run.mixing == 0.25
    assert not hasattr(options, "expectile")
    assert request.defaults(Choice(method="iql"), task)[1].expectile == 0.8


def test_what_a_method_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._known(), "iql", replace(METHODS["iql"], sets={"ofline_updates": 3}))
    with pytest.raises(UserError, match="no option is called 'ofline_updates'; did you mean 'offline_updates'"):
        request.defaults(Choice(method="iql"))
    request.defaults(Choice(method="cal-ql"))


@pytest.mark.parametrize("table", [{"smoke": {"critic": 2}}, {"compared": Compared((0.2, 1.0), "", {"critic": 2})}])
def test_what_a_method_is_cut_down_to(table: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._known(), "iql", replace(METHODS["iql"], **table))
    with pytest.raises(UserError, match="no option is called 'critic'; did you mean 'critics'"):
        request.defaults(Choice(method="iql"))


def test_what_a_preset_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "corl", {"calibrate_onlin": False})
    with pytest.raises(UserError, match="preset 'corl': no option is called 'calibrate_onlin'"):
        request.defaults(Choice(preset="corl"))


def test_every_table_of_the_package() -> None:
    for name in METHODS:
        tables.check_method(name)
        tables.check_places(name)
    for name in PRESETS:
        tables.check_preset(name)
    for task in all_tasks().values():
        tables.check_task(task)


def test_targets_are_bounded_on_own_data_and_as_presets_say() -> None:
    own = replace(toy.task(), options={"target_bounds": True})
    assert request.defaults(Choice(), own)[1].target_bounds
    assert not request.defaults(Choice(preset="paper"), own)[1].target_bounds
    assert not request.defaults(Choice(), all_tasks()["point-maze-narrow"])[1].target_bounds
    assert request.defaults(Choice(preset="corl"), toy.task())[1].target_bounds
