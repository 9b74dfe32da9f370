"""pyproject.toml and the imports say the same: nothing is imported undeclared, nothing declared is unused."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from calql.system.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {  # where it is not the name of the package
    "google-crc32c": "google_crc32c",
    "gymnasium-robotics": "gymnasium_robotics",
    "import-linter": "importlinter",
    "pillow": "PIL",
    "protobuf": "google",
}
TOOLS = {"mkdocs-material", "mypy", "pytest-xdist", "ruff"}  # commands of the Makefile
OF_PYTHON = sys.stdlib_module_names | {"__future__"}


def packages(requirements: Iterable[str]) -> set[str]:
    """Import names of requirements; the project's own extras stand for what is in them."""
    found = set()
    for line in requirements:
        name = re.split(r"[\[<>=!~ ;]", line, maxsplit=1)[0]
        if name == PROJECT["name"]:
            inside = re.search(r"\[(.*)\]", line)
            assert inside is not None
            for part in inside.group(1).split(","):
                found |= packages(PROJECT["optional-dependencies"][part])
        elif name not in TOOLS:
            found.add(IMPORTED_AS.get(name, name))
    return found


def imports(*folders: str) -> set[str]:
    """Packages of others that the files of some folders import, wherever in the file."""
    found = {name.partition(".")[0] for folder in folders for path in _files(folder) for name in _imports(path)}
    own = {path.stem for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in ("", ".py")}
    return found - OF_PYTHON - own - {"calql"}


def _files(folder: str) -> Iterator[Path]:
    return (ROOT / folder).rglob("*.py")


def _imports(path: Path, *, types: bool = True) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    checked = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = set() if types else {id(inner) for node in checked for part in node.body for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "importorskip":
            yield ast.literal_eval(node.args[0])


CORE = packages(PROJECT["dependencies"])
BY_EXTRA = {name: packages(lines) for name, lines in PROJECT["optional-dependencies"].items()}


def test_the_core_declares_what_it_imports_and_imports_what_it_declares() -> None:
    assert imports("src") - set(EXTRAS) == CORE


def test_every_extra_brings_what_it_is_named_for() -> None:
    for package, name in EXTRAS.items():
        assert package in BY_EXTRA[name], name
    users = {name: found for name, found in BY_EXTRA.items() if name not in ("all", "cuda", "dev")}
    assert set().union(*users.values()) == set(EXTRAS) == BY_EXTRA["all"]


def test_extras_are_imported_through_one_function_only() -> None:
    for path in _files("src"):
        direct = {name.partition(".")[0] for name in _imports(path, types=False)} & set(EXTRAS)
        assert not direct, f"{path}: {direct}"


@pytest.mark.slow
def test_the_tests_declare_what_they_import() -> None:
    used = imports("tests", "docs")
    assert used - CORE - BY_EXTRA["dev"] == set()
    assert BY_EXTRA["dev"] - set(EXTRAS) - used == set()


def test_every_version_of_python_is_declared_in_the_same_way() -> None:
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert PROJECT["requires-python"] == f">={versions[0]},<3.{int(versions[-1].partition('.')[2]) + 1}"
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"python{version}" in makefile for version in versions)
    low, high = (version.replace(".", ", ") for version in (versions[0], versions[-1]))
    assert f"({low}) <= sys.version_info[:2] <= ({high})" in makefile
