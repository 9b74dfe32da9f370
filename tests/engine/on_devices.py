"""Run by test_devices.py in a process that has eight devices: `python on_devices.py FOLDER` prints what it found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import toy_task as toy
from test_run import TINY

import calql
import corridor
from calql.bench.growth import measure_growth
from calql.bench.updates import Shapes
from calql.engine.devices import shards_for
from calql.engine.health import Health, are_sound
from calql.engine.program import Program, UpdateInputs
from calql.engine.replay import empty_like
from calql.engine.run import Run
from calql.runs.life import resume

SEEDS = 4  # of each of two arms
SHORT = {**TINY, "seeds": SEEDS, "offline_updates": 8, "online_steps": 30, "checkpoint_minutes": 0.0, "block": 4}


class Killed(Exception):
    pass


def train(folder: Path, **changes: Any) -> list[dict[str, Any]]:
    vary = {"calibrate": (True, False)}
    where = {"dataset": corridor.write_demonstrations(folder.parent), "env": "corridor:Corridor-v0"}
    return calql.train(out=folder, episode_limit=20, vary=vary, **where, **{**SHORT, **changes}).rows


def killed_after(blocks: int) -> Any:
    """The next run dies in the middle of its updates, some checkpoints behind it."""
    whole, done = Run._train, 0

    def short(run: Run, *given: Any) -> None:
        nonlocal done
        done += 1
        if done > blocks:
            Run._train = whole  # type: ignore[method-assign]
            run.close()
            raise Killed
        whole(run, *given)

    Run._train = short  # type: ignore[method-assign]


def moved(folder: Path) -> dict[str, Any]:
    """Killed offline on four devices, online on two, ended on eight, with logged rows that are streamed to them."""
    for blocks, go_on in ((2, lambda: train(folder, devices=4, stream="on")), (6, lambda: resume(folder, devices=2))):
        killed_after(blocks)
        try:
            go_on()
        except Killed:
            continue
        raise AssertionError("the run ended before it was killed")
    rows = resume(folder, devices=8).rows
    return {"rows": rows, "resumed": json.loads((folder / "config.json").read_text())["resumed"]}


def where_things_lie(folder: Path) -> dict[str, Any]:
    """What a run on eight devices has where, after blocks offline and online; and what its rows say."""
    found: dict[str, set[str]] = {}
    whole = Run._train

    def watched(run: Run, *given: Any) -> None:
        whole(run, *given)
        parts = {
            "learning": run.learning,
            "health": run.health,
            "replay": run.replay,
            "logged": run._logged.rows(run.program.method),
        }
        for name, part in parts.items():
            found.setdefault(name, set()).update(str(leaf.sharding.spec) for leaf in jax.tree.leaves(part))

    Run._train = watched  # type: ignore[method-assign]
    rows = train(folder, devices=0)
    Run._train = whole  # type: ignore[method-assign]
    return {"rows": rows, "specs": {name: sorted(specs) for name, specs in found.items()}}


def uneven(devices: int) -> tuple[list[int], list[bool], list[int]]:
    """Seeds that are due different numbers of updates, the third of which has diverged: counts, soundness, marks."""
    method = toy.tiny("bc")
    shards, logged = shards_for(devices, 4), toy.logged(method)
    program = Program(method, shards)
    keys = jnp.stack([jax.random.key(seed) for seed in range(4)])
    state = program.start(keys, toy.spec())
    learning = program.fresh(state, jnp.zeros(4, jnp.int32), logged)
    lost = jax.tree.map(lambda leaf: leaf.at[2].set(jnp.nan), learning.state.policy)
    learning = learning._replace(state=learning.state._replace(policy=lost))
    replay = shards.repeated(empty_like(jax.tree.map(lambda column: column[0], logged), 10), 4)
    none, shares = np.zeros(4, np.int32), np.full(4, method.batch_size, np.int32)
    inputs = UpdateInputs((shards.copied(logged), replay), shards.shared_out(keys), shares, none, None, (none, none))
    learning, health = shards.shared_out((learning, Health.fresh(4)))
    after, health = program.advance(learning, health, inputs, np.array([5, 0, 3, 2]), loop=None)
    sound = are_sound((after.state,)).tolist()
    return np.asarray(after.updates).tolist(), sound, np.asarray(health.gradient_steps).tolist()


def growth() -> list[tuple[str, int, int, int]]:
    shapes = Shapes(observation=4, action=2, transitions=100, episode=20)
    most = {"devices": 2}
    rows = measure_growth("bc", toy.tiny_options("bc"), shapes, ["devices"], most=most, seconds=0.05)
    return [(row["axis"], row["value"], row["seeds"], row["devices"]) for row in rows]


def main(folder: Path) -> None:
    found = {
        "one": train(folder / "one"),
        "eight": where_things_lie(folder / "eight"),
        "moved": moved(folder / "moved"),
        "step_one": train(folder / "step-one", update_schedule="step"),
        "step_two": train(folder / "step-two", update_schedule="step", devices=2),
        "uneven": [uneven(devices) for devices in (1, 2)],
        "growth": growth(),
    }
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
