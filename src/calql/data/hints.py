"""Guesses at what columns of other names are, for the command in an error message; nothing is ever read by a guess."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence

from calql.data.reading import EXAMPLE, ROLES

ALSO: dict[str, tuple[str, ...]] = {  # names that people give columns, beside those of ROLES
    "observation": ("state", "states", "s"),
    "next_observation": ("next_state", "next_states", "obs2", "s2"),
    "action": ("act", "acts", "a", "command", "control", "ctrl", "u"),
    "reward": ("rew", "rews", "r"),
    "terminal": ("done", "dones", "is_terminal", "terminations", "termination", "term"),
    "timeout": ("truncations", "truncation", "trunc", "time_limit"),
    "success": ("succeeded", "solved"),
    "episode": (
        "run",
        "run_id",
        "traj",
        "traj_id",
        "trajectory",
        "episode_number",
        "ep",
        "ep_id",
        "eps",
        "episodes",
        "trial",
        "trial_id",
        "demo",
        "demo_id",
        "rollout",
        "rollout_id",
    ),
    "time": ("t", "step", "steps", "timestep", "time_step", "frame", "frame_index"),
}
ACTS = ("act", "cmd", "command", "control", "ctrl", "motor", "torque")  # what the name of an action may hold
SHORT = re.compile(r"[au](_\w+|\d+|[a-z])")  # names that actions may have: ax, a_1, u0
NEXT = "next_"  # before the name of a column: what it is after the step
MOST = 8  # columns that an example lists


def role_of(name: str) -> str | None:
    """What a column seems to be, by its name."""
    wanted = name.lower()
    return next((role for role in ROLES if wanted in (*ROLES[role], *ALSO.get(role, ()))), None)


def named(names: Iterable[str], apart_from: Collection[str]) -> str:
    """`--columns ROLE=NAME ...` for the columns whose names say what they are; empty where none does."""
    found = _guessed(name for name in names if name not in apart_from)
    return f"--columns {' '.join(f'{role}={name}' for role, name in found.items())}" if found else ""


def _guessed(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        role = role_of(name)
        if role is not None:
            found.setdefault(role, name)
    return found


def table_example(names: Iterable[str], given: Sequence[str] = ()) -> str:
    """For a table: its own columns, those that look like actions apart; a made-up example where nothing can be said.

    What was `given` already, words of --columns, stays, with what the names of others say beside it.
    """
    held = list(names)
    if given:
        asked = {word.partition("=")[0] for word in given}
        more = [f"{role}={name}" for role, name in _guessed(held).items() if role not in asked]
        if not more:
            return "name it beside the others in --columns, as ROLE=NAME"
        return f"for example --columns {' '.join(map(shlex.quote, [*given, *more]))}"
    after = {
        name.removeprefix(NEXT): name for name in held if name.startswith(NEXT) and name.removeprefix(NEXT) in held
    }
    rest = [name for name in held if role_of(name) is None and name not in after.values()]
    has_action = any(role_of(name) == "action" for name in held)
    acts = _actions_of(rest, sure=has_action)
    seen = [name for name in rest if name not in acts]
    if not seen or not (acts or has_action) or len(rest) > MOST or any("," in name or " " in name for name in held):
        return EXAMPLE
    known = named(held, [name for names in ROLES.values() for name in names]).removeprefix("--columns ")
    following = [after[name] for name in seen if name in after]
    words = (
        f"observation={','.join(seen)}",
        f"next_observation={','.join(following)}" if len(following) == len(seen) else "",
        f"action={','.join(acts)}" if acts else "",
        known,
    )
    return f"for example --columns {' '.join(filter(None, words))}"


def _actions_of(names: Iterable[str], *, sure: bool) -> list[str]:
    """Those whose names speak of actions; where none is `sure` to be one, those like ax, a_1 or u0."""
    held = list(names)
    found = [name for name in held if any(word in name.lower() for word in ACTS)]
    return found or ([] if sure else [name for name in held if SHORT.fullmatch(name.lower())])
