"""The store of built sets: whole or rebuilt, never half."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calql.data.dataset import Dataset
from calql.data.store import BuildContext, Recipe, Source, folder, manifest, obtain
from calql.system.errors import UserError


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("CALQL_SOURCES", raising=False)
    return tmp_path / "data"


def small(seed: int, rows: int = 6) -> Dataset:
    rng = np.random.default_rng(seed)
    ends = np.zeros(rows, bool)
    ends[[2, -1]] = True
    return Dataset(
        observations=rng.normal(size=(rows, 3)).astype(np.float32),
        actions=rng.normal(size=(rows, 2)).astype(np.float32),
        rewards=np.arange(rows, dtype=np.float32),
        next_observations=rng.normal(size=(rows, 3)).astype(np.float32),
        terminals=np.zeros(rows, bool),
        truncated=ends,
        notes=("drawn, not recorded",),
    )


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def recipe(self, version: int = 1, **extra: object) -> Recipe:
        def build(context: BuildContext) -> Dataset:
            self.calls += 1
            return small(context.seed, context.size or 6)

        return Recipe("toy", version, build, **extra)  # type: ignore[arg-type]


def test_builds_once_and_reads_back_the_same() -> None:
    made = Counting()
    first, second = obtain(made.recipe()), obtain(made.recipe())
    assert made.calls == 1
    assert np.array_equal(first.observations, second.observations)
    assert np.array_equal(second.truncated, small(0).truncated)
    assert second.notes == ("drawn, not recorded",)


def test_manifest_says_what_was_built() -> None:
    obtain(Counting().recipe(success=lambda d: np.array([True, False])), seed=3)
    facts = manifest("toy", seed=3)
    assert (facts["version"], facts["seed"], facts["transitions"], facts["episodes"]) == (1, 3, 6, 2)
    assert facts["return"]["min"] == 3.0
    assert facts["return"]["max"] == 12.0
    assert facts["success"] == {"trajectories": 2, "share": 0.5}
    assert facts["versions"]["mujoco"]
    assert len(facts["sha256"]) == 64


@pytest.mark.parametrize("damage", ["flip", "cut", "no manifest", "half manifest", "no columns"])
def test_damaged_set_is_rebuilt(damage: str) -> None:
    made = Counting()
    whole = obtain(made.recipe())
    columns, facts = folder("toy") / "data.npz", folder("toy") / "manifest.json"
    if damage == "flip":
        data = bytearray(columns.read_bytes())
        data[len(data) // 2] ^= 1
        columns.write_bytes(data)
    elif damage == "cut":
        columns.write_bytes(columns.read_bytes()[:100])
    elif damage == "no manifest":
        facts.unlink()
    elif damage == "half manifest":
        facts.write_text(facts.read_text()[:40])
    else:
        columns.unlink()
    again = obtain(made.recipe())
    assert made.calls == 2
    assert np.array_equal(whole.observations, again.observations)


def test_other_version_seed_size_or_rebuild_builds_again() -> None:
    made = Counting()
    obtain(made.recipe())
    obtain(made.recipe(version=2))
    assert manifest("toy")["version"] == 2
    obtain(made.recipe(version=2), seed=1)
    obtain(made.recipe(version=2), size=9)
    obtain(made.recipe(version=2), rebuild=True)
    assert made.calls == 5
    assert len(obtain(made.recipe(version=2), size=9)) == 9


def test_interrupted_build_leaves_nothing_to_use() -> None:
    def stop(context: BuildContext) -> Dataset:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(Recipe("toy", 1, stop))
    assert not folder("toy").exists()
    (folder("toy").parent / ".seed0.killed").mkdir()  # what a killed builder leaves behind
    obtain(Counting().recipe())
    assert [p.name for p in folder("toy").parent.iterdir() if p.is_dir()] == ["seed0"]


def test_missing_source_names_file_and_origin(tmp_path: Path) -> None:
    policy = Source("policies/a.npz", "the walker", "example.org")
    recipe = Recipe("toy", 1, lambda c: small(len(c.source(policy).read_bytes())), needs=(policy,))
    with pytest.raises(UserError, match=r"policies/a.npz .the walker., from example.org; name its folder"):
        obtain(recipe)
    with pytest.raises(UserError, match="no such folder"):
        obtain(recipe, sources=tmp_path / "nowhere")


def test_changed_source_rebuilds(tmp_path: Path) -> None:
    policy = Source("a.npz", "the walker", "example.org")
    recipe = Recipe("toy", 1, lambda c: small(len(c.source(policy).read_bytes())))
    (tmp_path / "a.npz").write_bytes(b"1")
    first = obtain(recipe, sources=tmp_path)
    (tmp_path / "a.npz").write_bytes(b"22")
    second = obtain(recipe, sources=tmp_path)
    assert not np.array_equal(first.observations, second.observations)
    assert np.array_equal(second.observations, obtain(recipe).observations)


@pytest.mark.slow
def test_concurrent_builders_agree(tmp_path: Path) -> None:
    script = tmp_path / "builder.py"
    script.write_text(
        "import sys, time, json\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_store import small\n"
        "from calql.data.store import Recipe, obtain\n"
        "def build(c):\n"
        "    open(sys.argv[1], 'a').write('x')\n"
        "    time.sleep(0.5)\n"
        "    return small(c.seed)\n"
        "print(float(obtain(Recipe('shared', 1, build)).observations.sum()))\n"
    )
    count = tmp_path / "count"
    running = [subprocess.Popen([sys.executable, script, count], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    sums = {process.communicate()[0] for process in running}
    assert all(process.returncode == 0 for process in running)
    assert sums == {f"{float(small(0).observations.sum())}\n"}
    assert count.read_text() == "x"


def test_names_cannot_leave_the_folder() -> None:
    with pytest.raises(UserError, match="cannot name a dataset"):
        folder("../elsewhere")


def test_manifest_is_json_with_notes() -> None:
    obtain(Counting().recipe())
    assert json.loads((folder("toy") / "manifest.json").read_text())["notes"] == ["drawn, not recorded"]
