"""Which method a method with other options is."""

from __future__ import annotations

from typing import Any

import pytest

from calql.methods import same_method


@pytest.mark.parametrize(
    ("name", "changes", "found"),
    [
        ("cal-ql", {}, "cal-ql"),
        ("cal-ql", {"calibrate": True}, "cal-ql"),
        ("cal-ql", {"calibrate": False}, "cql"),
        ("cql", {"calibrate": True}, "cal-ql"),
        ("cql", {"conservative_online": False}, "cql-sac"),
        ("cal-ql", {"gap": 3.0}, None),
        ("iql", {"expectile": 0.8}, None),
    ],
)
def test_a_method_lends_its_name_to_options_that_are_its_own(
    name: str, changes: dict[str, Any], found: str | None
) -> None:
    assert same_method(name, changes) == found
