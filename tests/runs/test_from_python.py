"""Runs to which a program gives data and environment as objects: resumed, evaluated and loaded like any other."""

from __future__ import annotations

import functools
import inspect
import json
import os
import shutil
import subprocess
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from rich.console import Console
from test_probe import TINY

import calql
import corridor
from calql.runs import given, life
from calql.runs.api import as_keywords
from calql.runs.lock import LOCK
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {**TINY, "episode_limit": 20}


def make_corridor() -> gymnasium.Env[Any, Any]:
    return corridor.Corridor()


def train(folder: Path, env: Any = make_corridor, **changes: Any) -> Path:
    dataset = changes.pop("dataset", None) or corridor.demonstrations()
    return calql.train(dataset=dataset, env=env, out=folder, **{**OPTIONS, **changes}).folder


def config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def cut(tmp_path: Path) -> Callable[..., Path]:
    """A run that ended after its offline phase, and goes on to the same end when it is extended."""
    return lambda **changes: train(tmp_path / "run", online_steps=0, **changes)


def test_errors_speak_python(tmp_path: Path) -> None:
    data = corridor.demonstrations()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"enviroment": "corridor:Corridor-v0"}, "no option is called 'enviroment'; did you mean 'env'"),
        ({}, "^env is missing; .* dataset FILE and env package:Name-v0, or offline=True for logs alone$"),
        ({"env": lambda: corridor.Corridor()}, r"give one, for example episode_limit=\d+: the longest"),
    ]
    for options, said in cases:
        with pytest.raises(UserError, match=said):
            calql.train(dataset=data, out=tmp_path / "run", **options)
    assert as_keywords("--real is 3; leave out --env") == "real is 3; leave out env"
    assert as_keywords("go on --no-probe, or with --drop-bad-episodes") == (
        "go on probe=False, or with drop_bad_episodes=True"
    )


def test_what_is_printed_is_short(whole: Path) -> None:
    data = corridor.demonstrations()
    assert repr(data).startswith(f"<Dataset {data.source}: {len(data)} steps, {len(data.episode_ends)} episodes, ")
    assert repr(calql.load_policy(whole)) == "<LoadedPolicy cal-ql on make_corridor, seed 0>"


def test_it_says_what_was_given(whole: Path) -> None:
    assert config(whole)["given"] == {"dataset": "data.npz", "env": f"{__name__}:make_corridor"}
    kept, data = np.load(whole / "data.npz"), corridor.demonstrations()
    for name in given.COLUMNS:
        np.testing.assert_array_equal(kept[name], getattr(data, name))


def test_it_goes_on_as_if_never_interrupted(whole: Path, cut: Callable[..., Path]) -> None:
    folder = cut()
    assert calql.resume(folder, online_steps=OPTIONS["online_steps"]).finished
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_it_is_evaluated_and_loaded(whole: Path) -> None:
    found = calql.evaluate(whole, 3)
    assert found["task"] == "make_corridor"
    assert found == calql.evaluate(whole, 3, env=corridor.Corridor)
    assert all(0 < length <= 20 for length in found["episode_length"])
    assert calql.load_policy(whole)(np.array([0.0, 1.0], np.float32)).shape == (1,)


ELSEWHERE = """
import sys
import calql
print(calql.evaluate(sys.argv[1], 2)["score"])
assert calql.resume(sys.argv[1], online_steps=40).finished
"""


def test_another_process_finds_all_of_it(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns(LOCK)))
    ended = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == calql.evaluate(whole, 2)["score"]


def test_a_class_is_named_too_and_a_name_needs_no_note(tmp_path: Path) -> None:
    train(tmp_path / "class", corridor.Corridor, online_steps=0)
    assert config(tmp_path / "class")["given"]["env"] == "corridor:Corridor"
    train(tmp_path / "name", "corridor:Corridor-v0", online_steps=0)
    assert config(tmp_path / "name")["given"] == {"dataset": "data.npz"}
    calql.train(
        dataset=corridor.write_demonstrations(tmp_path), env="corridor:Corridor-v0", out=tmp_path / "file",
        **{**OPTIONS, "online_steps": 0},
    )  # fmt: skip
    assert "given" not in config(tmp_path / "file")


@pytest.mark.parametrize("kind", ["lambda", "local", "partial"])
def test_a_function_without_a_place_is_given_again(kind: str, whole: Path, cut: Callable[..., Path]) -> None:
    def local() -> gymnasium.Env[Any, Any]:
        return corridor.Corridor()

    env = {"lambda": lambda: corridor.Corridor(), "local": local, "partial": functools.partial(corridor.Corridor)}[kind]
    folder = cut(env=env)
    for call in (lambda: calql.resume(folder, online_steps=20), lambda: calql.evaluate(folder, 1)):
        with pytest.raises(UserError, match=r"made by a function that cannot be imported again; give it again: calql"):
            call()
    calql.load_policy(folder)  # which needs none
    assert calql.evaluate(folder, 2, env=env)["episodes"] == 2
    assert calql.resume(folder, env=env, online_steps=OPTIONS["online_steps"]).finished
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_a_run_of_before_never_gets_another_environment(whole: Path, tmp_path: Path) -> None:
    """Which did not note what it was given, and would be the embedded maze by its names alone."""
    folder = Path(shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns(LOCK, "policy")))
    old = config(folder)
    old.pop("given")
    (folder / "config.json").write_text(json.dumps(old))
    for call in (
        lambda: calql.resume(folder, online_steps=40),
        lambda: calql.evaluate(folder, 1),
        lambda: calql.load_policy(folder),
    ):
        with pytest.raises(UserError, match=r"was trained on 'make_corridor', which its config\.json does not say"):
            call()
    assert calql.resume(folder, online_steps=40, env=make_corridor, dataset=corridor.demonstrations()).finished


