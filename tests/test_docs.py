"""Files that the documentation names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/**/*.md")])
KINDS = re.compile(
    r"`((?:(?:tests|src|docs)/[\w/.-]+\.(?:py|md|png|svg)|results/[\w/.-]+\.(?:jsonl?(?:\.gz)?|csv\.gz|md))\b)"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    assert [name for name in KINDS.findall(page.read_text()) if not (ROOT / name).exists()] == []
