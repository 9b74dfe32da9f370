"""Maps and films of a run folder: drawn where they are whole, a finding where they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import make_run, page_of

from calql.results import films
from calql.results.films import read_films
from calql.results.maps import read_maps
from calql.results.report import write_report
from calql.system.errors import UserError
from page_reader import HOSTILE, Page

MAP: dict[str, Any] = {
    "title": "Q", "x": [0.0, 1.0], "y": [0.0], "walls": [], "start": None, "goal": [1, 0],
    "panels": [{"arm": "", "checkpoint": "at the end", "seed": 0, "values": [[1.0, None]]}],
}  # fmt: skip
FILM = {"file": "a.mp4", "title": "An episode", "arm": "", "checkpoint": "final", "seed": 0}


def with_films(folder: Path, listed: Any, **files: bytes) -> Path:
    run = make_run(folder, seeds=1, with_q=False)
    (run / "films").mkdir()
    for name, content in files.items():
        (run / "films" / name.replace("_", ".")).write_bytes(content)
    (run / "films" / "films.json").write_text(listed if isinstance(listed, str) else json.dumps(listed))
    return run


def test_a_map_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "maps.json").write_text(json.dumps(MAP))
    found = read_maps(tmp_path)
    assert found is not None
    assert (found.goal, found.start, found.panels[0].values) == ([1.0, 0.0], None, [[1.0, None]])
    assert read_maps(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "damaged",
    [
        "", "[]", "{}", '{"x": [0], "y": [0], "panels": []}', json.dumps({**MAP, "x": [0.0]}),
        json.dumps({**MAP, "walls": [[0, 1]]}), json.dumps({**MAP, "goal": "there"}),
        json.dumps({**MAP, "x": [[0, 1]]}),
        json.dumps({**MAP, "panels": [{**MAP["panels"][0], "values": [["a", "b"]]}]}), '{"x": 1e999',
        json.dumps({**MAP, "panels": [{"arm": "", "checkpoint": "at the end"}]}),
    ],
)  # fmt: skip
def test_a_damaged_map_is_a_finding_and_no_end(tmp_path: Path, damaged: str) -> None:
    run = make_run(tmp_path / "run", seeds=1, with_q=False)
    (run / "maps.json").write_text(damaged)
    with pytest.raises(UserError, match="is no map of values"):
        read_maps(run)
    page = Page(page_of(run))
    assert "A file of the run cannot be used" in page.text
    assert "maps.json" in page.text


@pytest.mark.parametrize(
    "listed",
    [
        "", "{}", "[1]", [{"file": "a.mp4"}], [{**FILM, "file": "missing.mp4"}], [{**FILM, "file": "../config.json"}],
        [{**FILM, "file": "../run.mp4"}], [{**FILM, "file": "a.exe"}], [{**FILM, "seed": "x"}],
    ],
)  # fmt: skip
def test_a_damaged_list_of_films_is_a_finding_and_no_end(tmp_path: Path, listed: Any) -> None:
    run = with_films(tmp_path / "run", listed, a_mp4=b"film", a_exe=b"x")
    (tmp_path / "run.mp4").write_bytes(b"elsewhere")
    with pytest.raises(UserError, match="is no list of films"):
        read_films(run)
    page = Page(page_of(run))
    assert "A file of the run cannot be used" in page.text
    assert page.sources == []


def test_a_map_beside_other_runs_says_whose_it_is(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / name, method=name, seeds=1, with_q=False) for name in ("bc", "iql")]
    (folders[1] / "maps.json").write_text(json.dumps(MAP))
    assert f"{MAP['title']} · iql" in Page(page_of(*folders)).text
    assert f"{MAP['title']} ·" not in Page(page_of(folders[1])).text


def test_films_are_part_of_the_page_while_it_stays_small(tmp_path: Path) -> None:
    large = bytes(films.BUDGET - 10)
    listed = [
        {**FILM, "file": "a.mp4"},
        {**FILM, "file": "b.webm"},
        {**FILM, "file": "c.gif", "checkpoint": "switch", "title": ""},
    ]
    run = with_films(tmp_path / "run", listed, a_mp4=large, b_webm=b"web", c_gif=b"GIF89a!!")
    written = write_report([run])
    page = Page(written)
    assert [source.partition(";")[0] for source in page.sources] == ["films/a.mp4", "data:video/webm", "data:image/gif"]
    assert "Too large for the page" in page.text
    assert "before fine-tuning · seed 0" in page.text
    assert "An episode" in page.text
    assert written.stat().st_size < 3_000_000
    elsewhere = Page(write_report([run], tmp_path / "page.html"))
    assert elsewhere.sources[0] == "run/films/a.mp4"


def test_runs_of_before_called_a_checkpoint_a_moment(tmp_path: Path) -> None:
    """Films had words of their own for theirs, too."""

    def as_before(entry: dict[str, Any], moment: str) -> dict[str, Any]:
        return {**{name: value for name, value in entry.items() if name != "checkpoint"}, "moment": moment}

    run = with_films(tmp_path / "run", [as_before({**FILM, "title": ""}, "before")], a_mp4=b"film")
    (run / "maps.json").write_text(json.dumps({**MAP, "panels": [as_before(MAP["panels"][0], "early on")]}))
    page = Page(page_of(run))
    assert "before fine-tuning · seed 0" in page.text
    assert "early on" in page.text


def test_names_in_maps_and_films_are_text(tmp_path: Path) -> None:
    def page(name: str, folder: Path) -> Page:
        run = with_films(folder / "run", [{**FILM, "title": name, "arm": name, "checkpoint": name}], a_mp4=b"film")
        panel = {**MAP["panels"][0], "arm": name, "checkpoint": name}
        (run / "maps.json").write_text(json.dumps({**MAP, "title": name, "panels": [panel]}))
        return Page(page_of(run))

    tame, hostile = page("plain", tmp_path / "tame"), page(HOSTILE, tmp_path / "hostile")
    assert hostile.attributes == tame.attributes
    assert hostile.text == tame.text.replace("plain", HOSTILE)
