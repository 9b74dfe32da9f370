"""The ledger of a project of rounds: whatever is added, trained and gone back from, no episode is lost or repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calql.runs.rounds.ledger import Entry, Ledger, read_ledger, write_ledger
from calql.system.errors import UserError
from calql.system.run_files import PROJECT


def entry(number: int, round: int = 0) -> Entry:
    return Entry(f"{number:064x}", 10, 1.0, True, round, None, "file.npz", "now")


def trained(ledger: Ledger) -> Ledger:
    return ledger.begun().trained()


def numbers(ids: Any) -> list[int]:
    return [int(each, 16) for each in ids]


def test_a_line_of_rounds_by_hand() -> None:
    ledger = trained(Ledger())
    ledger = trained(ledger.added([entry(1), entry(2)]))
    ledger = trained(ledger.added([entry(3, round=1)]))
    assert (ledger.current, [each.parent for each in ledger.rounds]) == (2, [None, 0, 1])
    assert numbers(each.id for each in ledger.learnt(2)) == [1, 2, 3]
    back = ledger.gone_back(1, keep_episodes=False)
    assert (back.current, numbers(back.aside), back.inbox) == (1, [3], ())
    again = trained(back.added([entry(3), entry(4)]))  # what was set aside may come in again
    assert (again.current, again.rounds[3].parent) == (3, 1)
    assert numbers(again.rounds[3].episodes) == [3, 4]
    assert numbers(each.id for each in again.learnt(3)) == [1, 2, 3, 4]
    kept = ledger.gone_back(0, keep_episodes=True)
    assert numbers(kept.inbox) == [1, 2, 3]
    assert [line["did"] for line in kept.history][-1] == "back"


def test_an_episode_that_is_there_is_not_taken_again() -> None:
    ledger = trained(Ledger()).added([entry(1), entry(1)])
    assert numbers(ledger.inbox) == [1]
    assert numbers(trained(ledger).added([entry(1)]).inbox) == []


ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 12), max_size=4)),
    st.tuples(st.just("train"), st.none()),
    st.tuples(st.just("stop"), st.none()),
    st.tuples(st.just("back"), st.tuples(st.integers(0, 20), st.booleans())),
)


@given(st.lists(ACTIONS, max_size=25))
def test_nothing_is_lost_or_repeated(actions: list[tuple[str, Any]]) -> None:
    ledger, ever = trained(Ledger()), set()
    for did, what in actions:
        if did == "add":
            ledger = ledger.added([entry(number) for number in what])
            ever |= set(what)
        elif did == "back":
            ledger = ledger.gone_back(ledger.ended[what[0] % len(ledger.ended)], keep_episodes=what[1])
        elif ledger.training is not None:
            ledger = ledger.trained()
        elif ledger.inbox:
            ledger = trained(ledger) if did == "train" else ledger.begun()
        learnt = [each.id for each in ledger.learnt(ledger.latest)]
        places = [*learnt, *ledger.inbox, *ledger.aside]
        assert len(places) == len(set(places))
        assert set(numbers(places)) == ever


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    ledger = trained(Ledger(share=False)).added([entry(1), entry(2)]).begun()
    write_ledger(tmp_path, ledger)
    assert read_ledger(tmp_path) == ledger


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("current", 9),
        ("training", "one"),
        ("inbox", ["0" * 64]),
        ("rounds", [{"number": 3}]),
        ("entries", [{"id": "../../secret"}]),
        ("entries", None),
        ("history", [1]),
    ],
)
def test_a_damaged_one_is_told_in_one_line(part: str, value: Any, tmp_path: Path) -> None:
    write_ledger(tmp_path, trained(Ledger()))
    content = json.loads((tmp_path / PROJECT).read_text())
    (tmp_path / PROJECT).write_text(json.dumps({**content, part: value}))
    with pytest.raises(UserError, match=r"project\.json") as raised:
        read_ledger(tmp_path)
    assert "\n" not in str(raised.value)


def test_an_episode_cannot_name_another_file(tmp_path: Path) -> None:
    ledger = trained(Ledger()).added([Entry("../" * 22, 1, 0.0, None, 0, None, "f", "now")])
    write_ledger(tmp_path, ledger)
    with pytest.raises(UserError, match="is not as it was written"):
        read_ledger(tmp_path)