def test_only_what_the_user_named_is_imported(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "nobody"))
    folder = Path(shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns(LOCK)))
    for call in (lambda: calql.resume(folder, online_steps=40), lambda: calql.evaluate(folder, 1)):
        with pytest.raises(UserError, match=f"imports the module '{__name__}', which only its config.json names"):
            call()
    calql.load_policy(folder)
    assert calql.evaluate(folder, 1, trust=True)["episodes"] == 1
    assert calql.evaluate(folder, 1)["episodes"] == 1  # asked about once


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("no_such_module:make", "its environment 'no_such_module:make' cannot be imported"),
        ("corridor:no_such_name", "its environment 'corridor:no_such_name' cannot be imported"),
        ("corridor:__doc__", "which is no function"),
        (3, "has a part 'given' that is not as it is written"),
    ],
)
def test_a_name_that_leads_nowhere(env: Any, said: str, whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns(LOCK)))
    (folder / "config.json").write_text(json.dumps({**config(folder), "given": {"dataset": "data.npz", "env": env}}))
    with pytest.raises(UserError, match=said):
        calql.evaluate(folder, 1, trust=True)


def test_large_data_are_kept_only_if_asked_for(
    whole: Path, tmp_path: Path, cut: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given, "LARGE", 100)
    with pytest.raises(UserError, match=r"which the run folder would keep; say keep_data=True, or keep_data=False"):
        train(tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    train(tmp_path / "asked", keep_data=True, online_steps=0)
    assert (tmp_path / "asked" / "data.npz").is_file()
    folder = cut(keep_data=False)
    assert not (folder / "data.npz").exists()
    assert calql.evaluate(folder, 1)["episodes"] == 1
    with pytest.raises(UserError, match=r"were given as a Dataset and not kept; give them again: calql.resume"):
        calql.resume(folder, online_steps=20)
    other = corridor.demonstrations(3)
    with pytest.raises(UserError, match="the data are not those the run was started with"):
        calql.resume(folder, dataset=other, online_steps=20)
    assert calql.resume(folder, dataset=corridor.demonstrations(), online_steps=OPTIONS["online_steps"]).finished
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_kept_data_that_are_gone_or_damaged_are_named(cut: Callable[..., Path]) -> None:
    folder = cut()
    path = folder / "data.npz"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"data\.npz"):
        calql.resume(folder, online_steps=20)
    np.savez(path, observations=np.zeros((3, 2)))
    with pytest.raises(UserError, match="lacks columns of a dataset"):
        calql.resume(folder, online_steps=20)
    path.unlink()
    with pytest.raises(UserError, match=r"its data\.npz is gone"):
        calql.resume(folder, online_steps=20)


def test_a_run_that_cannot_begin_takes_its_data_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise UserError("no")

    monkeypatch.setattr(life.preparation, "plan", refuse)
    with pytest.raises(UserError, match="no"):
        train(tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- what the package offers ------------------------------------------------------------------------------

FUNCTIONS = [name for name in calql.__all__ if inspect.isfunction(getattr(calql, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_says_what_it_takes_and_gives(name: str) -> None:
    function = getattr(calql, name)
    hints = typing.get_type_hints(function)
    assert inspect.getdoc(function)
    assert set(hints) == {*inspect.signature(function).parameters, "return"}


def _methods() -> list[tuple[str, str]]:
    """Of the classes that the package offers, and their properties."""
    classes = {name: getattr(calql, name) for name in calql.__all__ if inspect.isclass(getattr(calql, name))}
    kinds = (types.FunctionType, property, classmethod, staticmethod)
    return [
        (name, own)
        for name, kind in classes.items()
        for own, value in vars(kind).items()
        if isinstance(value, kinds) and not own.startswith("_")
    ]


@pytest.mark.parametrize(("kind", "name"), _methods())
def test_every_method_says_what_it_takes_and_gives(kind: str, name: str) -> None:
    found = inspect.getattr_static(getattr(calql, kind), name)
    function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    assert inspect.getdoc(function)
    bare = [own for own in inspect.signature(function).parameters if own not in ("self", "cls")]
    assert {*bare, "return"} <= set(function.__annotations__)


def test_the_package_offers_them() -> None:
    assert {"evaluate", "load_policy", "register", "resume", "train"} <= set(FUNCTIONS)
    assert set(calql.__all__) <= set(dir(calql))
    assert Path(calql.__file__).with_name("py.typed").is_file()


@pytest.mark.parametrize(("terminal", "notebook"), [(True, False), (False, True), (False, False)])
def test_progress_is_shown_where_somebody_looks(
    terminal: bool, notebook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(force_terminal=terminal, force_jupyter=notebook)
    monkeypatch.setattr("calql.results.progress.Console", lambda: console)
    assert isinstance(life.watched(True).display, life.Progress if terminal or notebook else life.Silent)
    assert isinstance(life.watched(False).display, life.Silent)
