"""The report: one self-contained page about one run, or about several compared, and its plots as PNG."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from calql.results import figures
from calql.results.metrics import write_atomically
from calql.results.page import Material, report_page, summary_of
from calql.results.runs import read_runs
from calql.system import run_files
from calql.system.errors import UserError


def write_report(run_folders: Sequence[Path | str], out: Path | str | None = None) -> Path:
    """Write the page and its PNGs, and give back where the page is.

    One run or one sweep: `report.html`, `plots/` and `summary.json` in its folder; several: `report.html` here, its
    plots in `report-plots/` beside it. `out` names another file (or a folder) for the page.
    """
    runs = [run for folder in run_folders for run in read_runs(folder)]
    if not runs:
        raise UserError("no run to report on", mend="name at least one run folder")
    alone = len(run_folders) == 1
    page = _where(runs[0].folder if alone else Path(), out)
    plots_folder = runs[0].folder / run_files.PLOTS if alone else page.parent / f"{page.stem}-plots"
    for folder in (page.parent, plots_folder):
        folder.mkdir(parents=True, exist_ok=True)
    material = Material.of(runs)
    if alone:
        write_atomically(runs[0].folder / run_files.SUMMARY, json.dumps(summary_of(runs), indent=2) + "\n")
    write_atomically(page, report_page(material, page))
    _write_plots(material, plots_folder)
    return page


def _where(usual: Path, out: Path | str | None) -> Path:
    if out is None:
        return usual / run_files.REPORT
    place = Path(out)
    if place.is_dir():
        return place / run_files.REPORT
    if place.suffix.lower() not in (".html", ".htm"):
        raise UserError("a report is an HTML page", where=str(place), mend="give --out a name that ends in .html")
    return place


def _write_plots(material: Material, folder: Path) -> None:
    """The same figures as files, for papers and slides."""
    several = len(material.sheets) > 1
    for task, sheets in material.sheets.items():
        prefix = re.sub(r"[^\w.-]+", "-", task) + "-" if several else ""
        for sheet in sheets:
            write_atomically(folder / f"{prefix}{sheet.name}.png", figures.png(sheet))
