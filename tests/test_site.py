"""The built site in a real browser: readable on a phone, with nothing that breaks or scrolls sideways."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LOOK = """() => ({
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    broken: [...document.querySelectorAll("table code:not(.long)")]
        .filter(code => code.getClientRects().length > 1).map(code => code.textContent),
})"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed (extra: dev)")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_no_page_scrolls_sideways_and_no_name_breaks(browser: Any, site: Path) -> None:
    page = browser.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    found = {}
    for path in sorted(site.rglob("index.html")):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            seen = page.evaluate(LOOK)
            if seen["wide"] > 0 or seen["broken"]:
                found[str(path.parent.relative_to(site)), width] = seen
    page.close()
    assert found == {}
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
