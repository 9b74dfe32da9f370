"""calql bench."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

from calql import experiment as experiments
from calql.bench.environments import measure_env
from calql.bench.updates import Shapes, measure_updates
from calql.cli.parse import parse, peek
from calql.errors import UserError
from calql.experiment import Choice
from calql.tasks import DEFAULT, all_tasks, get_task


@dataclass(frozen=True)
class BenchOptions:
    """What to measure. Without --observation and --action: the shapes of the task."""

    task: str = DEFAULT
    """Task whose shapes and options are measured."""
    method: str = "cal-ql"
    """Method to measure."""
    preset: str = "paper"
    """Options as a named source has them."""
    seeds: tuple[int, ...] = (1, 4)
    """Numbers of seeds to train at once."""
    observation: int | None = None
    """Observation size."""
    action: int | None = None
    """Action size."""
    transitions: int = 100_000
    """Logged transitions on the device."""
    seconds: float = 5.0
    """Time given to each measurement."""
    envs: bool = False
    """Measure environment steps/s of every task instead."""
    out: str | None = None
    """Also write the JSON to this file."""


def run(command: str, words: Sequence[str]) -> int:
    choice = Choice(
        task=peek(words, "task") or DEFAULT,
        method=peek(words, "method") or "cal-ql",
        preset=peek(words, "preset") or "paper",
    )
    task = get_task(str(choice.task))
    _, learner = experiments.defaults(choice, task)
    kind = make_dataclass(
        "Bench", [("bench", BenchOptions, BenchOptions()), ("learner", type(learner), learner)], frozen=True
    )
    parsed: Any = parse(kind, words, command=command, default=kind())
    options: BenchOptions = parsed.bench
    results = _environments(options) if options.envs else _updates(options, parsed.learner)
    text = json.dumps({"versions": experiments.versions(), "results": results}, indent=2)
    print(text)
    if options.out is not None:
        Path(options.out).write_text(text + "\n")
    return 0


def _updates(options: BenchOptions, learner: Any) -> list[dict[str, Any]]:
    env = get_task(options.task).make_env()
    observation = options.observation or int(env.observation_space.shape[0])  # type: ignore[index]
    action = options.action or int(env.action_space.shape[0])  # type: ignore[index]
    env.close()
    rows = []
    for seeds in options.seeds:
        if seeds < 1:
            raise UserError(f"--seeds is {seeds}", mend="it must be at least 1")
        shapes = Shapes(observation, action, options.transitions, seeds=seeds)
        measured = measure_updates(options.method, learner, shapes, seconds=options.seconds)
        rows.append({**dataclasses.asdict(shapes), "options": dataclasses.asdict(learner), **measured})
    return rows


def _environments(options: BenchOptions) -> list[dict[str, Any]]:
    return [measure_env(task, seconds=options.seconds) for task in all_tasks().values()]
