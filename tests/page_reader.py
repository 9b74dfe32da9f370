"""What a reader and a browser get from a page: its texts, its tags and where they point."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "img", "br", "link", "input"}
UNSEEN = {"script", "style"}
HOSTILE = """<script>alert(1) {{ 7*7 }}{% raw %} "><img src=x onerror=alert(2)> ' onclick='alert(1) <b>c &lt;i&gt;"""


class Page(HTMLParser):
    """Checks that tags are balanced as it reads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.sources: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, tuple[str, ...]]] = []  # the names of those of each tag
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append((tag, tuple(name for name, _ in attrs)))
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not UNSEEN & set(self.open):
            self.text += data
