"""Formulas as MathML at build time, so that no script and no network is needed to read them; and tables for a phone."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

MATH = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
CELL = re.compile(r"<td((?: [^>]*)?)>(.*?)</td>", re.DOTALL)
CODE = re.compile(r"<code>([^<]*)</code>")
TAG = re.compile(r"<[^>]+>")
SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
WORDS = 45  # characters of a cell that is read as a sentence: it may not shrink to a word a line
LONG = 32  # characters of code that may break at its spaces


def on_page_content(text: str, **_: object) -> str:
    return CELL.sub(_cell, MATH.sub(_formula, text))


def _formula(match: re.Match[str]) -> str:
    inner, block = html.unescape(match.group(2)).strip()[2:-2], match.group(1) == "div"
    made = convert(inner, display="block" if block else "inline")
    return f'<div class="formula" tabindex="0" role="region" aria-label="formula">{made}</div>' if block else made


def _cell(match: re.Match[str]) -> str:
    """Marks sentences and long commands of tables, for extra.css; a number stays with its spread."""
    attributes, inner = match.group(1), SPREAD.sub("\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", match.group(2))
    inner = CODE.sub(lambda code: f'<code class="long">{code[1]}</code>' if _breaks(code[1]) else code[0], inner)
    words = len(html.unescape(TAG.sub("", inner))) > WORDS
    return f"<td{attributes}{' class=words' if words else ''}>{inner}</td>"


def _breaks(code: str) -> bool:
    return len(html.unescape(code)) > LONG and " " in code
