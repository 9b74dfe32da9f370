"""The paper's numbers are shipped whole: its printed averages come out of them."""

from __future__ import annotations

import numpy as np
import pytest

from calql.domains.registry import all_tasks
from calql.experiments.names import method_called, method_name, method_place
from calql.experiments.paper.numbers import PRINTED, PaperTable, locomotion_table, main_table
from calql.methods import METHODS

MAIN_AVERAGES = {  # Tables 1 and 2 as printed: before, after (out of 100), regret
    "cql": (42, 71, 0.41), "iql": (50, 69, 0.38), "awac": (16, 20, 0.82), "o3f": (44, 45, 0.54), "odt": (0, 2, 0.97),
    "cql-sac": (42, 29, 0.69), "hybrid": (None, 24, 0.82), "sac-offline": (None, 23, 0.86), "sac": (None, 4, 0.96),
    "cal-ql": (44, 90, 0.22),
}  # fmt: skip
LOCOMOTION_AVERAGES = {  # Tables 5 and 6 as printed
    "cql": (0.66, 0.96, 0.12), "iql": (0.60, 0.65, 0.42), "awac": (0.57, 0.78, 0.26), "hybrid": (None, 0.89, 0.33),
    "cal-ql": (0.60, 0.90, 0.17),
}  # fmt: skip


def averages(table: PaperTable, method: str) -> tuple[float | None, ...]:
    found = []
    for number in ("before", "after", "regret"):
        values = [table.number((task, method), number) for task in table.tasks]
        known = [value for value in values if value is not None]
        found.append(float(np.mean(known)) if known else None)
    return tuple(found)


@pytest.mark.parametrize("method", MAIN_AVERAGES)
def test_averages_of_the_main_tables_are_those_printed(method):
    before, after, regret = averages(main_table(), method)
    expected = MAIN_AVERAGES[method]
    assert (before is None) == (expected[0] is None)
    assert before is None or 100 * before == pytest.approx(expected[0], abs=0.51)
    assert 100 * after == pytest.approx(expected[1], abs=0.51)
    assert regret == pytest.approx(expected[2], abs=0.0051)


@pytest.mark.parametrize("method", LOCOMOTION_AVERAGES)
def test_averages_of_the_locomotion_tables_are_those_printed(method):
    for value, expected in zip(averages(locomotion_table(), method), LOCOMOTION_AVERAGES[method], strict=True):
        assert (value is None) == (expected is None)
        assert value is None or value == pytest.approx(expected, abs=0.0051)


def test_every_task_and_method_of_the_paper_is_one_of_ours():
    for table, tasks, methods in ((main_table(), 11, 10), (locomotion_table(), 15, 5)):
        assert len(table.tasks) == tasks
        assert len(table.methods) == methods
        assert len(table.cells) == tasks * methods
        assert set(table.tasks) <= set(all_tasks())
        assert set(table.methods) <= set(METHODS)
    assert set(PRINTED.values()) <= set(METHODS)


def test_a_method_is_called_what_its_file_says():
    assert [method_name(name) for name in ("wsrl", "cal-ql-utd20", "somebody-elses")] == [
        "WSRL", "Cal-QL at 20 updates", "somebody-elses",
    ]  # fmt: skip
    assert [method_called(title) for title in ("WSRL", "Cal-QL", "unheard of")] == ["wsrl", "cal-ql", None]
    assert all(method_name(method) == printed for printed, method in PRINTED.items())
    assert sorted(("wsrl", "somebody-elses", "cql", "cal-ql"), key=method_place)[::3] == ["cal-ql", "somebody-elses"]


def test_what_the_paper_does_not_print_is_none():
    table = main_table()
    assert table.number(("kitchen-partial", "odt"), "after") is None
    assert table.number(("door-binary", "sac"), "before") is None
    assert table.number(("door-binary", "td3-bc"), "after") is None
    assert table.number(("antmaze-large-diverse", "awac"), "after") == 0.0
