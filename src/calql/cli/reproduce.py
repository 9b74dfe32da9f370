"""calql reproduce NAME."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from calql.cli import reproduce_page
from calql.cli.parse import parse
from calql.system.errors import UserError
from calql.system.options import Checked, Count, CountOrZero, NotNegative, Positive, Processes

if TYPE_CHECKING:
    from calql.experiments.launchers.base import Launcher
    from calql.experiments.launchers.machine import Machine
    from calql.experiments.matrix import Matrix

THEORY = "fig-theory"


@dataclass(frozen=True)
class ReproduceOptions(Checked):
    """Run the experiment behind a table or figure of the paper, and write it next to the paper's numbers.

    Finished cells are not run again, unfinished ones go on from their last checkpoint: give the same command again.
    """

    name: Annotated[str, tyro.conf.Positional]
    """The table or figure: table-scores, table-regret, table-locomotion, fig-analysis, fig-curves, fig-utd, fig-data,
    fig-reference, fig-iql, fig-mixing, fig-idea or fig-theory; or page, all results on one."""
    scale: Literal["smoke", "small", "paper"] = "small"
    """How much of it: smoke is seconds per cell on two cores, small minutes on a GPU, paper the whole protocol."""
    seeds: Count | None = None
    """Seeds per cell, which train as one program (default: the scale's)."""
    tasks: tuple[str, ...] = ()
    """Only these tasks."""
    methods: tuple[str, ...] = ()
    """Only these methods."""
    set: tuple[str, ...] = ()
    """Options NAME=VALUE for every cell that has them, such as precision=bfloat16."""
    out: str = "runs/reproduce"
    """The folder of cells and reports; experiments that share cells share them there."""
    dry_run: bool = False
    """Print the cells, their size and an estimate of the time, and run nothing."""
    card: str = "NVIDIA H200"
    """The kind of GPU that --dry-run reckons with for the launchers ray and slurm; the rates of others are assumed."""
    price: NotNegative | None = None
    """What an hour of a GPU costs, for a total with --dry-run."""
    report_only: bool = False
    """Run nothing; write tables, figures and report of what there is."""
    table: str | None = None
    """Run nothing; write tables, figures and report of this results.csv (or .csv.gz), from wherever it came."""
    max_minutes: Positive | None = None
    """Checkpoint all cells, write the report and end before so many minutes have passed."""
    launcher: Literal["local", "ray", "slurm"] = "local"
    """Where cells run: on this machine, on a Ray cluster, or as jobs of Slurm."""
    jobs: Processes | None = None
    """Launchers local and slurm: cells at once (default: what this machine's cores and GPU bear; with Slurm all)."""
    address: str = "auto"
    """Launcher ray: the cluster (HOST:PORT, ray://HOST:PORT, or auto for the one this machine belongs to)."""
    gpus: NotNegative = 0.0
    """Launcher ray: share of a GPU for each cell. Slurm: GPUs, over which it shares out its seeds. 0: on CPUs."""
    cpus: Positive = 1.0
    """Launchers ray and slurm: CPUs for each cell."""
    retries: CountOrZero = 3
    """Launchers ray and slurm: how often a cell is sent again when its worker is lost or its job's time is up."""
    slurm: tuple[str, ...] = ()
    """Launcher slurm: options of sbatch as NAME=VALUE, such as time=4:00:00 (needed), partition=gpu and account=lab."""


def run(command: str, words: Sequence[str]) -> int:
    if words and words[0] == reproduce_page.NAME:
        return reproduce_page.page(words[1:])
    options = parse(ReproduceOptions, words, command=command)
    if options.name == THEORY:
        return _theory(options)
    return _matrix(options) if options.table is None else _drawn(options, options.table)


def _refuse(options: ReproduceOptions, what: str, *names: str) -> None:
    for name in names:
        if getattr(options, name):
            raise UserError(f"--{name.replace('_', '-')} means nothing for {what}", mend="leave it out")


def _drawn(options: ReproduceOptions, table: str) -> int:
    """A table holds all that its rendering needs; what else is there to run stands in it as not run."""
    from calql.experiments.paper.matrices import find_experiment
    from calql.experiments.reproduce import draw

    _refuse(options, "--table", "tasks", "methods", "set", "seeds", "dry_run", "report_only")
    _tell(f"report: {draw(find_experiment(options.name, also=(THEORY,)), Path(table), Path(options.out))}")
    return 0


def _theory(options: ReproduceOptions) -> int:
    """The theory has no cells: it is one small computation."""
    import calql.theory

    _refuse(options, THEORY, "tasks", "methods", "set", "dry_run", "report_only", "table")
    folder = Path(options.out) / f"{THEORY}-{options.scale}"
    print(f"report: {calql.theory.run(options.scale, options.seeds, folder) / 'report.md'}")
    return 0


def _matrix(options: ReproduceOptions) -> int:
    from calql.experiments.experiment import cells_of
    from calql.experiments.launchers.base import StopRequest
    from calql.experiments.matrix import Matrix, left_text, outcome_text
    from calql.experiments.paper.matrices import find_experiment
    from calql.experiments.reproduce import report
    from calql.experiments.scales import SCALES

    if options.slurm and options.launcher != "slurm":
        raise UserError("--slurm means nothing for --launcher " + options.launcher, mend="add --launcher slurm")
    experiment, scale = find_experiment(options.name, also=(THEORY,)), SCALES[options.scale]
    cells = cells_of(
        experiment,
        scale,
        seeds=options.seeds,
        tasks=options.tasks,
        methods=options.methods,
        changes=options.set,
    )
    matrix = Matrix(experiment, scale, cells, Path(options.out))
    if options.dry_run:
        return _dry_run(matrix, options)
    stop = StopRequest.after(options.max_minutes)
    if not options.report_only and options.launcher == "local":
        _tell(f"{left_text(matrix, *_here(matrix, options))} on this machine (--dry-run lists them)")
    if not options.report_only:
        with stop.on_signals():
            matrix.run(_launcher(options), stop, _tell)
    _tell(f"report: {report(matrix)}")
    statuses = matrix.statuses()
    _tell(outcome_text(statuses))
    return int(any(status.state == "failed" for status in statuses))


def _launcher(options: ReproduceOptions) -> Launcher:
    if options.launcher == "ray":
        from calql.experiments.launchers.ray import RayLauncher

        return RayLauncher(options.address, cpus=options.cpus, gpus=options.gpus, retries=options.retries)
    if options.launcher == "slurm":
        from calql.experiments.launchers.slurm import SlurmLauncher

        return SlurmLauncher(
            options.slurm, cpus=options.cpus, gpus=options.gpus, jobs=options.jobs, retries=options.retries
        )
    from calql.experiments.launchers.local import LocalLauncher

    return LocalLauncher(options.jobs)


def _dry_run(matrix: Matrix, options: ReproduceOptions) -> int:
    from calql.experiments.launchers.machine import Machine
    from calql.experiments.matrix import plan_text

    count = len(matrix.cells)
    if options.launcher == "local":
        print(plan_text(matrix, *_here(matrix, options), price=options.price))
        return 0
    cards = tuple(map(str, range(math.ceil(options.gpus))))  # a share of a GPU is reckoned as a whole one
    one = Machine(math.ceil(options.cpus), cards, options.card)
    print(plan_text(matrix, one, min(options.jobs or count, count), apart=True, price=options.price))
    return 0


def _here(matrix: Matrix, options: ReproduceOptions) -> tuple[Machine, int]:
    """This machine, and how many cells run on it at once."""
    from calql.experiments.launchers.machine import this_machine

    machine = this_machine()
    return machine, min(options.jobs or machine.jobs, len(matrix.cells))


def _tell(text: str) -> None:
    print(text, flush=True)
