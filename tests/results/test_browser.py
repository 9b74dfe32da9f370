"""Reports of runs in a real browser: they fit, they load nothing, and they can be used without a mouse."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from synthetic_runs import make_run, page_of

from browsing import PHONE, WIDE, opened

ARMS = ("calibrate=true", "calibrate=false")
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
CHECKPOINTS = ("before the switch", "after the first updates", "at the end")
MAPS = {
    "title": "Q over the maze", "x": [0.5, 1.5, 2.5], "y": [0.5, 1.5], "walls": [[1, 1, 2, 2]], "start": [0.5, 0.5],
    "goal": [2.5, 1.5],
    "panels": [
        {"arm": arm, "checkpoint": checkpoint, "seed": 0, "values": [[-9.0, -5.0 - place, -3.0], [-8.0, None, -1.0]]}
        for arm in ARMS
        for place, checkpoint in enumerate(CHECKPOINTS)
    ],
}  # fmt: skip


def sweep(folder: Path) -> Path:
    """One folder with two arms, one of which dips."""
    parts = [make_run(folder / f"arm {place}", seeds=2, dip=0.5 * place) for place in range(2)]
    rows = [
        json.loads(line) | {"arm": arm}
        for part, arm in zip(parts, ARMS, strict=True)
        for line in (part / "metrics.jsonl").read_text().splitlines()
    ]
    whole = make_run(folder / "sweep", seeds=2)
    (whole / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for checkpoint in ("switch", "end"):
        q = [np.load(part / f"calibration-{checkpoint}.npz") for part in parts]
        np.savez(
            whole / f"calibration-{checkpoint}.npz", q=np.concatenate([each["q"] for each in q]), held_out=True,
            return_to_go=q[0]["return_to_go"],
        )  # fmt: skip
    config = json.loads((whole / "config.json").read_text())
    titles = {"calibrate=true": "Cal-QL", "calibrate=false": "CQL"}
    sweep = {"choice": {"vary": "calibrate=true,false"}, "known_as": titles}
    (whole / "config.json").write_text(json.dumps({**config, **sweep}))
    return whole


def pictures(run: Path) -> Path:
    """With maps and films, as `calql train` leaves them."""
    (run / "maps.json").write_text(json.dumps(MAPS))
    (run / "films").mkdir()
    films = []
    for arm in ARMS:
        for checkpoint in ("switch", "final"):
            name = f"{arm.replace('=', '-')}-{checkpoint}.gif"
            (run / "films" / name).write_bytes(GIF)
            films.append(
                {"file": name, "title": f"{arm}, {checkpoint}", "arm": arm, "checkpoint": checkpoint, "seed": 0}
            )
    (run / "films" / "films.json").write_text(json.dumps(films))
    return run


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    one = make_run(folder / "one", seeds=9, dip=0.5)
    found = {
        "one": page_of(one),
        "seed": page_of(make_run(folder / "seed", seeds=1, with_q=False)),
        "arms": page_of(pictures(sweep(folder))),
        "several": page_of(make_run(folder / "other", task="other", seeds=2), one),
    }
    assert all(path.stat().st_size < 3_000_000 for path in found.values())
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [
        ("one", WIDE, "light"), ("one", PHONE, "dark"), ("arms", WIDE, "dark"), ("arms", PHONE, "light"),
        ("seed", PHONE, "light"), ("several", PHONE, "dark"),
    ],
)  # fmt: skip
def test_a_report_fits_asks_for_nothing_and_complains_of_nothing(
    browser, reports: dict[str, Path], kind: str, width: int, scheme: str
) -> None:
    with opened(browser, reports[kind].as_uri(), width, scheme=scheme) as seen:
        seen.page.evaluate("() => document.querySelectorAll('.card > details').forEach(each => each.open = true)")
        seen.draw_all()
        assert (seen.overflow, seen.complaints, seen.elsewhere) == (0, [], [])
        ids = seen.page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
        assert len(ids) == len(set(ids))
        ink = seen.page.evaluate("document.querySelector('.plot')._fullLayout.font.color")
        assert ink == ("#1f2733" if scheme == "light" else "#e6e9ee")


def test_the_dip_and_the_values_are_in_the_first_screen_of_a_comparison(browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["arms"].as_uri()) as seen:
        seen.page.wait_for_selector("#first-1 .scatterlayer .js-line")
        for place in range(2):
            box = seen.page.locator(f"#first-{place} .plot").bounding_box()
            assert box["y"] + box["height"] < 900
        assert seen.page.locator("h1").inner_text() == "Cal-QL against CQL on point-maze-narrow"
        assert "CQL: calibrate=false" in seen.page.locator(".sub").inner_text()
        words = seen.page.locator("#first-0 .plot").get_attribute("aria-label")
        assert "; CQL from" in words
        rows = seen.page.locator("#pictures .panels")
        assert [rows.nth(place).locator(".chart").count() for place in range(2)] == [3, 3]
        assert seen.page.locator("#pictures img").count() == 4


def test_a_run_has_a_colour_for_each_seed_and_each_can_be_chosen(browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["one"].as_uri()) as seen:
        page = seen.page
        page.wait_for_selector("#first-0 .scatterlayer .js-line")
        drawn = page.evaluate(
            """() => document.querySelector('#first-0 .plot')._fullData.filter(t => t.name.startsWith('seed'))
                     .map(t => t.line.color + t.line.dash)"""
        )
        assert len(drawn) == len(set(drawn)) == 9
        key = page.locator("button[data-group='seed 3']").first
        key.focus()
        page.keyboard.press("Enter")
        visible = "document.querySelector('#first-0 .plot')._fullData.filter(t => t.visible === true).map(t => t.name)"
        assert "seed 3" not in page.evaluate(visible)
        page.keyboard.press("Shift+Enter")  # alone
        page.wait_for_timeout(100)
        assert key.get_attribute("aria-pressed") == "true"


def test_a_chart_can_be_zoomed_and_read_by_keyboard(browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["arms"].as_uri()) as seen:
        page = seen.page
        page.wait_for_selector("#first-0 .scatterlayer .js-line")
        span = "(range => range[1] - range[0])(document.querySelector('#first-0 .plot')._fullLayout.xaxis.range)"
        page.locator("#first-0 .plot").focus()
        whole = page.evaluate(span)
        page.keyboard.press("+")
        page.wait_for_timeout(100)
        assert page.evaluate(span) == pytest.approx(whole / 2)
        page.keyboard.press("0")
        page.wait_for_timeout(100)
        assert page.evaluate(span) == pytest.approx(whole)
        page.locator("#first-0 summary").focus()
        page.keyboard.press("Enter")
        table = page.locator("#first-0 table").inner_text()
        assert "20,000 gradient steps offline (switch)" in table
        assert "CQL, seed 1" in table


@pytest.mark.slow
def test_tables_sort_by_keyboard(browser, reports: dict[str, Path]) -> None:
    with opened(browser, reports["arms"].as_uri()) as seen:
        page = seen.page
        page.locator("#results th button", has_text="regret").first.focus()
        page.keyboard.press("Enter")
        names = page.locator("#results table").first.locator("tbody td:first-child").all_inner_texts()
        assert names == ["Cal-QL", "CQL"]
        page.keyboard.press("Enter")
        assert page.locator("#results table").first.locator("tbody td:first-child").all_inner_texts() == names[::-1]
