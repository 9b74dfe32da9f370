"""The public originals by task name: D4RL's HDF5 files by URL, human demonstrations by Minari's hub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from calql.data.dataset import Dataset
from calql.data.fetch import fetch
from calql.data.load import load
from calql.data.store import Progress, data_root
from calql.errors import UserError, unknown

D4RL = "http://rail.eecs.berkeley.edu/datasets/offline_rl"


@dataclass(frozen=True)
class Remote:
    """Where the original of a task lies: a file at a URL, or a dataset of Minari's hub."""

    url: str = ""
    minari: str = ""
    sha256: str | None = None  # where its publisher, or somebody who has it, published one
    ready: bool = True  # can be trained on as it is; False: material for `build`


@dataclass(frozen=True)
class Downloaded:
    name: str
    source: str  # what `calql.data.load` takes
    checksum: str

    def __str__(self) -> str:
        return f"{self.name}: {self.source}\n  {self.checksum}"


def _antmaze(maze: str, starts: bool, goals: bool) -> Remote:
    name = f"Ant_maze_{maze}_noisy_multistart_{starts}_multigoal_{goals}_sparse_fixed.hdf5"
    return Remote(f"{D4RL}/ant_maze_v2/{name}")


def _locomotion(name: str) -> Remote:
    body, level = name.split("-", 1)
    return Remote(f"{D4RL}/gym_mujoco_v2/{body}_{level.replace('-', '_')}-v2.hdf5", sha256=CHECKSUMS.get(name))


# Of D4RL's files, as published by TensorFlow Datasets.
CHECKSUMS: dict[str, str] = {}

REMOTES: dict[str, Remote] = {
    "antmaze-umaze": _antmaze("u-maze", False, False),
    "antmaze-medium-play": _antmaze("big-maze", True, False),
    "antmaze-medium-diverse": _antmaze("big-maze", True, True),
    "antmaze-large-play": _antmaze("hardest-maze", True, False),
    "antmaze-large-diverse": _antmaze("hardest-maze", True, True),
    "kitchen-complete": Remote(f"{D4RL}/kitchen/mini_kitchen_microwave_kettle_light_slider-v0.hdf5"),
    "kitchen-partial": Remote(f"{D4RL}/kitchen/kitchen_microwave_kettle_light_slider-v0.hdf5"),
    "kitchen-mixed": Remote(f"{D4RL}/kitchen/kitchen_microwave_kettle_bottomburner_light-v0.hdf5"),
    **{
        f"{body}-{level}": _locomotion(f"{body}-{level}")
        for body in ("halfcheetah", "hopper", "walker2d")
        for level in ("random", "medium", "medium-replay", "medium-expert", "expert")
    },
    **{f"{hand}-binary": Remote(minari=f"D4RL/{hand}/human-v2", ready=False) for hand in ("pen", "door", "relocate")},
}


def remote(name: str) -> Remote:
    if name not in REMOTES:
        raise unknown("public dataset", name, REMOTES)
    return REMOTES[name]


def download(name: str, *, progress: Progress | None = None) -> Downloaded:
    """Get the original of a task, or find it whole; says what to load."""
    chosen = remote(name)
    if chosen.minari:
        return _from_minari(name, chosen.minari)
    got = fetch(chosen.url, place(name), sha256=chosen.sha256, progress=progress)
    kind = "as published" if got.published else "recorded at the first download, none is published"
    return Downloaded(name, str(got.path), f"SHA-256 {got.sha256} ({kind})")


def place(name: str) -> Path:
    """Where the original's file is, or will be."""
    return data_root() / "downloads" / name / remote(name).url.rsplit("/", 1)[-1]


def downloaded(name: str) -> Dataset | None:
    """The original of a task where it has been downloaded and can be trained on as it is."""
    known = REMOTES.get(name)
    if known is None or not known.ready or not place(name).is_file():
        return None
    got = fetch(known.url, place(name), sha256=known.sha256)
    return load(got.path)


def _from_minari(name: str, identifier: str) -> Downloaded:
    import minari

    if identifier not in minari.list_local_datasets():
        try:
            minari.download_dataset(identifier)
        except ImportError as problem:
            raise UserError(f"Minari's hub needs a package ({problem})", where=identifier, mend="install it") from None
        except Exception as problem:
            raise UserError(
                f"Minari's hub does not give it ({type(problem).__name__}: {problem})",
                where=identifier,
                mend="check the network, or copy the dataset into MINARI_DATASETS_PATH",
            ) from None
    dataset = minari.load_dataset(identifier)
    folder = os.environ.get("MINARI_DATASETS_PATH", "~/.minari/datasets")
    detail = f"{dataset.total_episodes} episodes, {dataset.total_steps} steps in {folder}"
    return Downloaded(name, f"minari:{identifier}", detail)
