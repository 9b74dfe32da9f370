"""Which cells an experiment has at each scale, and when two of them are the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from reproduce_cells import tiny_cell

from calql.domains.registry import all_tasks, get_task
from calql.experiments.cells import TASKS_OWN, Cell
from calql.experiments.experiment import cells_of
from calql.experiments.folders import prepare
from calql.experiments.paper.matrices import EXPERIMENTS, find_experiment
from calql.experiments.scales import PAPER, SCALES, SMALL, SMOKE, Scale
from calql.experiments.training import command_of
from calql.methods import METHODS
from calql.runs import request
from calql.runs.request import Choice
from calql.system.errors import UserError


def _ids(name: str, scale: Scale = SMALL, **chosen: tuple[str, ...]) -> set[str]:
    return {cell.id for cell in cells_of(EXPERIMENTS[name], scale, **chosen)}


def test_the_same_cell_whatever_an_experiment_calls_it() -> None:
    cell = tiny_cell()
    named = dataclasses.replace(cell, variant="mixing=0.5", shortened="in some way", paper_online_steps=7)
    assert named.id == cell.id


@pytest.mark.parametrize(
    "changes", [{"seeds": 2}, {"scale": "small"}, {"options": {"mixing": 0.25}}, {"method": "cql"}]
)
def test_another_cell_for_whatever_changes_the_result(changes: dict[str, object]) -> None:
    assert dataclasses.replace(tiny_cell(), **changes).id != tiny_cell().id  # type: ignore[arg-type]


def test_a_cell_is_read_back_from_its_folder(tmp_path: Path) -> None:
    for cell in cells_of(EXPERIMENTS["fig-idea"], SMOKE):
        assert Cell.read(prepare(tmp_path, cell)) == cell


@pytest.mark.slow
def test_tables_and_curves_share_their_cells() -> None:
    assert _ids("table-scores") == _ids("table-regret") == _ids("fig-curves")
    assert len(_ids("table-scores")) == 11 * 10 - 1  # the decision transformer takes no images


def test_variants_that_come_to_the_defaults_are_the_cells_of_the_tables() -> None:
    door = _ids("table-scores", tasks=("door-binary",), methods=("cal-ql", "iql"))
    assert _ids("fig-mixing") & _ids("table-scores") == door
    monte_carlo = {cell.id for cell in cells_of(EXPERIMENTS["fig-reference"], SMALL) if cell.variant.endswith("carlo")}
    assert monte_carlo == _ids("fig-reference") & _ids("table-scores")
    assert len(monte_carlo) == 3


@pytest.mark.parametrize("scale", SCALES.values(), ids=list(SCALES))
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_cell_can_be_planned(name: str, scale: Scale) -> None:
    cells = cells_of(EXPERIMENTS[name], scale)
    assert len({cell.id for cell in cells}) == len(cells) > 0
    for cell in cells:
        assert cell.task in all_tasks()
        assert cell.method in METHODS
        choice = Choice(task=cell.task, method=cell.method)
        request.set_options(*request.defaults(choice, get_task(cell.task)), cell.options, cell.method)


# Sections 0, 5 and 6 of the protocol: offline updates, online steps, updates a step, evaluation interval and episodes.
PROTOCOL = {
    "antmaze-large-diverse": (1_000_000, 1_000_000, 1, 2_000, 20),
    "kitchen-mixed": (500_000, 1_500_000, 1, 5_000, 20),
    "pen-binary": (20_000, 200_000, 1, 2_000, 20),
    "door-binary": (20_000, 1_000_000, 1, 2_000, 20),
    "pick-place": (50_000, 100_000, 5, 2_000, 20),
    "hopper-medium": (500_000, 1_000_000, 1, 50_000, 10),
}


@pytest.mark.parametrize("task", PROTOCOL)
def test_the_scale_of_the_paper_is_its_protocol(task: str) -> None:
    experiment = EXPERIMENTS["table-locomotion" if task == "hopper-medium" else "table-scores"]
    for cell in cells_of(experiment, PAPER, tasks=(task,), methods=("cal-ql", "cql")):
        run, learner = request.defaults(Choice(task=task, method=cell.method), get_task(task))
        run, _ = request.set_options(run, learner, cell.options, cell.method)
        lengths = (run.offline_updates, run.online_steps, run.update_ratio)
        assert (*lengths, run.evaluate_online_every, run.evaluation_episodes) == PROTOCOL[task]
        assert (cell.paper_offline_updates, cell.paper_online_steps) == PROTOCOL[task][:2]
        assert (cell.seeds, cell.shortened, cell.data) == (6, "", "task")


def test_the_paper_has_three_seeds_at_twenty_updates_a_step() -> None:
    assert {cell.seeds for cell in cells_of(EXPERIMENTS["fig-utd"], PAPER)} == {3}


def test_a_small_cell_says_how_it_was_shortened() -> None:
    (cell,) = cells_of(EXPERIMENTS["table-scores"], SMALL, tasks=("door-binary",), methods=("cal-ql",))
    assert "online steps 14,000 (paper: 1,000,000)" in cell.shortened
    assert "4 seeds (paper: 6)" in cell.shortened
    assert cell.options["online_steps"] == 14_000
    assert "offline_updates" not in cell.options  # as many as the paper


def test_methods_without_pre_training_get_none_at_any_scale() -> None:
    for scale in SCALES.values():
        for cell in cells_of(EXPERIMENTS["table-scores"], scale, tasks=("door-binary",), methods=("sac", "hybrid")):
            assert "offline_updates" not in cell.options
            assert cell.paper_offline_updates == 0


def test_the_command_of_a_cell_runs_it_alone() -> None:
    cell = Cell("door-binary", "cal-ql", "small", 4, {"mixing": 0.25, "policy_widths": (8, 8), "dual": True})
    assert command_of(cell) == (
        "calql train --task door-binary --method cal-ql --seeds 4 --dual --mixing 0.25 --policy-widths 8 8"
    )


def test_a_cell_may_have_another_dataset() -> None:
    cell = Cell("door-binary", "bc", "small", 1, data="door-binary-cloned")
    assert command_of(cell).endswith("--seeds 1 --dataset door-binary-cloned")
    assert "--dataset" not in command_of(dataclasses.replace(cell, data=TASKS_OWN))


def test_the_smallest_try_has_what_a_methods_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = dataclasses.replace(METHODS["iql"], smoke={"critics": 1})
    monkeypatch.setitem(METHODS._known(), "iql", entry)  # type: ignore[arg-type]
    (cell,) = cells_of(EXPERIMENTS["table-scores"], SMOKE, methods=("iql",))
    assert cell.options["critics"] == 1


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'fig-mixing'"):
        find_experiment("fig-mixin")
    with pytest.raises(UserError, match="did you mean 'door-binary'"):
        cells_of(EXPERIMENTS["table-scores"], SMALL, tasks=("dor-binary",))
    with pytest.raises(UserError, match="did you mean 'cal-ql'"):
        cells_of(EXPERIMENTS["table-scores"], SMALL, methods=("calql",))
    with pytest.raises(UserError, match="--seeds is 0"):
        cells_of(EXPERIMENTS["table-scores"], SMALL, seeds=0)


def test_options_for_every_cell_that_has_them() -> None:
    changes = ["precision=bfloat16", "critic-widths=8,8"]
    cells = cells_of(EXPERIMENTS["fig-mixing"], SMALL, methods=("cal-ql", "iql"), changes=changes)
    by_method = {cell.method: cell for cell in cells}
    assert by_method["cal-ql"].options["precision"] == "bfloat16"
    assert by_method["cal-ql"].options["critic_widths"] == (8, 8)
    assert "precision bfloat16 (paper: tf32)" in by_method["cal-ql"].shortened
    assert "precision" not in by_method["iql"].options
    usual = cells_of(EXPERIMENTS["fig-mixing"], SMALL, methods=("cal-ql",))
    assert usual[0].id not in {cell.id for cell in cells}


@pytest.mark.parametrize(
    ("change", "said"),
    [("precison=x", "precision"), ("precision", "NAME=VALUE"), ("online_steps=many", "a whole number")],
)
def test_changes_that_mean_nothing_are_refused(change: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        cells_of(EXPERIMENTS["fig-mixing"], SMALL, changes=[change])
