"""Tables: the paper's averages and improvement, ours beside them, and the three formats."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_tables import Made, write_tidy

from calql.experiments.analysis import aggregates
from calql.experiments.analysis.comparison import compare
from calql.experiments.analysis.evaluations import read_results
from calql.experiments.analysis.scoreboard import board, listing
from calql.experiments.paper.numbers import Number, main_table
from calql.experiments.tables import Table, card, latex, latex_text, markdown
from calql.results import statistics
from calql.results.html import TableCell, environment

SCORES: tuple[Number, ...] = ("before", "after")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(statistics, "DRAWS", 100)


def scores_board(tmp_path: Path, *cells: Made, shuffle: int | None = None) -> Table:
    results = read_results(write_tidy(tmp_path / "results.csv", cells, shuffle=shuffle))
    return board("scores", "Scores", compare(results, [], main_table(), SCORES, whole=True), main_table(), SCORES)


def html(table: Table) -> str:
    """The table as it stands in the page."""
    return str(environment().get_template("macros.html.j2").module.card(card(table)))


def find(table: Table, row: str, column: str) -> TableCell:
    (line,) = (line for line in (*table.body, *table.foot) if line[0].text == row)
    return line[list(table.heads).index(column)]


def test_averages_and_improvement_of_the_paper_are_those_printed(tmp_path):
    table = scores_board(tmp_path, Made("kitchen-mixed", "td3-bc"))
    below = {name: find(table, "average", name).below for name in ("CQL", "O3F", "ODT", "Hybrid RL", "Cal-QL")}
    assert below == {"CQL": "42 → 71", "O3F": "44 → 45", "ODT": "0 → 2", "Hybrid RL": "→ 24", "Cal-QL": "44 → 90"}
    gained = {"CQL": "+30", "O3F": "+1", "ODT": "+2", "Hybrid RL": "N/A", "Cal-QL": "+47"}  # 43.5 to 90.0
    assert {name: find(table, "improvement, points", name).below for name in gained} == gained
    assert find(table, "improvement, points", "SAC").below == "N/A"


def test_ours_is_averaged_over_what_ran_and_the_paper_over_the_same(tmp_path):
    same = {"before": 0.5, "after": 0.5, "noise": 0.0}
    table = scores_board(
        tmp_path, Made("door-binary", "cal-ql", **same), Made("pen-binary", "cal-ql", short=True, part=30, **same)
    )
    average = find(table, "adroit average", "Cal-QL")
    assert average.text == "49 → 50 ~"  # the short cell decides nothing
    assert average.below == "57 → 96 (2 of 3)"  # (35 + 79) / 2, (92 + 99) / 2
    assert find(table, "average", "Cal-QL").below == "57 → 96 (2 of 11)"
    assert find(table, "average", "CQL").text == "-"


def test_a_cell_shows_ours_the_papers_and_a_mark(tmp_path):
    near = Made("door-binary", "cal-ql", before=0.357, after=0.92, noise=0.0)
    table = scores_board(tmp_path, near, Made("door-binary", "cql", before=0.9, after=0.1))
    same, other = find(table, "door-binary", "Cal-QL"), find(table, "door-binary", "CQL")
    assert (same.text, same.below, same.css) == ("35 → 92 =", "35 → 92", "agrees")
    assert other.text.endswith("!")
    assert find(table, "door-binary", "IQL").text == "-"
    assert find(table, "pen-binary", "Cal-QL").text == "-"


def test_nothing_of_ours_is_shown_that_did_not_finish(tmp_path):
    table = scores_board(tmp_path, Made("door-binary", "cal-ql", finished=False))
    assert find(table, "door-binary", "Cal-QL").text == "-"
    assert find(table, "average", "Cal-QL").text == "-"


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_lines_in_the_file_changes_nothing(tmp_path_factory, shuffle):
    cells = [Made("door-binary", "cal-ql"), Made("door-binary", "cql", dip=0.3), Made("pen-binary", "cal-ql")]
    folder = tmp_path_factory.mktemp("tidy")
    plain, shuffled = (scores_board(folder, *cells, shuffle=order) for order in (None, shuffle))
    assert plain == shuffled


def test_every_cell_has_a_line_with_its_interval_and_verdict(tmp_path):
    results = read_results(write_tidy(tmp_path / "results.csv", [Made("door-binary", "cal-ql", short=True)]))
    entries = compare(results, [], main_table(), SCORES, whole=True)
    table = listing(entries, hundredths=True)
    assert len(table.body) == 110
    (line,) = (row for row in table.body if row[0].text == "door-binary" and row[1].text == "Cal-QL")
    said = dict(zip(table.heads, (cell.text for cell in line), strict=True))
    assert said["verdict"] == "agrees with the paper"  # with half of its steps
    assert said["seeds"] == "4"
    assert said["after"].endswith("]")
    assert (said["after, paper"], said["regret, paper"]) == ("92", "0.23")


def test_methods_are_compared_over_the_tasks_of_both(tmp_path):
    cells = [Made(task, "cal-ql", after=0.95) for task in ("door-binary", "pen-binary")]
    results = read_results(write_tidy(tmp_path / "results.csv", [*cells, Made("pen-binary", "cql", after=0.4)]))
    table = aggregates.aggregate_table(aggregates.scores_of(results, "after"), "after")
    assert [[cell.text for cell in row[:2]] for row in table.body] == [["Cal-QL", "2"], ["CQL", "1"]]
    assert table.heads[4] == "interquartile mean, 1 shared tasks"
    assert table.body[1][-1].text == "1.00 [1.00, 1.00]"
    assert table.body[0][-1].text == ""


AWKWARD = Table(
    "t", "50% & more_less", ["a|b", "c"], [[TableCell("x_1 & <b>", "5 → 6"), TableCell("{}~^\\#$%", value=1.0)]]
)


def test_latex_escapes_what_latex_reads():
    text = latex(AWKWARD)
    assert r"\shortstack{x\_1 \& \textless{}b\textgreater{}\\5 $\to$ 6}" in text
    assert r"\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}\#\$\%" in text
    assert r"50\% \& more\_less" in text
    assert text.count(r"\begin") == text.count(r"\end")


def test_long_tables_go_over_several_pages_of_latex():
    rows = [[TableCell(f"row {place}"), TableCell("a word " * 10)] for place in range(100)]
    text = latex(Table("t", "Long", ["a", "b"], rows, foot=[[TableCell("average"), TableCell("")]]))
    assert text.count(r"\begin{tabular}{lp{4cm}}") == 3
    assert text.count("row ") == 100
    assert text.count("average") == 1
    assert text.count(r"\caption{Long, continued}") == 2


def test_averages_stay_below_however_the_table_is_sorted(tmp_path):
    body, foot = html(scores_board(tmp_path, Made("door-binary", "cal-ql"))).split("<tfoot>")
    assert "average" not in body.split("<tbody>")[1]
    assert foot.count("average</td>") == 4  # three domains of several tasks, and all


@given(st.text(alphabet="ab&%$#_{}~^\\<>|→", max_size=20))
def test_latex_text_leaves_no_special_character_bare(text):
    rest = latex_text(text).replace(r"$\to$", "")
    for name in ("backslash", "asciitilde", "asciicircum", "less", "greater", "bar"):
        rest = rest.replace(rf"\text{name}{{}}", "")
    for escaped in (r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"):
        rest = rest.replace(escaped, "")
    assert set(rest) <= set("ab")


def test_markdown_keeps_its_columns():
    head, rule, line = markdown(AWKWARD).splitlines()[2:5]
    assert rule == "| --- | --- |"
    assert line.count("|") == 3
    assert head.replace("\\|", "").count("|") == 3
    assert r"x\_1 & &lt;b><br>5 → 6" in line  # markup in a text is not markup in the page


def test_html_escapes_and_sorts_by_value():
    class Texts(HTMLParser):
        found: list[tuple[str, dict[str, str | None]]] = []  # noqa: RUF012

        def handle_starttag(self, tag, attrs):
            self.found.append((tag, dict(attrs)))

    page = html(AWKWARD)
    Texts().feed(page)
    cells = [attributes for tag, attributes in Texts.found if tag == "td"]
    assert not any(tag == "b" for tag, _ in Texts.found)
    assert [cell.get("data-value") for cell in cells] == [None, "1"]
