"""The public originals by task name: D4RL's HDF5 files by URL, human demonstrations by Minari's hub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from calql.data.bar import Bar
from calql.data.dataset import Dataset
from calql.data.fetch import fetch
from calql.data.formats.minari import in_minari
from calql.data.load import load
from calql.data.store import OnProgress, data_root
from calql.domains.base import Remote
from calql.domains.registry import all_recipes, offered
from calql.system.errors import UserError, unknown
from calql.system.extras import extra


@dataclass(frozen=True)
class Downloaded:
    name: str
    source: str  # what `calql.data.load` takes
    checksum: str

    def __str__(self) -> str:
        return f"{self.name}: {self.source}\n  {self.checksum}"


def originals() -> dict[str, Remote]:
    """Every public original, by the name of its task."""
    return offered(lambda domain: domain.originals)


def remote(name: str) -> Remote:
    known = originals()
    if name in known:
        return known[name]
    if name in all_recipes():
        raise UserError(f"'{name}' has no public original", mend=f"build it: calql data build {name}")
    raise unknown("public dataset", name, known)


def download(name: str, *, progress: OnProgress | None = None) -> Downloaded:
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
    known = originals().get(name)
    return known is not None and known.ready and place(name).is_file()


def downloaded(name: str) -> Dataset | None:
    """The downloaded original of a task, checked; None where there is none to train on."""
    if not has_original(name):
        return None
    known = remote(name)
    got = fetch(known.url, place(name), sha256=known.sha256)
    return load(got.path)


def _from_minari(name: str, identifier: str) -> Downloaded:
    minari = extra("minari", f"{name}'s original, which is a Minari dataset,")
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
