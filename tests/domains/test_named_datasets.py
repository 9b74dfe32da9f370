"""Datasets by name: a task trains on a variant of its data, and on nobody else's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calql.cli import main
from calql.data.dataset import Dataset
from calql.data.store import BuildContext, folder
from calql.domains.adroit import data as adroit
from calql.domains.datasets import named, recipe
from calql.domains.registry import Task, all_recipes, all_tasks
from calql.runs import preparation, record, request
from calql.runs.preparation import Prepared
from calql.runs.request import Choice
from calql.system.errors import UserError


def two_demonstrations(context: BuildContext) -> Dataset:
    rng = np.random.default_rng(context.seed)
    ends = np.array([0, 0, 1, 0, 0, 1], bool)
    observations = rng.normal(size=(7, 39)).astype(np.float32)
    return Dataset(
        observations[:-1],
        rng.uniform(-1, 1, (6, 28)).astype(np.float32),
        ends.astype(np.float32) - 1.0,
        observations[1:],
        ends,
        np.zeros(6, bool),
        notes=("two made-up demonstrations",),
    )


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data folder of its own, and a door variant that needs no sources."""
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for name in ("door-binary", "door-binary-cloned"):
        monkeypatch.setitem(adroit.RECIPES, name, replace(adroit.RECIPES[name], build=two_demonstrations))


def resolved(choice: Choice) -> Prepared:
    task, data, notes = request.resolve_task(choice)
    run, options = request.defaults(choice, task)
    return preparation.prepare(choice, task, data, run, options, notes)


def test_every_dataset_belongs_to_a_task() -> None:
    assert {made.task for made in all_recipes().values()} == set(all_tasks())
    assert recipe("door-binary-cloned").task == "door-binary"
    assert recipe("hopper-medium").task == "hopper-medium"


@pytest.mark.parametrize("task", all_tasks().values(), ids=lambda task: task.name)
def test_what_a_task_names_has_a_recipe(task: Task) -> None:
    """Tasks of this package name their data, so that none of them imports what finds tasks."""
    assert recipe(str(task.data)).task == task.name
    assert task.held_out is None or recipe(str(task.held_out)).name not in all_tasks()


def test_a_variant_is_built_into_the_store_and_trained_on() -> None:
    found = resolved(Choice(task="door-binary", dataset="door-binary-cloned"))
    assert found.task.name == "door-binary"
    assert len(found.data) == 6
    assert found.data.source == str(folder("door-binary-cloned") / "data.npz")
    assert "two made-up demonstrations" in found.notes


def test_the_name_of_a_variant_is_enough() -> None:
    assert resolved(Choice(dataset="door-binary-cloned")).task.name == "door-binary"


def test_a_run_remembers_the_name_and_resumes_with_the_same_data(tmp_path: Path) -> None:
    found = resolved(Choice(task="door-binary", dataset="door-binary-cloned"))
    config = record.describe(found, "calql train")
    assert config["choice"]["dataset"] == "door-binary-cloned"
    (tmp_path / "config.json").write_text(json.dumps(config, default=str))
    again, _ = record.from_config(tmp_path)
    assert again.data.source == found.data.source
    assert np.array_equal(again.data.observations, found.data.observations)


def test_a_set_that_was_built_anew_with_other_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolved(Choice(task="door-binary", dataset="door-binary-cloned"))
    (tmp_path / "config.json").write_text(json.dumps(record.describe(found, "calql train"), default=str))
    changed = replace(
        adroit.RECIPES["door-binary-cloned"],
        version=99,
        build=lambda context: two_demonstrations(replace(context, seed=1)),
    )
    monkeypatch.setitem(adroit.RECIPES, "door-binary-cloned", changed)
    with pytest.raises(UserError, match="not those the run was started with"):
        record.from_config(tmp_path)


@pytest.mark.parametrize(
    ("task", "dataset", "said"),
    [
        ("relocate-binary", "door-binary-cloned", "is data of door-binary, not of relocate-binary.*--task door-binary"),
        ("kitchen-mixed", "kitchen-partial", "is data of kitchen-partial, not of kitchen-mixed"),
        ("door-binary", "dor-binary-clone", "no dataset is called .*did you mean 'door-binary-cloned'"),
        ("door-binry", "door-binary-cloned", "no task is called .*did you mean 'door-binary'"),
    ],
)
def test_other_names_are_refused_before_anything_is_built(
    task: str, dataset: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Dataset:
        raise AssertionError("built")

    monkeypatch.setattr("calql.domains.datasets.obtain", never)
    with pytest.raises(UserError, match=said):
        request.resolve_task(Choice(task=task, dataset=dataset))


def test_files_are_files(tmp_path: Path) -> None:
    assert named("mine.hdf5") is None
    assert named("minari:D4RL/door/human-v2") is None
    assert named("folder/hopper-medium") is None
    (tmp_path / "hopper-medium").touch()  # the working folder
    assert named("hopper-medium") is None


def test_the_list_names_variants_and_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    resolved(Choice(task="door-binary", dataset="door-binary-cloned"))
    capsys.readouterr()
    assert main(["data", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(all_recipes()) <= set(lines)
    assert lines["door-binary-cloned"].split()[1:3] == ["door-binary", "built"]
    assert lines["hopper-medium"].split()[1:4] == ["hopper-medium", "1,000,000", "-"]
