"""Every file in examples/ runs by itself, as a reader would run it, and says what it found."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SAYS = {  # what is to be seen in what it prints, beside anything at all
    "own_data.py": r"parked in (\d+)% of fresh episodes",
    "lerobot_logs.py": r"take seed [01]: with both joints at 0 it does \[",
    "rounds.py": r"week 2: 10 episodes, \d+ steps",
    "images.py": r"a picture \(16, 16, 3\) in, a choice out: [0-3]",
    "first_hour.ipynb": r"from [-+]\d\.\d\d to [-+]\d\.\d\d in \d+ steps",
}


def run(words: list[str], folder: Path) -> str:
    """What a process prints that can import the examples and writes into a folder of its own."""
    given = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *sys.path])}
    ended = subprocess.run([sys.executable, *words], cwd=folder, env=given, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "Traceback" not in ended.stderr
    return ended.stdout


def code_of(notebook: Path) -> str:
    """Its code cells, one after the other; what a cell ends with is shown, as a notebook would."""
    cells = json.loads(notebook.read_text())["cells"]
    parts = []
    for cell in (each for each in cells if each["cell_type"] == "code"):
        assert cell["outputs"] == [], "a notebook is kept without its outputs"
        body = ast.parse("".join(cell["source"])).body
        if isinstance(body[-1], ast.Expr):
            body[-1] = ast.Expr(ast.Call(ast.Name("print", ast.Load()), [body[-1].value], []))
        parts.append(ast.unparse(ast.fix_missing_locations(ast.Module(body, []))))
    return "\n".join(parts)


def said(name: str, printed: str) -> None:
    assert printed.strip()
    assert re.search(SAYS.get(name, ""), printed), printed


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts(script: Path, tmp_path: Path) -> None:
    said(script.name, run([str(script)], tmp_path))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks(notebook: Path, tmp_path: Path) -> None:
    (tmp_path / "cells.py").write_text(code_of(notebook))
    said(notebook.name, run(["cells.py"], tmp_path))


def test_the_list_of_examples_is_whole() -> None:
    page = (EXAMPLES / "README.md").read_text()
    listed = set(re.findall(r"\]\((\w+\.(?:py|ipynb))\)", page))
    assert {path.name for path in (*SCRIPTS, *NOTEBOOKS)} <= listed
