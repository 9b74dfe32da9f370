"""The public originals by task name: D4RL's HDF5 files by URL, human demonstrations by Minari's hub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from calql.data.bar import Bar
from calql.data.dataset import Dataset
from calql.data.fetch import fetch
from calql.data.load import load
from calql.data.minari_io import in_minari
from calql.data.store import Progress, data_root
from calql.errors import UserError, unknown

D4RL = "https://rail.eecs.berkeley.edu/datasets/offline_rl"


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


# SHA-256 of D4RL's files: locomotion as TensorFlow Datasets publishes them, kitchen as others recorded them.
CHECKSUMS = {
    "halfcheetah-random": "25407aef85b5d16c0f36b4149341edb4acc6a9e88c1db529b2de19e7464874ba",
    "halfcheetah-medium": "41324e8487a9556d8cfa4538827f8937f4d63dae3030825ebc9f3a726ed08ca0",
    "halfcheetah-medium-replay": "48d494a4770c11f48260736dec090b78bdca8375647ed4d24bfa5b6610c7f683",
    "halfcheetah-medium-expert": "015db75dae5bbe8e94029b71fa0bafc2073365df0c94744e71031189f3f79c06",
    "halfcheetah-expert": "d9fe53bb994eb1e20a99b4fa3412cd76a1bb7966a7ff55e0fcbdd6081bd2965f",
    "hopper-random": "63103ef7059db4c0819bd054f4e83ff339030b50bcdb46bdbe50385f234b5054",
    "hopper-medium": "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0",
    "hopper-medium-replay": "e121c5f7c9857a307baa9edc6a2c3b48e85fedb9ac316ecddd0f48ca7ef4e39b",
    "hopper-medium-expert": "9d51ad87f8c905be3880d84c6140bcdb7fbf39a19e046a237f238ba34fec9e26",
    "hopper-expert": "01aa219a5f8eea5e639eccdc636ec2bf40e317159a95cf4bf6e985f16909941b",
    "walker2d-random": "4e863bb6090cf4a461548bd470564b32f1ae5b32ef3085f816b2ede7f092e7fa",
    "walker2d-medium": "cf00f43add04c17fdfc2958dd581dea0851b2e5bedbe6fda073758a8f841aeda",
    "walker2d-medium-replay": "e75de96a4f77acf7d4e0d6fdf0d7ccb177c26c44bb4388e4fd99f543ccfa18db",
    "walker2d-medium-expert": "6b8d7f868c45bbaedf460be797fb7271b46dee6ebe45fe7a64319f2005b59a04",
    "walker2d-expert": "2985dc3d436a8baa10e8f43f946fe1d7c6337a4e4fbc65def70618093b18c59a",
    "kitchen-complete": "cd797c38cd52dfbe3f960cef73935cc724847abd189e47a703a7a2315ed60a81",
    "kitchen-partial": "57bfd9c5fe88a7cf702bbaf8b7cd800d30cd869e7f73416007238d26cd859800",
    "kitchen-mixed": "a30382a50278fdaea2e2d88e5f2836a95bcf9b581d252617872fd6537302721b",
}


def _antmaze(maze: str, starts: bool, goals: bool) -> Remote:
    name = f"Ant_maze_{maze}_noisy_multistart_{starts}_multigoal_{goals}_sparse_fixed.hdf5"
    return Remote(f"{D4RL}/ant_maze_v2/{name}")


def _locomotion(name: str) -> Remote:
    body, level = name.split("-", 1)
    return Remote(f"{D4RL}/gym_mujoco_v2/{body}_{level.replace('-', '_')}-v2.hdf5", sha256=CHECKSUMS[name])


def _kitchen(kind: str, file: str) -> Remote:
    return Remote(f"{D4RL}/kitchen/{file}-v0.hdf5", sha256=CHECKSUMS[f"kitchen-{kind}"])


REMOTES: dict[str, Remote] = {
    "antmaze-umaze": _antmaze("u-maze", False, False),
    "antmaze-medium-play": _antmaze("big-maze", True, False),
    "antmaze-medium-diverse": _antmaze("big-maze", True, True),
    "antmaze-large-play": _antmaze("hardest-maze", True, False),
    "antmaze-large-diverse": _antmaze("hardest-maze", True, True),
    "kitchen-complete": _kitchen("complete", "mini_kitchen_microwave_kettle_light_slider"),
    "kitchen-partial": _kitchen("partial", "kitchen_microwave_kettle_light_slider"),
    "kitchen-mixed": _kitchen("mixed", "kitchen_microwave_kettle_bottomburner_light"),
    **{
        f"{body}-{level}": _locomotion(f"{body}-{level}")
        for body in ("halfcheetah", "hopper", "walker2d")
        for level in ("random", "medium", "medium-replay", "medium-expert", "expert")
    },
    **{f"{hand}-binary": Remote(minari=f"D4RL/{hand}/human-v2", ready=False) for hand in ("pen", "door", "relocate")},
}


def remote(name: str) -> Remote:
    if name in REMOTES:
        return REMOTES[name]
    from calql.recipes import recipes  # recipes use this module, so it cannot import them

    if name in recipes():
        raise UserError(f"'{name}' has no public original", mend=f"build it: calql data build {name}")
    raise unknown("public dataset", name, REMOTES)


def download(name: str, *, progress: Progress | None = None) -> Downloaded:
    """Get the original of a task, or find it whole; says what to load."""
    chosen = remote(name)
    if chosen.minari:
        return _from_minari(name, chosen.minari)
    with Bar() as bar:
        got = fetch(chosen.url, place(name), sha256=chosen.sha256, progress=progress or bar.show)
    kind = "as published" if got.published else "recorded at the first download, none is published"
    return Downloaded(name, str(got.path), f"SHA-256 {got.sha256} ({kind})")


def place(name: str) -> Path:
    """Where the original's file is, or will be."""
    return data_root() / "downloads" / name / remote(name).url.rsplit("/", 1)[-1]


def has_original(name: str) -> bool:
    """Whether the original of a task has been downloaded and can be trained on as it is."""
    known = REMOTES.get(name)
    return known is not None and known.ready and place(name).is_file()


def downloaded(name: str) -> Dataset | None:
    """The downloaded original of a task, checked; None where there is none to train on."""
    if not has_original(name):
        return None
    known = remote(name)
    got = fetch(known.url, place(name), sha256=known.sha256)
    return load(got.path)


def _from_minari(name: str, identifier: str) -> Downloaded:
    import minari

    if not in_minari(identifier):
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
