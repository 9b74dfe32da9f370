"""Names and notes from outside are text in the report: no markup, no template, no attribute."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from synthetic_runs import make_run

from calql.results import html, plots, report
from page_reader import HOSTILE, Page


def one(name: str, folder: Path) -> Sequence[Path]:
    return [named(name, folder / f"run {name}".replace("/", "-"), f"task {name}")]


def two(name: str, folder: Path) -> Sequence[Path]:
    """Told apart by their folders."""
    return [named(name, folder / f"{number} {name}".replace("/", "-"), f"task {name}") for number in "ab"]


def two_tasks(name: str, folder: Path) -> Sequence[Path]:
    return [named(name, folder / number, f"task {number} {name}") for number in "ab"]


def diverged(name: str, folder: Path) -> Sequence[Path]:
    """With the story of a seed whose metrics have names of their own."""
    made = named(name, folder / "run", f"task {name}")
    rows = [json.loads(line) for line in (made / "metrics.jsonl").read_text().splitlines()]
    rows = [row | {f"td_loss/{name}": 1e12, "td_loss": 1e12, "diverged": row["phase"] == "online"} for row in rows]
    (made / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (made / "status.json").write_text(json.dumps({"finished": False, "reason": f"reason {name}"}))
    return [made]


def named(name: str, folder: Path, task: str) -> Path:
    """A run with the name in everything that a stranger may have written."""
    made = make_run(folder, seeds=2, with_q=False)
    config = json.loads((folder / "config.json").read_text())
    config |= {"task": task, "method": f"method {name}", "command": f"command {name}", "fits": [f"note {name}"]}
    config["options"] |= {f"option {name}": f"value {name} of {folder.name[0]}"}
    config["versions"] |= {"jax": f"version {name}"}
    config[f"more {name}"] = f"thing {name}"
    (folder / "config.json").write_text(json.dumps(config))
    return made


@pytest.fixture(autouse=True)
def one_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "PLOTS", plots.PLOTS[:1])


@pytest.mark.parametrize("kind", [one, two, two_tasks, diverged])
def test_names_from_outside_are_shown_as_text(kind: Callable[[str, Path], Sequence[Path]], tmp_path: Path) -> None:
    tame = Page(report.write_report(kind("plain", tmp_path / "tame"), tmp_path / "tame.html"))
    page = Page(report.write_report(kind(HOSTILE, tmp_path / "hostile"), tmp_path / "hostile.html"))
    assert page.attributes == tame.attributes
    assert page.text.replace('\\"', '"') == tame.text.replace("plain", HOSTILE)  # a list is shown as JSON
    for what in ("method", "command", "option", "value", "version", "more", "thing"):
        assert f"{what} {HOSTILE}" in page.text
    assert re.search(f"task (a )?{re.escape(HOSTILE)}", page.text)


def test_folders_notes_and_reasons_are_shown_as_text(tmp_path: Path) -> None:
    folders, stopped = two(HOSTILE, tmp_path / "two"), diverged(HOSTILE, tmp_path)
    assert f"method {HOSTILE} · a {HOSTILE}" in Page(report.write_report(folders, tmp_path / "two.html")).text
    page = Page(report.write_report(stopped, tmp_path / "stopped.html"))
    assert f"Note {HOSTILE}." in page.text
    assert f"reason {HOSTILE}" in page.text
    assert "Before they diverged" in page.text


def test_what_a_template_lacks_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("{{ title }}: {{ missing }}")
    with pytest.raises(UndefinedError, match="missing"):
        html.render("page.j2", folder=tmp_path, title="a title")


def test_only_what_is_declared_ours_is_markup(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("{{ theirs }}{{ ours }}")
    assert html.render("page.j2", folder=tmp_path, theirs="<b>", ours=html.ours("<i>")) == "&lt;b&gt;<i>"


def test_there_is_one_door_for_markup() -> None:
    sources = Path(html.__file__).parents[1]
    files = [*sources.rglob("*.py"), *sources.rglob("*.j2")]
    found = [
        path for path in files if re.search(r"\bMarkup\(|\|\s*safe\b|autoescape", path.read_text(encoding="utf-8"))
    ]
    assert found == [Path(html.__file__)]
