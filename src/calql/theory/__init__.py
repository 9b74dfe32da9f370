"""The paper's section 6 and appendices H and I, as code: `run` is `calql reproduce fig-theory`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from calql.theory.claims import check_bound, verdicts
from calql.theory.experiment import Report, Scale, run_experiment
from calql.theory.figure import draw
from calql.theory.report import write_report, write_tables

SCALES: Mapping[str, Scale] = MappingProxyType(
    {
        "smoke": Scale(instances=2, seeds=3, episodes=64, scaling_instances=2),
        "small": Scale(instances=5, seeds=10, episodes=500, scaling_instances=5),
        "paper": Scale(instances=25, seeds=20, episodes=1000, scaling_instances=10),
    }
)


def run(
    scale: Literal["smoke", "small", "paper"] = "small",
    seeds: int | None = None,
    out: Path = Path("runs/fig-theory"),
    report: Report = print,
) -> Path:
    """Run the whole experiment; write results.csv, theory.png, theory.svg and report.md, and return the folder."""
    chosen = SCALES[scale] if seeds is None else replace(SCALES[scale], seeds=seeds)
    out.mkdir(parents=True, exist_ok=True)
    report(f"theory, scale {scale}: {chosen}")
    results = run_experiment(chosen, report)
    found, bound = verdicts(results), check_bound(results)
    write_tables(results, found, out)
    draw(results, bound, out / "theory")
    write_report(results, found, bound, out / "report.md")
    report(f"  written: {out / 'report.md'}")
    return out
