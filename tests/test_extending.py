"""docs/extending.md is true: its packages, brought from outside, train through the command line and from Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calql.system.errors import UserError
from calql.system.registry import Registry

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
BRIEF = ["offline_updates=20", "online_steps=40", "evaluation_episodes=2", "seeds=1", "batch_size=32"]
FLAGS = [word for option in BRIEF for word in (f"--{option.split('=')[0].replace('_', '-')}", option.split("=")[1])]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path with the page's package installed in it, as pip would leave it."""
    root = tmp_path_factory.mktemp("site")
    for block in blocks("python"):
        if match := re.match(r"# (my_package/\S+)\n", block):
            path = root / match.group(1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block)
    (root / "my_package" / "__init__.py").touch()
    points = "\n".join(blocks("toml")).replace('project.entry-points."', "").replace('"]', "]").replace('"', "")
    install(root, "my_package", points)
    return root


def install(site: Path, name: str, points: str) -> None:
    """What pip leaves of a package beside its files."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)


def calql(site: Path, *words: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path]), "COLUMNS": "160"}
    done = subprocess.run([sys.executable, "-m", "calql", *words], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def config(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def test_a_method_of_another_package_trains(site: Path, tmp_path: Path) -> None:
    words = ["--task", "point-maze-narrow", "--method", "upper-half", "--no-films", *FLAGS]
    calql(site, "train", "--out", "run", "--quiet", *words, cwd=tmp_path)
    made = config(tmp_path / "run")
    assert made["method"] == "upper-half"
    assert made["options"]["policy_rate"] == 1e-3  # its own, on that domain
    assert "upper-half" in calql(site, "methods", cwd=tmp_path).stdout


def test_a_method_names_a_domain_of_its_own_package(site: Path, tmp_path: Path) -> None:
    words = ["train", "--task", "corridor-walks", "--method", "upper-half", "--explain"]
    assert re.search(r"left-out +0.25 +method upper-half on corridor", calql(site, *words, cwd=tmp_path).stdout)


def test_options_of_a_method_of_another_package_have_their_range(site: Path, tmp_path: Path) -> None:
    words = ["train", "--task", "point-maze-narrow", "--method", "upper-half", "--explain", "--left-out"]
    assert "0.75" in calql(site, *words, "0.75", cwd=tmp_path).stdout
    refused = calql(site, *words, "1.5", cwd=tmp_path, code=2).stderr
    assert "--left-out is 1.5; it must be above 0 and below 1" in refused


def test_an_actor_of_another_package_trains(site: Path, tmp_path: Path) -> None:
    words = ["train", "--task", "point-maze-narrow", "--actor", "box"]
    calql(site, *words, "--method", "td3-bc", "--out", "run", "--quiet", "--no-films", *FLAGS, cwd=tmp_path)
    assert config(tmp_path / "run")["options"]["actor"] == "box"
    assert "deterministic,box}" in calql(site, *words, "--method", "td3-bc", "--help-all", cwd=tmp_path).stdout
    refused = calql(site, *words, cwd=tmp_path, code=2).stderr
    assert "--actor is 'box'; it must be tanh-gaussian or gaussian: this method needs a density" in refused


def test_an_actor_of_another_package_is_held_to_the_protocol(site: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/networks/test_actors.py", "-k", "box"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert re.search(r"[1-9]\d* passed", done.stdout)


def test_a_domain_of_another_package_trains(site: Path, tmp_path: Path) -> None:
    calql(site, "train", "--out", "run", "--quiet", "--task", "corridor-walks", *FLAGS, cwd=tmp_path)
    made = config(tmp_path / "run")
    assert (made["task"], made["method"], made["environment"]["episode_limit"]) == ("corridor-walks", "cal-ql", 20)
    assert made["options"]["policy_widths"] == [32, 32]
    assert "corridor-walks" in calql(site, "tasks", cwd=tmp_path).stdout


def test_a_script_registers_them(site: Path, tmp_path: Path) -> None:
    script = next(block for block in blocks("python") if "calql.register(" in block)
    script = script.replace('method="upper-half"', f'method="upper-half", out="run", {", ".join(BRIEF)}')
    info = [path for path in site.glob("*.dist-info") for path in path.iterdir()]
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "my_package").symlink_to(site / "my_package")  # without its entry points
    assert info
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plain), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert config(tmp_path / "run")["method"] == "upper-half"
    registers = script[: script.index("outcome =")]  # and where the package is installed as well, again and again
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    done = subprocess.run([sys.executable, "-c", registers * 2], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_format_of_another_package_is_read(site: Path, tmp_path: Path) -> None:
    import corridor
    from calql.data import write_npz

    write_npz(corridor.demonstrations(), tmp_path / "steps.npz")
    assert "12 episodes" in calql(site, "data", "convert", "steps.npz", "steps.jsonl", cwd=tmp_path).stdout
    (tmp_path / "steps.jsonl").rename(tmp_path / "steps")
    assert "episodes        12" in calql(site, "data", "inspect", "steps", cwd=tmp_path).stdout


def test_a_format_of_another_package_is_in_the_harness(site: Path) -> None:
    pytest.importorskip("pyarrow")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/data/test_formats.py", "-k", "jsonl"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert re.search(r"8 passed|9 passed", done.stdout)


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages that cannot be imported, or not whole, as they are left by an upgrade of what they need."""
    root = tmp_path_factory.mktemp("torn")
    half = root / "half"
    half.mkdir()
    (half / "__init__.py").write_text(
        "from calql.domains.base import Domain\n\nDOMAIN = Domain('half', __name__, steps_per_s=1.0)\n"
    )
    for module in ("tasks", "data", "check", "scenes"):
        (half / f"{module}.py").write_text("import no_such_simulator\n")
    kinds = ("methods", "actors", "formats", "domains")
    points = [f"[calql.{kind}]\ntorn = no_such_package:THING\n" for kind in kinds]
    install(root, "torn", "".join([*points, "half = half:DOMAIN\n"]))
    return root


