"""The API reference from the source: every public name with its signature and docstring, at build time.

A line `::: package` of a page becomes the names in that package's `__all__`. The source is read, not imported: the
reference needs no simulator and no accelerator. A public name without a docstring is a warning, and so an error of
`mkdocs build --strict`.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
PLACE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
COMMENT = re.compile(r"^\s*(\w+): .*?#\s*(.+)$")
WIDTH = 88

log = logging.getLogger("mkdocs.hooks.api_reference")
Named = ast.FunctionDef | ast.ClassDef | ast.Assign


def on_page_markdown(markdown: str, **_: object) -> str:
    shown: set[tuple[str, str]] = set()
    return PLACE.sub(lambda found: "\n".join(package(found.group(1), shown)), markdown)


def package(name: str, shown: set[tuple[str, str]]) -> Iterator[str]:
    """Functions first, then classes; what the page has shown already is left out."""
    tree = ast.parse(source_of(name).read_text())
    public = next(ast.literal_eval(node.value) for node in tree.body if assigns(node, "__all__"))
    homes = {
        each.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names
    }
    wanted = [each for each in public if not each.startswith("_") and (homes[each], each) not in shown]
    shown.update((homes[each], each) for each in wanted)
    found = [(each, definition(homes[each], each)) for each in wanted]
    for each, (node, lines) in sorted(found, key=lambda pair: not isinstance(pair[1][0], ast.FunctionDef)):
        yield from entry(f"{name}.{each}", node, lines)


def source_of(module: str) -> Path:
    path = SOURCES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets)


def definition(module: str, name: str) -> tuple[Named, list[str]]:
    """The statement that defines a name, and the lines of its file."""
    text = source_of(module).read_text()
    for node in ast.parse(text).body:
        if assigns(node, name) or getattr(node, "name", None) == name:
            return node, text.splitlines()
    raise LookupError(f"{module} does not define {name}")


def entry(path: str, node: Named, lines: list[str]) -> Iterator[str]:
    yield f"### {path.rpartition('.')[2]}\n"
    if isinstance(node, ast.Assign):  # a type made by a call: as it stands in the source
        yield "```python\n" + "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n```\n"
        return
    if isinstance(node, ast.FunctionDef):
        yield signature(path, node)
        yield documented(node, path)
        return
    yield f"```python\n{path}\n```\n"
    yield documented(node, path)
    yield from fields(node, lines)
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and (not each.name.startswith("_") or each.name == "__call__"):
            yield from method(node.name, each)


def method(owner: str, node: ast.FunctionDef) -> Iterator[str]:
    kinds = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
    name = owner.lower() if node.name == "__call__" else f"{owner.lower()}.{node.name}"
    if kinds & {"property", "cached_property"}:
        yield f"```python\n{name}: {ast.unparse(node.returns) if node.returns else ''}\n```\n"
    else:
        yield signature(name, node, bound=True)
    if told := ast.get_docstring(node):
        yield f"{told}\n"


def signature(name: str, node: ast.FunctionDef, *, bound: bool = False) -> str:
    """As it is called; an argument a line where it is long."""
    arguments = list(parts(node.args))[1 if bound else 0 :]
    end = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({', '.join(arguments)}){end}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in arguments) + f"){end}"
    return f"```python\n{line}\n```\n"


def parts(given: ast.arguments) -> Iterator[str]:
    first = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(first) - len(given.defaults)) + list(given.defaults)
    yield from map(argument, first, defaults)
    if given.vararg:
        yield f"*{argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    yield from map(argument, given.kwonlyargs, given.kw_defaults)
    if given.kwarg:
        yield f"**{argument(given.kwarg, None)}"


def argument(given: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(given.annotation)}" if given.annotation else ""
    usual = "" if default is None else f" = {value(default)}" if kind else f"={value(default)}"
    return f"{given.arg}{kind}{usual}"


def value(default: ast.expr) -> str:
    """As it stands in the source, but a constant of the package by what it is."""
    if isinstance(default, ast.Name) and default.id in constants():
        return constants()[default.id]
    return ast.unparse(default)


@cache
def constants() -> dict[str, str]:
    """Texts and numbers that modules give a name in capitals, where one name stands for one of them."""
    found: dict[str, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    found.setdefault(ast.unparse(target), set()).add(ast.unparse(node.value))
    return {name: min(values) for name, values in found.items() if name.isupper() and len(values) == 1}


def documented(node: Named, path: str) -> str:
    told = ast.get_docstring(node)
    if not told:
        log.warning("%s has no docstring", path)
    return f"{told or ''}\n"


def fields(node: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """What it holds: each field with its type, and the comment beside it."""
    held = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    if not held:
        return
    yield "| field | type | |\n|---|---|---|"
    for each in held:
        said = COMMENT.match(lines[each.lineno - 1])
        yield f"| `{ast.unparse(each.target)}` | `{ast.unparse(each.annotation)}` | {said.group(2) if said else ''} |"
    yield ""
