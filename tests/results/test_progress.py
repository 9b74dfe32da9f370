"""The display: lines where there is no terminal, a live view where there is one."""

from __future__ import annotations

import io

from rich.console import Console

from calql.results.progress import Progress, Silent, clock_text, sparkline


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def rows(phase: str, update: int, steps: int, *scores: float, switch: bool = False) -> list[dict]:
    return [
        {"seed": seed, "phase": phase, "update": update, "env_steps": steps, "score": score, "switch": switch}
        for seed, score in enumerate(scores)
    ]


def drive(display: Progress | Silent, clock: Clock) -> None:
    display.start(1_000, 500, "cal-ql on point-maze")
    display.phase("offline")
    for update in range(0, 1_000, 10):
        clock.now += 0.5
        display.advance(update, 0, 20.0, 0.0)
    display.evaluation(rows("offline", 1_000, 0, 0.25, 0.75, switch=True))
    display.phase("online")
    display.advance(1_050, 50, 80.0, 40.0)
    clock.now += 10.0
    display.advance(1_250, 250, 80.0, 40.0)
    display.evaluation(rows("online", 1_240, 240, 0.5, 1.0)[:1])
    display.evaluation(rows("online", 1_260, 260, 0.5, 1.0)[1:])
    display.message("saved [somewhere]")
    display.close()


def test_plain_lines() -> None:
    out, clock = io.StringIO(), Clock()
    drive(Progress(Console(file=out, width=40), clock=clock), clock)
    lines = out.getvalue().splitlines()
    assert lines[0] == "cal-ql on point-maze"
    heartbeats = [line for line in lines if "score" not in line and "updates/s" in line and "offline" in line]
    assert len(heartbeats) == 3  # one in 15 s, over 50 s
    assert heartbeats[0] == "offline        290/1,000 updates  20 updates/s per seed  0:36 left"
    assert "score 0.50 (0.25 to 0.75)  (switch)" in lines[4]
    assert lines[5] == (
        "online         250/500 env steps  80 updates/s, 40 env steps/s per seed  0:12 left  score 0.75 (0.50 to 1.00)"
    )  # one line for both seeds, and the time left from the pace seen, 200 steps in 10 s
    assert lines[-1] == "saved [somewhere]"


def test_live_view() -> None:
    out, clock = io.StringIO(), Clock()
    drive(Progress(Console(file=out, width=120, force_terminal=True), clock=clock), clock)
    text = out.getvalue()
    assert "env steps" in text
    assert sparkline([0.5, 0.75]) in text


def view(display: Progress) -> list[str]:
    """The live view as 80 columns have it."""
    console = Console(file=io.StringIO(), width=80)
    console.print(display._view())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_the_view_of_a_long_sweep_fits_80_columns() -> None:
    clock = Clock()
    display = Progress(Console(file=io.StringIO(), width=80, force_terminal=True), clock=clock)
    display.start(1_000_000, 1_000_000, "cal-ql on antmaze-medium-diverse, 4 seeds of each of 2 arms")
    assert "compiling the program, which takes some seconds the first time" in view(display)
    display.phase("online")
    display.advance(1_000_000, 100_000, 13_223.0, 801.0)
    clock.now += 3_600.0
    display.advance(1_000_000, 123_456, 13_223.0, 801.0)
    arms = [
        {"arm": arm, "seed": seed, "score": score}
        for arm, seed, score in (("calibrate=true", 0, 1.0), ("calibrate=false", 0, 0.5), ("calibrate=false", 1, 0.0))
    ]
    display.evaluation(arms)
    lines = view(display)
    display.close()
    assert lines[1].endswith("1,000,000/1,000,000 updates")
    assert lines[2].endswith("123,456/1,000,000 env steps  37:22:11 left")
    assert lines[3] == "13,223 updates/s, 801 env steps/s per seed"
    assert lines[4] == "score calibrate=true   1.00                 █"
    assert lines[5] == "score calibrate=false  0.25 (0.00 to 0.50)  ▃"
    assert len(lines) == 6


def test_what_is_prepared_is_said_at_once() -> None:
    out = io.StringIO()
    Progress(Console(file=out, width=80)).preparing("reading the data of a task")
    assert out.getvalue() == "reading the data of a task ...\n"


def test_no_empty_bars_stay_above_an_error() -> None:
    """A display that is closed before anything has happened takes its lines away."""
    for happened in (False, True):
        out = io.StringIO()
        display = Progress(Console(file=out, width=80, force_terminal=True))
        display.start(10, 10, "cal-ql on a task")
        if happened:
            display.advance(5, 0, 1.0, 0.0)
        display.close()
        erased = out.getvalue().rsplit("no score yet", 1)[1].count("\x1b[2K")
        assert (erased > 0) is not happened


def test_silent_says_nothing(capsys) -> None:
    drive(Silent(), Clock())
    assert capsys.readouterr().out == ""


def test_small_texts() -> None:
    assert sparkline([-1.0, 0.0, 0.5, 1.0, 2.0]) == "▁▁▅██"
    assert (clock_text(59.6), clock_text(3_723)) == ("1:00", "1:02:03")