TORN = "cannot be loaded (ModuleNotFoundError: No module named 'no_such_package')"
HALF = "the domain 'half' cannot be loaded (ModuleNotFoundError: No module named 'no_such_simulator')"


HARMLESS: list[tuple[list[str], list[str]]] = [
    (["train", "--explain"], ["seeds"]),
    (["train", "--task", "point-maze-narrow", "--actor", "gaussian", "--explain"], ["cal-ql on point-maze-narrow"]),
    (["train", "--dataset", "point-maze-narrow", "--explain"], ["cal-ql on point-maze-narrow"]),
    (["methods"], ["cal-ql", f"the method 'torn' {TORN}"]),
    (["tasks"], ["point-maze-narrow", f"the domain 'torn' {TORN}", HALF]),
    (["data", "list"], ["point-maze-narrow", f"the domain 'torn' {TORN}", HALF]),
]
REFUSED: list[tuple[list[str], list[str]]] = [
    (["--method", "torn"], [f"the method 'torn' {TORN}; mend or uninstall the package that brings it"]),
    (["--actor", "torn"], [f"the actor 'torn' {TORN}; mend or uninstall"]),
    (["--task", "half-open"], ["no task is called 'half-open'; did you mean", HALF]),
    (["--dataset", "half-data"], ["no dataset is called 'half-data'; known:", HALF]),
]
EACH = """
import contextlib, io, json, sys
from calql.cli import main

for words in json.loads(sys.argv[1]):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(words)
    print(json.dumps([words, [code, out.getvalue(), errors.getvalue()]]))
"""


