"""The core stands alone: without the extras everything else works, and who needs one reads how to get it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calql.system.errors import UserError
from calql.system.extras import EXTRAS, Extra, extra

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]

# Found by every process that a test starts, before anything else is imported.
REFUSE = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRAS)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""

EVERY_MODULE = """
import importlib, pkgutil, sys
import calql
from calql.system.extras import EXTRAS
for found in pkgutil.walk_packages(calql.__path__, "calql."):
    if found.name != "calql.__main__":
        importlib.import_module(found.name)
assert not set(sys.modules) & set(EXTRAS)
"""

COMMANDS = """
import contextlib, io, json, sys
from calql.cli import main
answers = {}
for name, words in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as wrong:
        code = main(words)
    answers[name] = (code, said.getvalue(), wrong.getvalue())
print(json.dumps(answers))
"""

TINY = [
    "--seeds", "1", "--offline-updates", "6", "--online-steps", "30", "--evaluate-offline-every", "6",
    "--evaluate-online-every", "20", "--evaluation-episodes", "2", "--policy-widths", "8", "--critic-widths", "8",
    "--batch-size", "8", "--sampled-actions", "2", "--backup-actions", "2",
]  # fmt: skip
OWN = ["train", "--dataset", "corridor.npz", "--env", "corridor:Corridor-v0", *TINY]

WORKS = {
    "help": ["--help"],
    "tasks": ["tasks"],
    "methods": ["methods"],
    "train": [*OWN, "--out", "run"],
    "report": ["report", "run"],
    "evaluate": ["evaluate", "run", "--episodes", "2"],
    "inspect": ["data", "inspect", "corridor.npz"],
    "plan": ["reproduce", "fig-curves", "--scale", "smoke", "--dry-run"],
}
LACKS = {  # package -> a command that needs it
    "gymnasium_robotics": ["train", "--task", "point-maze-narrow", *TINY],
    "mujoco": ["bench", "--task", "hopper-medium"],
    "onnx": ["export", "run"],
    "flatbuffers": ["export", "run", "--to", "stablehlo"],
    "pyarrow": ["data", "inspect", "log.csv"],
    "zarr": ["data", "inspect", "log.zarr"],
    "minari": ["data", "inspect", "minari:D4RL/door/human-v2"],
    "imageio": ["render", "pick-place", "--out", "episode.mp4"],
    "tensorboardX": [*OWN, "--out", "with-tensorboard", "--tensorboard"],
    "wandb": [*OWN, "--out", "with-wandb", "--wandb"],
}


def bare(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script where no extra can be imported and no data are built yet."""
    (folder / "sitecustomize.py").write_text(REFUSE)
    paths = [str(folder), str(TESTS), *(path for path in sys.path if path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "CALQL_DATA": str(folder / "data")}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every command says, by its name: exit code, stdout, stderr."""
    import corridor

    folder = tmp_path_factory.mktemp("bare")
    corridor.write_demonstrations(folder)
    _write_logs(folder)
    ran = bare(folder, COMMANDS, json.dumps(WORKS | LACKS))
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def _write_logs(folder: Path) -> None:
    """A table of text, and a Zarr store, by hand."""
    (folder / "log.csv").write_text("episode,observation,action,reward\n0,1,2,3\n0,1,2,3\n")
    kind = {"zarr_format": 2, "dtype": "<i8", "order": "C", "fill_value": 0, "filters": None, "compressor": None}
    for name in ("data/state", "data/action", "data/reward", "meta/episode_ends"):
        array = folder / "log.zarr" / name
        array.mkdir(parents=True)
        (array / ".zarray").write_text(json.dumps({**kind, "shape": [1], "chunks": [1]}))
        (array / "0").write_bytes((1).to_bytes(8, "little"))
    (folder / "log.zarr" / ".zgroup").write_text('{"zarr_format": 2}')


def test_every_module_is_imported_without_the_extras(tmp_path: Path) -> None:
    ran = bare(tmp_path, EVERY_MODULE)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", WORKS)
def test_the_core_does_without(answers: dict[str, Any], name: str) -> None:
    code, _, wrong = answers[name]
    assert code == 0, wrong


def test_what_the_core_shows_is_whole(answers: dict[str, Any]) -> None:
    assert "point-maze-narrow" in answers["tasks"][1]
    assert "antmaze-umaze" in answers["tasks"][1]
    assert "cal-ql" in answers["methods"][1]
    assert "report.html" in answers["report"][1]


@pytest.mark.parametrize("package", LACKS)
def test_who_lacks_an_extra_reads_in_one_line_how_to_get_it(answers: dict[str, Any], package: str) -> None:
    code, _, wrong = answers[package]
    assert code == 2
    line = wrong.strip().splitlines()[-1]
    assert line.startswith("calql: ")
    assert line.endswith(f"needs the package {package}, which is not installed; pip install 'calql[{EXTRAS[package]}]'")


def test_ray_is_asked_for_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from calql.experiments.launchers.ray import _ray

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--launcher ray needs the package ray.*pip install 'calql\[ray\]'"):
        _ray("auto")
    assert set(LACKS) | {"ray", "submitit", "av"} == set(EXTRAS)  # submitit: tests/experiments/test_slurm.py


def test_av_is_asked_for_in_the_same_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from calql.data.videos import Clip, frames

    monkeypatch.setitem(sys.modules, "av", None)
    clip = Clip(tmp_path / "a.mp4", np.arange(1), np.zeros(1))
    with pytest.raises(UserError, match=r"a video needs the package av.*pip install 'calql\[formats\]'"):
        frames([clip], (8, 8, 3), 10.0)


def test_a_defect_of_a_package_is_not_its_absence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import no_such_thing_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_thing_at_all"):
        extra("half_installed", "this test")


def test_a_name_for_later_is_imported_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    later = Extra("colorsys", "this test")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert "colorsys" not in sys.modules
    assert later.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert "rgb_to_hsv" in vars(later)
    with pytest.raises(AttributeError):
        _ = later.no_such_name
