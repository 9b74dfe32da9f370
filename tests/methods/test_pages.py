"""Every method has a page that says what it minimises, with which numbers, and where it differs from its sources."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from calql.methods import METHODS

PAGES = Path(__file__).parents[2] / "docs" / "methods"
SECTIONS = ("## Objective", "## Defaults per domain", "## Differences")


def page(name: str) -> str:
    """Its text, with the pieces that it takes from other files."""
    text, root = (PAGES / f"{name}.md").read_text(), PAGES.parents[1]
    return re.sub(r'^--8<-- "(.*)"$', lambda found: (root / found[1]).read_text(), text, flags=re.MULTILINE)


def with_linked(text: str) -> str:
    """The page and the pages of other methods that it links to."""
    linked = sorted(set(re.findall(r"\(([a-z0-9-]+)\.md", text)))
    return "\n".join([text, *(page(name) for name in linked)])


@pytest.mark.parametrize("name", METHODS)
def test_sections(name: str) -> None:
    text = page(name)
    assert [line for line in text.splitlines() if line in SECTIONS] == list(SECTIONS)
    for section in text.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        assert len(body.strip()) > 40, heading
    assert f"`--method {name}`" in text
    assert f"({name}.md)" in page("index")


@pytest.mark.parametrize("name", METHODS)
def test_every_option_is_named_there_or_where_it_points(name: str) -> None:
    text = with_linked(page(name))
    missing = [
        option.name
        for option in fields(METHODS[name].options)
        if not re.search(rf"\b{option.name}\b|--(no-)?{option.name.replace('_', '-')}\b", text)
    ]
    assert not missing


def test_every_method_has_a_title_and_a_place_of_its_own_in_lists() -> None:
    entries = METHODS.values()
    assert [entry.summary for entry in entries if not entry.title] == []
    for each in ("title", "place"):
        assert len({getattr(entry, each) for entry in entries}) == len(entries)