@pytest.fixture(scope="module")
def told(torn: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], list[Any]]:
    """Exit code, output and errors of each of these commands, one after the other in a process with the packages."""
    commands = [words for words, _ in HARMLESS] + [["train", *words, "--explain"] for words, _ in REFUSED]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(torn), *sys.path]), "COLUMNS": "160"}
    process = [sys.executable, "-c", EACH, json.dumps(commands)]
    folder = tmp_path_factory.mktemp("told")
    done = subprocess.run(process, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {tuple(words): found for words, found in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize(("words", "shown"), HARMLESS, ids=" ".join)
def test_a_broken_package_harms_nobody(
    words: list[str], shown: list[str], told: dict[tuple[str, ...], list[Any]]
) -> None:
    code, out, errors = told[tuple(words)]
    assert code == 0, errors
    assert [text for text in shown if text not in out] == []


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=" ".join)
def test_who_names_what_it_brings_is_told(
    words: list[str], said: list[str], told: dict[tuple[str, ...], list[Any]]
) -> None:
    code, _, errors = told["train", *words, "--explain"]
    assert code == 2
    assert [text for text in said if text not in errors] == []


class Thing:
    """What the registry of these tests holds."""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[Thing]:
    things = "missing = no_such_package:THING\nodd = os:sep\nown = os:sep\nfine = collections:OrderedDict\n"
    install(tmp_path, "broken", f"[things]\n{things}")
    monkeypatch.syspath_prepend(str(tmp_path))
    return Registry("thing", "things", Thing, lambda: {"own": Thing()})


def test_what_cannot_be_loaded_harms_only_who_asks_for_it(registry: Registry[Thing]) -> None:
    assert list(registry) == ["own", "missing", "odd", "fine"]
    assert isinstance(registry["own"], Thing)  # this package's stands above another's of that name
    with pytest.raises(UserError, match=r"the thing 'missing' cannot be loaded .*no_such_package.*uninstall"):
        registry["missing"]
    with pytest.raises(UserError, match=r"the thing 'odd' is a str and not a .*Thing"):
        registry["odd"]
    assert list(registry.loadable()) == ["own"]
    assert list(registry.broken) == ["missing", "odd", "fine"]


def test_what_has_no_such_part_is_left_out(registry: Registry[Thing]) -> None:
    """Only of other packages: in a thing of one's own it is a defect."""
    with pytest.raises(AttributeError):
        dict(registry.each(lambda thing: thing.part))  # type: ignore[attr-defined]
    registry._known()["fine"] = Thing()
    parts = dict(registry.each(lambda thing: 1 // (thing is registry["own"])))
    assert parts == {"own": 1}
    assert "the thing 'fine' cannot be loaded (ZeroDivisionError" in registry.left_out()


def test_a_registry_of_classes() -> None:
    class Kind(Thing):
        """One of them."""

    registry: Registry[type[Thing]] = Registry("kind", "no_such_group", Thing, dict, classes=True)
    registry.register("kind", Kind)
    assert registry["kind"] is Kind
    with pytest.raises(UserError, match=r"the kind 'thing' is a Thing; give a class derived from .*Thing"):
        registry.register("thing", Thing())  # type: ignore[arg-type]


def test_what_is_registered_again(registry: Registry[Thing]) -> None:
    """The same object is there already; of a notebook's cell the last one counts; another is refused."""

    def thing_of(act: Callable[[], None]) -> Thing:
        thing = Thing()
        vars(thing)["act"] = act
        return thing

    def cell() -> Callable[[], None]:
        def act() -> None: ...

        return act

    first, again = thing_of(cell()), thing_of(cell())
    registry.register("mine", first)
    registry.register("mine", first)
    registry.register("mine", again)
    assert registry["mine"] is again
    registry.register("own", registry["own"])
    with pytest.raises(UserError, match="there is a thing 'mine' already"):
        registry.register("mine", thing_of(cell))
    with pytest.raises(UserError, match="there is a thing 'own' already"):
        registry.register("own", again)
    assert list(registry).count("own") == 1


def test_registering(registry: Registry[Thing]) -> None:
    thing = Thing()
    registry.register("mine", thing)
    assert registry["mine"] is thing
    assert "mine" in list(registry)
    for name in ("mine", "own", "missing"):
        with pytest.raises(UserError, match=f"there is a thing '{name}' already"):
            registry.register(name, Thing())
    with pytest.raises(UserError, match="the thing 'text' is a str"):
        registry.register("text", "no thing")  # type: ignore[arg-type]
