"""The rooms of the package: who may import whom is a contract, not a habit."""

from __future__ import annotations

import tomllib
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
LOOSE = {"__init__.py", "__main__.py", "py.typed"}


def test_import_contracts() -> None:
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, verbose=False) == 0


def test_every_domain_is_held_to_know_no_other() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = next(each["modules"] for each in contracts if each["type"] == "independence")
    folders = sorted(path.parent.name for path in (ROOT / "src" / "calql" / "domains").glob("*/tasks.py"))
    assert listed == [f"calql.domains.{folder}" for folder in folders]


def test_no_module_lies_loose_at_the_top() -> None:
    files = {path.name for path in (ROOT / "src" / "calql").iterdir() if path.is_file()}
    assert files == LOOSE


def test_every_room_says_what_it_is_for() -> None:
    rooms = [path for path in (ROOT / "src" / "calql").rglob("__init__.py")]
    assert [str(path) for path in rooms if not path.read_text().startswith('"""')] == []
