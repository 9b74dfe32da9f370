"""A page in a real browser, with everything that it asked for and complained of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

WIDE, PHONE = 1440, 390


@dataclass
class Opened:
    """A page, the addresses that it asked for, its errors and what it would have said in a box."""

    page: Any
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def draw_all(self) -> None:
        """Scroll through the page, as charts are drawn when they come into view."""
        for top in range(0, self.page.evaluate("document.documentElement.scrollHeight"), 600):
            self.page.evaluate(f"scrollTo(0, {top})")
            self.page.wait_for_timeout(30)
        self.page.wait_for_function("() => document.querySelectorAll('.chart:not([data-drawn])').length === 0")
        self.page.evaluate("scrollTo(0, 0)")

    @property
    def elsewhere(self) -> list[str]:
        """What it asked for besides itself."""
        return [url for url in self.asked[1:] if not url.startswith(("data:", "blob:"))]

    @property
    def overflow(self) -> int:
        """Pixels by which it is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@contextmanager
def opened(browser: Any, address: str, width: int = WIDE, *, scheme: str = "light") -> Iterator[Opened]:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    seen = Opened(page)
    page.on("request", lambda request: seen.asked.append(request.url))
    page.on("console", lambda said: seen.complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(address)
    yield seen
    page.close()
