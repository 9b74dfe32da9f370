"""A folder of bad files and a module of bad environments (`bad_world:Name-v0`), for the harness of bad inputs.

A bad file is one line in FILES, a bad environment one line in ENVIRONMENTS.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np

import corridor

TINY: dict[str, Any] = {
    "seeds": 1, "offline_updates": 4, "online_steps": 20, "evaluate_offline_every": 4, "evaluate_online_every": 20,
    "evaluation_episodes": 1, "policy_widths": (8,), "critic_widths": (8,), "batch_size": 8, "sampled_actions": 2,
    "backup_actions": 2,
}  # fmt: skip
Arrays = dict[str, np.ndarray]


def columns() -> Arrays:
    data = corridor.demonstrations()
    names = ("observations", "actions", "rewards", "next_observations", "terminals")
    return {name: getattr(data, name) for name in names} | {"timeouts": data.truncated}


def npz(**changes: Any) -> Callable[[Path], None]:
    """The good recording with some columns changed by functions, replaced, or left out where None."""

    def write(path: Path) -> None:
        arrays: dict[str, Any] = columns()
        for name, change in changes.items():
            arrays[name] = change(arrays[name]) if callable(change) else change
        np.savez(path, **{name: value for name, value in arrays.items() if value is not None})

    return write


def _parts(shape: tuple[int, ...]) -> Arrays:
    """A camera and a vector for each row of the good recording."""
    good, found = columns(), {}
    for when in ("observations", "next_observations"):
        found[f"{when}/arm"] = good[when]
        found[f"{when}/eye"] = np.zeros((len(good[when]), *shape), np.uint8)
    return found


def hdf5(change: Callable[[h5py.File, Path], None]) -> Callable[[Path], None]:
    """The good recording in HDF5, then changed."""

    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file.update(columns())
            change(file, path)

    return write


def put(row: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(column: np.ndarray) -> np.ndarray:
        changed = column.astype(np.float64)
        changed[row] = value
        return changed

    return change


def _replaced(name: str, make: Callable[[h5py.File, Path], Any]) -> Callable[[h5py.File, Path], None]:
    def change(file: h5py.File, path: Path) -> None:
        del file[name]
        made = make(file, path)
        if made is not None:
            file[name] = made

    return change


def _external_storage(file: h5py.File, path: Path) -> None:
    secret = path.with_name("secret.txt")
    secret.write_bytes(b"x" * 400)
    file.create_dataset("rewards", (100,), np.float32, external=[(str(secret), 0, 400)])


def _virtual(file: h5py.File, path: Path) -> None:
    layout = h5py.VirtualLayout((len(file["actions"]),), np.float32)
    layout[:] = h5py.VirtualSource(str(path.with_name("other.hdf5")), "rewards", (len(file["actions"]),))
    file.create_virtual_dataset("rewards", layout)


def _damaged_header(path: Path) -> None:
    hdf5(lambda file, _: None)(path)
    content = bytearray(path.read_bytes())
    content[96:1100:7] = bytes(len(content[96:1100:7]))
    path.write_bytes(bytes(content))


def _bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("rewards.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (1200 * 2**20,)})
        for _ in range(1200):
            file.write(bytes(2**20))
    with zipfile.ZipFile(path, "a") as archive:
        for name, array in columns().items():
            if name != "rewards":
                with archive.open(f"{name}.npy", "w") as file:
                    np.save(file, array)


def _pickled(path: Path) -> None:
    np.savez(path, **{**columns(), "rewards": np.array([{}] * 4, object)})  # type: ignore[arg-type]


def _hollow(file: h5py.File, path: Path) -> None:
    file.create_dataset("rewards", (2**50,), np.float32, chunks=(2**20,))


def _choices(column: np.ndarray) -> np.ndarray:
    """Of three actions, the first and the last."""
    return np.where(column[:, 0] > 1.0, 2, 0)


def _masks(choices: int = 3, forbidden: int = 1, empty: int | None = None) -> np.ndarray:
    masks = np.ones((len(columns()["rewards"]), choices), bool)
    masks[:, forbidden] = False
    if empty is not None:
        masks[empty] = False
    return masks


FILES: dict[str, Callable[[Path], None]] = {
    "good.npz": npz(),
    "good.hdf5": hdf5(lambda file, path: None),
    "empty.npz": lambda path: path.write_bytes(b"") and None,
    "empty.hdf5": lambda path: path.write_bytes(b"") and None,
    "text.npz": lambda path: path.write_text("no data\n" * 99) and None,
    "text.hdf5": lambda path: path.write_text("no data\n" * 99) and None,
    "folder.npz": lambda path: path.mkdir(),
    "no-rewards.npz": npz(rewards=None),
    "claims.npz": npz(collected=np.frombuffer(b"{}", np.uint8), policy_actions=np.zeros((3, 1), np.float32)),
    "torn-note.npz": npz(collected=np.frombuffer(b'{"policy"', np.uint8)),
    "no-ends.npz": npz(terminals=None, timeouts=None),
    "done.npz": npz(terminals=None, timeouts=None, done=columns()["terminals"]),
    "other-names.npz": npz(observations=None, actions=None, obs=columns()["observations"], act=columns()["actions"]),
    "one-hot.npz": npz(actions=lambda column: np.eye(3)[np.arange(len(column)) % 3]),
    "one-column.npz": npz(actions=lambda column: np.arange(len(column))[:, None] % 3),
    "short.npz": npz(rewards=lambda column: column[:-1]),
    "nan.npz": npz(observations=put(3, np.nan)),
    "inf.npz": npz(actions=put(3, np.inf)),
    "huge-rewards.npz": npz(rewards=put(3, 1e300)),
    "flags.npz": npz(terminals=put(3, 7.0)),
    "words.npz": npz(rewards=lambda column: column.astype(str)),
    "discrete.npz": npz(actions=lambda column: column[:, 0].astype(int)),
    "choices.npz": npz(actions=_choices),
    "masked.npz": npz(actions=_choices, action_masks=_masks()),
    "out-of-range.npz": npz(actions=lambda column: put(3, 7)(_choices(column)).astype(int)),
    "forbids-logged.npz": npz(actions=_choices, action_masks=_masks(forbidden=0)),
    "forbids-all.npz": npz(actions=_choices, action_masks=_masks(empty=5)),
    "narrow-masks.npz": npz(actions=_choices, action_masks=_masks(choices=2)),
    "no-rows.npz": npz(**{name: (lambda column: column[:0]) for name in columns()}),
    "no-episode.npz": npz(terminals=np.zeros_like, timeouts=np.zeros_like),
    "wide.npz": npz(observations=lambda o: np.tile(o, 2), next_observations=lambda o: np.tile(o, 2)),
    "other-units.npz": npz(actions=lambda column: column * 1000),
    "dictionary.npz": npz(observations=None, next_observations=None, **_parts((9, 9, 3))),
    "colours-first.npz": npz(observations=None, next_observations=None, **_parts((3, 9, 9))),
    "pickled.npz": _pickled,
    "bomb.npz": _bomb,
    "dangling.hdf5": hdf5(_replaced("rewards", lambda file, path: h5py.SoftLink("/nowhere"))),
    "soft-link.hdf5": hdf5(_replaced("rewards", lambda file, path: h5py.SoftLink("/terminals"))),
    "external-link.hdf5": hdf5(_replaced("rewards", lambda file, path: h5py.ExternalLink("good.hdf5", "rewards"))),
    "external-storage.hdf5": hdf5(_replaced("rewards", _external_storage)),
    "virtual.hdf5": hdf5(_replaced("rewards", _virtual)),
    "hollow.hdf5": hdf5(_replaced("rewards", _hollow)),
    "group.hdf5": hdf5(_replaced("rewards", lambda file, path: file.create_group("rewards/inside") and None)),
    "damaged.hdf5": _damaged_header,
    "log.csv": lambda path: path.write_text("run,joint_0,joint_1,cmd,name\n" + "a,0,1,2,b\n" * 9) and None,
    "a-file": lambda path: path.write_text("not a folder\n") and None,
    "not-a-run": lambda path: path.mkdir(),
}


class Bad(corridor.Corridor):
    """A corridor with something wrong."""

    at = 0.0

    def __init__(self, **overrides: Any) -> None:
        for name, value in overrides.items():
            setattr(self, name, value)


def _raise(*_: Any, **__: Any) -> Any:
    raise RuntimeError("the motor is off")


def _give(*parts: Any) -> Callable[..., Any]:
    return lambda *_, **__: parts if len(parts) != 1 else parts[0]


BOX = gymnasium.spaces.Box
SEEN = np.zeros(2, np.float32)
ENVIRONMENTS: dict[str, Callable[[], Any]] = {
    "Unmade": lambda: _raise(),
    "NoReset": lambda: Bad(reset=_raise),
    "NoStep": lambda: Bad(step=_raise),
    "OldReset": lambda: Bad(reset=_give(SEEN)),
    "OldStep": lambda: Bad(step=_give(SEEN, 0.0, False, {})),
    "NaNReset": lambda: Bad(reset=_give(SEEN * np.nan, {})),
    "NaNReward": lambda: Bad(step=_give(SEEN, np.nan, False, False, {})),
    "OtherShape": lambda: Bad(reset=_give(np.zeros(3, np.float32), {})),
    "Wide": lambda: Bad(observation_space=BOX(-1, 1, (5,))),
    "TwoActions": lambda: Bad(action_space=BOX(-2, 2, (2,))),
    "Discrete": lambda: Bad(action_space=gymnasium.spaces.Discrete(3), step=_give(SEEN, 0.0, False, False, {})),
    "ManyChoices": lambda: Bad(action_space=gymnasium.spaces.MultiDiscrete([3, 4])),
    "OtherMask": lambda: Bad(action_space=gymnasium.spaces.Discrete(3), reset=_give(SEEN, {"action_mask": [1, 0]})),
    "NoChoice": lambda: Bad(action_space=gymnasium.spaces.Discrete(3), reset=_give(SEEN, {"action_mask": [0, 0, 0]})),
    "Dictionary": lambda: Bad(observation_space=gymnasium.spaces.Dict({"a": BOX(-1, 1, (2,))})),
    "Unbounded": lambda: Bad(action_space=BOX(-np.inf, np.inf, (1,))),
    "Images": lambda: Bad(observation_space=BOX(0, 255, (8, 8, 3), np.uint8)),
}
for _name, _make in ENVIRONMENTS.items():
    gymnasium.register(
        f"{_name}-v0", entry_point=_make, max_episode_steps=20, disable_env_checker=True, order_enforce=False
    )
gymnasium.register("Endless-v0", entry_point=Bad, disable_env_checker=True)


def config(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """A copy of the good run with another config.json: what `change` gives, or leaves."""

    def write(folder: Path) -> None:
        path = folder / "config.json"
        content = json.loads(path.read_text())
        made = change(content)
        path.write_text(made if isinstance(made, str) else json.dumps(content if made is None else made))

    return write


def _set(part: str, **values: Any) -> Callable[[Path], None]:
    return config(lambda content: content[part].update(values))


def _cut(name: str, share: float) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for path in folder.glob(name):
            path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])

    return write


def _linked(name: str, target: str) -> Callable[[Path], None]:
    """A link in place of a file or folder of the run."""

    def write(folder: Path) -> None:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(folder.parent / target)

    return write


def _of_before(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """A run without `policy/`, which is evaluated from its checkpoint, with its data."""

    def write(folder: Path) -> None:
        shutil.rmtree(folder / "policy")
        change(folder)

    return write


RUNS: dict[str, Callable[[Path], None]] = {
    "run": lambda folder: None,
    "run-empty-config": config(lambda content: {}),
    "run-list-config": config(lambda content: [1, 2]),
    "run-torn-config": config(lambda content: '{"choice": {'),
    "run-deep-config": config(lambda content: "[" * 100_000),
    "run-no-choice": config(lambda content: content.pop("choice") and None),
    "run-choice-text": config(lambda content: content.update(choice="cal-ql")),
    "run-seeds-text": config(lambda content: content.update(seeds=["a"])),
    "run-text-steps": _set("run", online_steps="20"),
    "run-null-batch": _set("options", batch_size=None),
    "run-negative-rate": _set("options", policy_rate=-1.0),
    "run-later-version": _set("run", warp_factor=9),
    "run-later-option": _set("options", warp_factor=9),
    "run-unknown-method": _set("choice", method="cal-qll"),
    "run-strangers": _set("choice", env="strange_module:Corridor-v0"),
    "run-no-data": _of_before(_set("choice", dataset="gone.npz")),
    "run-other-data": _of_before(_set("dataset", fingerprint="00000000")),
    "run-cut-checkpoint": _of_before(_cut("checkpoints/*.npz", 0.5)),
    "run-torn-metrics": lambda folder: (folder / "metrics.jsonl").write_text("{}\nnot a row\n{}\n") and None,
    "run-linked": _linked("speed.jsonl", "a-file"),
    "run-linked-checkpoints": _linked("checkpoints", "not-a-run"),
    "run-linked-plots": _linked("plots", "not-a-run"),
}


PROJECTS = {
    "project-torn": '{"format": 1',
    "project-later": '{"format": 9}',
    "project-strange": '{"format": 1, "share": true, "current": 3}',
}


def build(folder: Path) -> None:
    """Every bad file and every bad run, in one folder; it is the working folder of the cases."""
    import os

    import calql

    for name, write in FILES.items():
        write(folder / name)
    here = Path.cwd()
    os.chdir(folder)
    try:
        calql.train(dataset="good.npz", env="corridor:Corridor-v0", out="run", **TINY)
        calql.Rounds.start("project", dataset="good.npz", env="corridor:Corridor-v0", **{**TINY, "online_steps": 0})
    finally:
        os.chdir(here)
    for name, text in PROJECTS.items():
        (folder / name).mkdir()
        (folder / name / "project.json").write_text(text)
    for name, change in RUNS.items():
        if name != "run":
            shutil.copytree(folder / "run", folder / name)
        change(folder / name)
