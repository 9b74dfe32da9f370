"""What commands say of their options: help, origins, and the nearest name."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import corridor
from calql.cli import main

USUAL = {
    "--task", "--method", "--preset", "--vary", "--dataset", "--env", "--offline", "--columns",
    "--offline-updates", "--online-steps", "--max-minutes",
    "--seeds", "--out", "--resume", "--live", "--quiet", "--tensorboard", "--wandb", "--help", "--help-all",
    "--explain",
}  # fmt: skip
MODULES = {"data": "data", "round": "rounds"}


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a help text, none of which is too long or speaks of None."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert not end.value.code
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "None" in line or "MISSING" in line]
    return lines


def options_in(lines: list[str]) -> set[str]:
    """Options that a line of help begins with."""
    heads = [line.strip("│ ").split()[:4] for line in lines if line.strip("│ ").startswith("-")]
    return {word.strip(",") for head in heads for word in head if word.startswith("--") and word[2:3].isalpha()}


def test_help_is_about_the_options_that_people_use(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(["train", "--help"], capsys)
    assert options_in(lines) == USUAL
    titles = [line.strip("╭─╮ ") for line in lines if line.strip("╭─╮ ").endswith("options")]
    groups = ["task", "own data", "length", "folder", "watching"]
    assert titles == ["options", *(f"{group} options" for group in groups)]
    assert len(lines) <= 60
    assert "(task point-maze-quick: 4000)" in " ".join(" ".join(line.strip("│ ") for line in lines).split())


def test_help_all_has_every_option_as_it_is_for_the_task_and_the_method(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(["train", "--help-all", "--task", "antmaze-umaze", "--method", "iql"], capsys)
    found = options_in(lines)
    assert USUAL - {"--help"} < found
    assert {"--expectile", "--mixing", "--no-probe", "--accept-changes"} <= found
    assert "--conservative-weight" not in found
    text = " ".join(" ".join(line.strip("│ ") for line in lines).split())
    assert "(method iql on antmaze: 0.9)" in text
    assert "(default: 4)" in text
    assert "(default: the task's, or what your own environment says)." in text


def test_help_of_own_data_reads_none(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(["train", "--dataset", "gone.npz", "--env", "gone:Gone-v0", "--help"], capsys)
    assert "(domain own: 10000)" in " ".join(lines)


@pytest.mark.parametrize(
    "command",
    ["tasks", "methods", "bench", "evaluate", "report", "reproduce", "render", "compare", "data inspect", "round add"],
)
def test_help_of_the_other_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--help" in options_in(shown([*command.split(), "-h"], capsys))


@pytest.mark.parametrize("group", ["data", "round"])
def test_a_group_of_commands_lists_them_with_what_they_do(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([group]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert set(said) == set(importlib.import_module(f"calql.cli.{MODULES[group]}").ACTIONS)
    assert all(text[0].islower() and text == text.rstrip(".") for text in said.values())


def test_no_option_says_its_default_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train", "--help-all"], ["render", "-h"], ["bench", "-h"], ["reproduce", "-h"]):
        text = " ".join(" ".join(line.strip("│ ") for line in shown(words, capsys)).split())
        for option in text.split(" --"):
            assert option.count("(default") <= 1, option
        assert "default: default" not in text


def test_lists_show_one_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "iql"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["method", "iql"]
    assert lines[2:] == ["", "its options: calql train --method iql --help-all"]
    assert main(["tasks", "point-maze-quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["task", "point-maze-quick"]
    assert lines[3:] == ["", "its options: calql train --task point-maze-quick --help-all"]
    for words, said in ((["methods", "iqll"], "'iql'"), (["tasks", "point-maze-quik"], "'point-maze-quick'")):
        assert main(words) == 2
        assert f"did you mean {said}" in capsys.readouterr().err


def test_lists_have_no_blanks_at_the_ends_of_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = corridor.write_demonstrations(tmp_path)
    for words in (["methods"], ["data", "inspect", str(data)]):
        assert main(words) == 0
        assert not [line for line in capsys.readouterr().out.splitlines() if line != line.rstrip()]


def explained(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    """option -> value and origin, in the order of the table."""
    assert main(["train", "--explain", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    head = next(number for number, line in enumerate(lines) if line.split() == ["option", "value", "origin"])
    at = lines[head].index("value"), lines[head].index("origin")
    return {line[: at[0]].strip(): (line[at[0] : at[1]].strip(), line[at[1] :].strip()) for line in lines[head + 1 :]}


def test_explain_prints_every_option_and_makes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = explained(["--task", "pen-binary", "--method", "iql", "--seeds", "4", "--no-real"], capsys)
    assert found["seeds"] == ("4", "you")
    assert found["real"] == ("off", "you")
    assert found["online-steps"] == ("200000", "task pen-binary")
    assert found["policy-std"] == ("0.03", "method iql on adroit")
    assert found["policy-widths"] == ("256 256", "method iql")
    assert found["first-seed"] == ("0", "default")
    origins = [origin for _, origin in found.values()]
    first = origins.index("default")
    assert set(origins[first:]) == {"default"}
    assert not list(tmp_path.iterdir())


def test_explain_of_own_data_opens_neither_file_nor_environment(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(["--dataset", "gone.npz", "--env", "gone:Gone-v0", "--preset", "corl"], capsys)
    assert found["offline-updates"] == ("100000", "domain own")
    assert found["target-bounds"] == ("on", "preset corl")


def test_without_a_preset_the_command_line_has_the_options_that_python_has(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(["--dataset", "gone.npz", "--env", "gone:Gone-v0"], capsys)
    assert found["target-bounds"] == ("on", "domain own")
    assert explained(["--method", "bc"], capsys)["action-limit"] == ("0.99", "method bc")
    assert explained(["--method", "bc", "--preset", "paper"], capsys)["action-limit"] == ("0.99999", "preset paper")


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    return said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--onlin-steps", "5"], "no option is called 'onlin-steps'; did you mean 'online-steps'?"),
        (["train", "--expectil", "0.9"], "did you mean 'expectile'?"),
        (["train", "--seeds=2", "--batch_sise=3"], "did you mean 'batch-size'?"),
        (["evaluate", "--episods", "3", "run"], "did you mean 'episodes'?"),
        (["bench", "--methds"], "did you mean 'methods'?"),
        (["train", "--expectile", "0.9"], "--expectile is no option of the method 'cal-ql'"),
        (["train", "--expectile", "0.9"], "choose a method that has it: iql"),
        (["train", "much"], "'much' belongs to no option"),
        (["bench", "--soak", "1", "--set", "block=12", "--set", "lag=1"], "--set is given 2 times"),
        (["train", "--policy-widths", "8", "--policy_widths=9"], "--policy-widths ONE ANOTHER"),
        (["train", "--out"], "Missing value for argument '--out'"),
        (["train", "--seeds", "some"], "--seeds is 'some', which is not a number; it must be a whole number"),
        (["train", "--seeds", "1.5"], "--seeds is 1.5; it must be a whole number, at least 1"),
        (["evaluate", "--episodes", "3"], "no run given"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(words, capsys)


@pytest.mark.slow
def test_a_run_records_the_origin_of_its_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = corridor.write_demonstrations(tmp_path), tmp_path / "run"
    words = ["train", "--dataset", str(data), "--env", "corridor:Corridor-v0", "--method", "bc", "--out", str(out)]
    small = "--seeds 1 --offline-updates 4 --evaluate-offline-every 4 --evaluation-episodes 1 --policy-widths 8"
    assert main([*words, *small.split(), "--quiet"]) == 0
    origins = json.loads((out / "config.json").read_text())["origins"]
    config = json.loads((out / "config.json").read_text())
    assert origins.keys() == config["run"].keys() | config["options"].keys()
    assert origins["seeds"] == origins["policy_widths"] == "you"
    assert origins["online_steps"] == "method bc"
    assert origins["evaluate_online_every"] == "domain own"
    assert origins["block"] == "default"

    changes = ["--online-steps", "20", "--evaluate-online-every", "1000"]
    capsys.readouterr()
    assert explained(["--resume", str(out), *changes], capsys)["online-steps"] == ("20", "you (on resuming)")
    assert json.loads((out / "config.json").read_text()) == config
    assert "would make another run" in refused(["train", "--resume", str(out), "--policy-widths", "16"], capsys)
    assert "would make another run" in refused(["train", "--resume", str(out), "--method", "iql"], capsys)
    assert main(["train", "--resume", str(out), "--quiet", *changes, "--method", "bc"]) == 0
    now = json.loads((out / "config.json").read_text())["origins"]
    assert now == {**origins, "online_steps": "you (on resuming)"}
