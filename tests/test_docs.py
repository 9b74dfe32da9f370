"""The documentation: files that it names are there, every method shows itself, every public name is told of."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from statistics import mean
from types import ModuleType

import pytest

import calql
import calql.data

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/**/*.md")])
KINDS = re.compile(
    r"`((?:(?:tests|src|docs)/[\w/.-]+\.(?:py|md|png|svg)|results/[\w/.-]+\.(?:jsonl?(?:\.gz)?|csv\.gz|md))\b)"
)
COMPARED = sorted(
    path.name.removesuffix("-config.json") for path in ROOT.glob("results/point-maze-comparison/*-config.json")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    assert [name for name in KINDS.findall(page.read_text()) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("method", COMPARED)
def test_every_compared_method_has_a_page_with_a_curve_and_a_command(method: str) -> None:
    assert f'--8<-- "docs/figures/methods/{method}.md"' in (ROOT / f"docs/methods/{method}.md").read_text()
    section = (ROOT / f"docs/figures/methods/{method}.md").read_text()
    assert f"calql train --method {method} " in section
    assert f"(../figures/methods/{method}.svg)" in section
    assert (ROOT / f"docs/figures/methods/{method}.svg").stat().st_size < 40_000


def test_curves_are_those_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed is what the script makes of the rows, in numbers and in words."""
    script = loaded("docs/figures/method_curves.py")
    monkeypatch.setattr(script, "OUT", tmp_path)
    monkeypatch.setattr(script, "draw", lambda *_: None)
    script.main()
    made = {path.name: path.read_text() for path in tmp_path.glob("*.md")}
    assert made == {path.name: path.read_text() for path in ROOT.glob("docs/figures/methods/*.md")}


def test_the_page_about_speed_says_what_its_files_say() -> None:
    """One seed against one and sixteen against one, each with its ratio; and the regulariser that was timed."""
    page = (ROOT / "docs/speed.md").read_text()
    results = json.loads((ROOT / "results/bench/h200-exact-inputs.json").read_text())["results"]
    seeds_of = {each["seeds"] for each in results}
    rates = {n: mean(each["seed_updates_per_s"] for each in results if each["seeds"] == n) for n in seeds_of}
    assert {each["options"]["dual"] for each in results} == {False}
    assert "dual regulariser" not in page
    assert "`dual: false`" in page
    for seeds in (1, 16):
        assert f"{rates[seeds]:,.0f} / 155 = {rates[seeds] / 155:.0f} times" in page


def loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> str:
    page = (ROOT / "docs/api.md").read_text()
    return str(loaded("docs/api_reference.py").on_page_markdown(page))


@pytest.mark.parametrize("name", [*calql.__all__, *calql.data.__all__])
def test_every_public_name_is_in_the_reference(name: str, reference: str) -> None:
    assert name.startswith("__") or f"\n### {name}\n" in reference


def test_the_reference_has_signatures_docstrings_and_fields(reference: str) -> None:
    assert (
        "calql.register(\n    thing: Domain | Entry | Format | type[Actor],\n    name: str | None = None,\n)"
        in reference
    )
    assert "method: str = 'cal-ql'," in reference
    assert "Pre-train on logged data, then fine-tune online, in a new run folder" in reference
    assert "| `terminals` | `Bools` | [row] |" in reference
    assert "dataset.select_episodes(" in reference
    assert ":::" not in reference


def test_a_public_name_without_a_docstring_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Which fails a strict build."""
    import ast

    script = loaded("docs/api_reference.py")
    node = ast.parse("def f(a, *, b: int = 1): ...").body[0]
    assert "m.f(a, *, b: int = 1)" in "".join(script.entry("m.f", node, []))
    assert "m.f has no docstring" in caplog.text
