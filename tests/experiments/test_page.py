"""The rendered folder of every experiment, and its page in a real browser."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from synthetic_tables import Made, write_idea, write_tidy

from browsing import PHONE, WIDE, opened
from calql.experiments.cells import CellStatus
from calql.experiments.pages.page import render
from calql.experiments.pages.renderings import RENDERINGS
from calql.experiments.paper.matrices import EXPERIMENTS
from calql.experiments.reproduce import draw
from calql.results import statistics
from calql.system.errors import UserError
from page_reader import HOSTILE, Page

PICTURES = {
    "table-scores": {"against-paper-after", "profile-after"},
    "table-regret": {"against-paper-regret", "profile-regret"},
    "table-locomotion": {"against-paper-after", "profile-after"},
    "fig-analysis": {"figure-2", "figure-3"},
    "fig-curves": {"figure-6", "figure-12"},
    "fig-utd": {"figure-7"},
    "fig-data": {"figure-8"},
    "fig-reference": {"figure-9"},
    "fig-iql": {"figure-10", "figure-11"},
    "fig-mixing": {"figure-13"},
    "fig-idea": {"figure-4", "switch"},
}


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "DRAWS", 50)
        patch.setattr(statistics, "PROFILE_DRAWS", 20)
        yield


def rendered(name: str, folder: Path, cells: list[Made], *more: CellStatus) -> Path:
    table = write_tidy(folder / "results.csv", cells, experiment=name)
    if name == "fig-idea":
        write_idea(folder / "idea.csv")
    return render(name, table, folder, status=[*(cell.status() for cell in cells), *more])


def cells_of(name: str) -> list[Made]:
    """Two seeds of every arm of an experiment, on its first task."""
    experiment = EXPERIMENTS[name]
    pairs = [(task, arm) for task, arm in experiment.pairs() if task == experiment.tasks[0]]
    return [
        Made(task, arm.method, arm.variant, seeds=2, evaluations=6, online=arm.options.get("online_steps", 100_000))
        for task, arm in pairs
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_gives_tables_figures_and_a_page(name, tmp_path):
    page = rendered(name, tmp_path, cells_of(name))
    assert page == tmp_path / "report.html"
    text = page.read_text()
    for picture in PICTURES[name]:
        assert (tmp_path / f"{picture}.png").stat().st_size > 5_000
        assert (tmp_path / f"{picture}.svg").stat().st_size > 5_000
        assert f'id="{picture}' in text
    assert {path.stem for path in tmp_path.glob("*.png")} == PICTURES[name]
    assert "| task |" in (tmp_path / "tables.md").read_text()
    assert r"\begin{tabular}" in (tmp_path / "tables.tex").read_text()
    assert "0123abc" in text  # the commit


def test_every_experiment_has_a_rendering():
    assert set(RENDERINGS) == set(EXPERIMENTS)
    with pytest.raises(UserError, match="no table or figure is called 'fig-curve'"):
        render("fig-curve", Path("results.csv"), Path(), status=[])


def test_cells_that_failed_or_wait_are_named_with_the_reason(tmp_path):
    failed = CellStatus("b", "pen-binary", "cql", "", "failed", "ran out of memory <on> the GPU", 90.0)
    waiting = CellStatus("c", "pen-binary", "iql", "", "not run")
    page = rendered("table-scores", tmp_path, [Made("door-binary", "cal-ql")], failed, waiting).read_text()
    assert "failed: ran out of memory &lt;on&gt; the GPU" in page
    assert "no number in the paper" in page  # explained, though no cell has it
    assert "Of 110 cells, " in page
    assert "not run: 109" in page


def test_before_anything_has_finished_the_page_says_so(tmp_path):
    page = rendered("fig-utd", tmp_path, [], CellStatus("a", "pen-binary", "rlpd", "utd=20", "running")).read_text()
    assert "No cell has finished yet" in page
    assert "| not run | running |" in (tmp_path / "tables.md").read_text()
    assert not list(tmp_path.glob("*.png"))


def test_the_page_is_the_same_each_time(tmp_path):
    first = rendered("fig-curves", tmp_path, cells_of("fig-curves")).read_bytes()
    assert rendered("fig-curves", tmp_path, cells_of("fig-curves")).read_bytes() == first


def named(name: str, folder: Path, experiment: str) -> Page:
    """A page with a name from outside wherever one may stand: task, method, variant, and what was said of a cell."""
    usual = Made("door-binary", "cal-ql", seeds=2, noise=0.0)
    other = replace(usual, task=f"task {name}", method=f"method {name}")
    said = f"state {name}", f"reason {name}", 90.0, f"short {name}"
    failed = CellStatus("x", "pen-binary", f"other {name}", "", *said)
    cells = [usual, other, replace(usual, variant=f"variant {name}")]
    return Page(rendered(experiment, folder, cells, failed))


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["table-scores", "fig-curves"])
def test_names_from_outside_are_shown_as_text(experiment, tmp_path):
    tame, page = named("plain", tmp_path / "tame", experiment), named(HOSTILE, tmp_path / "hostile", experiment)
    assert page.attributes == tame.attributes
    assert page.text == tame.text.replace("plain", HOSTILE)
    assert page.text.count(f"task {HOSTILE}") > 1
    for what in ("method", "variant", "other", "state", "reason", "short"):
        assert f"{what} {HOSTILE}" in page.text


@pytest.fixture(scope="module")
def curves(browser, tmp_path_factory):
    """The page of fig-curves as a user sees it."""
    cells = [
        Made(task, method, after=after, seeds=3)
        for task in ("door-binary", "pen-binary")
        for method, after in (("cal-ql", 0.9), ("cql", 0.5), ("iql", 0.7))
    ]
    report = rendered("fig-curves", tmp_path_factory.mktemp("page"), cells)
    with opened(browser, report.as_uri()) as seen:
        seen.page.wait_for_selector("#figure-6-0 .scatterlayer .js-line")
        yield seen


def column(page, table: str, head: str) -> list[str]:
    place = page.locator(f"#{table} th").all_inner_texts().index(head)
    return page.locator(f"#{table} tbody tr td:nth-child({place + 1})").all_inner_texts()


def test_the_head_of_a_table_sorts_it_by_keyboard(curves):
    page = curves.page
    page.locator("#cells > summary").focus()
    page.keyboard.press("Enter")
    before = column(page, "cells", "after")
    head = page.locator("#cells th", has_text="after").first
    head.locator("button").focus()
    page.keyboard.press("Enter")
    rising = column(page, "cells", "after")
    assert rising != before
    means = [float(text.split()[0]) for text in rising]
    assert means == sorted(means)
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert [float(text.split()[0]) for text in column(page, "cells", "after")] == means[::-1]
    assert head.get_attribute("aria-sort") == "descending"


def test_curves_are_drawn_and_name_themselves_under_the_mouse(curves):
    page = curves.page
    assert (page.locator("#figure-6-0 .scatterlayer .js-line").last.get_attribute("d") or "").count(",") > 10
    assert page.locator("#figure-6-1").count() == 1  # a panel for each task
    page.locator("#figure-6-0").scroll_into_view_if_needed()
    point = page.evaluate(
        """() => {
            const plot = document.querySelector("#figure-6-0 .plot"), axes = plot._fullLayout;
            const trace = plot._fullData.find(each => each.name === "CQL" && each.mode === "lines"), i = 10;
            const box = plot.getBoundingClientRect();
            return [box.x + axes.xaxis._offset + axes.xaxis.d2p(trace.x[i]),
                    box.y + axes.yaxis._offset + axes.yaxis.d2p(trace.y[i])];
        }"""
    )
    page.mouse.move(point[0] - 3, point[1])
    page.mouse.move(*point)
    page.wait_for_selector("#figure-6-0 .hoverlayer .hovertext")
    assert "CQL" in (page.locator("#figure-6-0 .hoverlayer").text_content() or "")


def test_a_name_hides_its_curves_in_every_panel(curves):
    page = curves.page
    lines = "() => document.querySelectorAll('[id^=figure-12] .scatterlayer .js-line').length === "
    page.locator("#figure-12-1").scroll_into_view_if_needed()
    page.wait_for_function(lines + "8")  # two methods on two tasks, each a curve and the edge of its band
    key = page.locator("button[data-group='CQL']").last
    key.click()
    page.wait_for_function(lines + "4")
    assert key.get_attribute("aria-pressed") == "false"
    key.click()
    page.wait_for_function(lines + "8")


def test_nothing_leaves_the_page(curves):
    assert curves.elsewhere == []
    assert curves.complaints == []
    buttons = curves.page.locator("#figure-6-0 .modebar-btn").evaluate_all("all => all.map(one => one.dataset.title)")
    assert any("Download" in title for title in buttons)
    assert not any("loud" in title.replace("Download", "") or "hare" in title for title in buttons)


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_the_page_fits_the_window(browser, tmp_path, width):
    report = rendered("table-scores", tmp_path, cells_of("table-scores"))
    with opened(browser, report.as_uri(), width, scheme="dark") as seen:
        seen.page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
        seen.draw_all()
        assert (seen.overflow, seen.complaints, seen.elsewhere) == (0, [], [])
        why = seen.page.locator("#cells tbody td.text").first.bounding_box()
        assert why["width"] >= 200  # a column that can be read


def test_figures_show_names_from_outside_as_text(browser, tmp_path):
    report = rendered("fig-curves", tmp_path, [Made(HOSTILE, f"method {HOSTILE}"), Made("door-binary", "cal-ql")])
    with opened(browser, report.as_uri()) as seen:
        seen.page.wait_for_selector("#figure-6-0 .scatterlayer .js-line")
        assert HOSTILE in seen.page.locator("h4").all_text_contents()  # the title of a panel
        assert f"method {HOSTILE}" in seen.page.locator(".legend button").all_text_contents()
        names = seen.page.evaluate(
            "[...document.querySelectorAll('[data-drawn] .plot')].flatMap(plot => plot._fullData.map(t => t.name))"
        )
        assert f"method {escape(HOSTILE, quote=False)}" in names  # as plotly is told it, which undoes it when it draws
        assert seen.page.locator("img, [onclick]").count() == 0
        assert seen.dialogs == []


def test_a_table_from_elsewhere_gives_the_same_tables(tmp_path: Path) -> None:
    done, cut = Made("door-binary", "cal-ql", scale="small"), Made("pen-binary", "cql", scale="small", finished=False)
    table = write_tidy(tmp_path / "results.csv", [done, cut])
    page = render("table-scores", table, tmp_path / "here", status=[done.status(), cut.status()])
    packed = tmp_path / "results.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    drawn = draw(EXPERIMENTS["table-scores"], packed, tmp_path / "there")
    ours, theirs = (path.parent.joinpath("tables.md").read_text() for path in (page, drawn))
    assert ours.split("## Cell by cell")[0].split("##")[1:] == theirs.split("## Cell by cell")[0].split("##")[1:]
    assert "unfinished in this table" in theirs
    assert "| door-binary | Cal-QL | 4 |" in theirs


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="without rows"):
        draw(EXPERIMENTS["table-scores"], write_tidy(tmp_path / "results.csv", []), tmp_path)


def test_a_scale_that_is_not_known_is_named(tmp_path: Path) -> None:
    table = write_tidy(tmp_path / "results.csv", [Made("door-binary", "cal-ql", scale="huge")])
    with pytest.raises(UserError, match="huge"):
        draw(EXPERIMENTS["table-scores"], table, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table-scores", "fig-data", "table-locomotion"])
def test_tables_in_the_repository_can_be_drawn(name: str, tmp_path: Path) -> None:
    kept = Path(__file__).parents[2] / "results" / "small" / f"{name}.csv.gz"
    text = draw(EXPERIMENTS[name], kept, tmp_path).parent.joinpath("tables.md").read_text()
    assert "| not decided | 4 seeds (paper: 6);" in text  # a line of its own, not the legend
