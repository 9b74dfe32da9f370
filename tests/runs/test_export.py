"""Exported policies act as ours do, in programs that know nothing of us, and say what they are."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
import pytest
from test_policy_folder import ACTIONS, CASES, described, observations
from test_probe import TINY
from toy_task import spec, tiny

import calql
import corridor
from calql.cli import main
from calql.runs.export import numpy_policy
from calql.runs.export.choice import best, last_scores
from calql.runs.export.numpy_policy import NumpyPolicy
from calql.runs.policy_folder import write_policies
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

KINDS = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}
COUNT = 10_000


def policy_of(name: str, folder: Path, *, image: bool = False) -> Path:
    """A policy folder with two seeds of a fresh policy."""
    method = tiny(name)
    seeds = [method.init(jax.random.key(seed), spec(image)) for seed in (1, 2)]
    parts = [method.policy(method.switch(state)[1]) for state in seeds]
    write_policies(folder / "policy", described(name, image=image), jax.tree.map(lambda *x: np.stack(x), *parts))
    return folder / "policy"


class Runtime:
    """A control loop's use of an ONNX file: inputs that it asks for, state handed back."""

    def __init__(self, path: Path) -> None:
        self.session, self.state, self.timestep = onnxruntime.InferenceSession(str(path)), {}, 0
        self.kinds = {each.name: (KINDS[each.type], each.shape) for each in self.session.get_inputs()}

    def __call__(self, seen: np.ndarray, reward: Any = 0.0) -> np.ndarray:
        count = len(seen)
        given = {name: np.zeros((count, *shape[1:]), kind) for name, (kind, shape) in self.kinds.items()} | self.state
        now = {"observation": seen, "previous_reward": np.full(count, reward, np.float32)}
        now["timestep"] = np.full(count, self.timestep, np.int32)
        given.update({name: array for name, array in now.items() if name in self.kinds})
        names = [each.name for each in self.session.get_outputs()]
        found = dict(zip(names, self.session.run(names, given), strict=True))
        self.timestep += 1
        self.state = {name.removeprefix("next_"): array for name, array in found.items() if name != "action"}
        return found["action"]


class Compiled(Runtime):
    """The same of a StableHLO file."""

    def __init__(self, path: Path) -> None:
        self.program = jax.export.deserialize(bytearray(path.read_bytes()))
        about = json.loads(path.with_name(f"{path.name}.json").read_text())
        self.kinds = {port["name"]: (np.dtype(port["dtype"]), port["shape"]) for port in about["inputs"]}
        self.outputs = [port["name"] for port in about["outputs"]]
        self.session, self.state, self.timestep = self, {}, 0

    def get_outputs(self) -> list[Any]:
        return [type("Output", (), {"name": name}) for name in self.outputs]

    def run(self, names: list[str], given: dict[str, Any]) -> list[np.ndarray]:
        return [np.asarray(each) for each in self.program.call(*(given[name] for name in self.kinds))]


# -- as ours ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "image"), CASES)
def test_every_method_acts_the_same_in_onnx_runtime_and_numpy(name: str, image: bool, tmp_path: Path) -> None:
    folder, seen = policy_of(name, tmp_path, image=image), observations(image, COUNT)
    ours = calql.load_policy(folder, seed=5)(seen)
    for to in ("onnx", "npz"):
        calql.export_policy(folder, to, tmp_path / f"p.{to}", seed=5)
    theirs = Runtime(tmp_path / "p.onnx")
    np.testing.assert_allclose(theirs(seen), ours, atol=1e-5, rtol=0)
    np.testing.assert_allclose(NumpyPolicy(tmp_path / "p.npz")(seen[:500]), ours[:500], atol=1e-5, rtol=0)
    assert np.ptp(ours[:, 0]) > 1e-3  # the test would see a constant


def choosing(name: str, folder: Path, *, masked: bool) -> Path:
    """A policy folder of a method with discrete actions, which are counted from 3."""
    method, made = tiny(name, discrete=True), spec(discrete=True)
    state = method.init(jax.random.key(1), made)
    words = {"choices": made.action_dim, "start": 3, "from": "one-hot", "masked": masked}
    about = {**described(name), "seeds": [4], "action": words}
    about["observation"] |= {"shape": list(made.observation_shape), "mean": list(made.mean), "std": list(made.std)}
    part = method.policy(method.switch(state)[1])
    write_policies(folder / "policy", about, jax.tree.map(lambda x: np.asarray(x)[None], part))
    return folder / "policy"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["cal-ql", "iql", "dqn"])
def test_discrete_actions_are_whole_numbers_that_the_mask_allows(name: str, masked: bool, tmp_path: Path) -> None:
    folder, rng = choosing(name, tmp_path, masked=masked), np.random.default_rng(0)
    shape, count = spec(discrete=True).observation_shape, spec(discrete=True).action_dim
    seen = rng.normal(size=(200, *shape)).astype(np.float32) * 3
    mask = rng.random((200, count)) < 0.5
    mask[np.arange(200), rng.integers(count, size=200)] = True
    told = {"mask": mask} if masked else {}
    ours = calql.load_policy(folder, seed=4)(seen, **told)
    for to in ("onnx", "npz"):
        calql.export_policy(folder, to, tmp_path / f"p.{to}", seed=4)
    session = onnxruntime.InferenceSession(str(tmp_path / "p.onnx"))
    given = {"observation": seen, **({"action_mask": mask} if masked else {})}
    (actions,) = session.run(["action"], given)
    assert actions.dtype == np.int32
    np.testing.assert_array_equal(actions, ours)
    np.testing.assert_array_equal(NumpyPolicy(tmp_path / "p.npz")(seen, **told), ours)
    assert not masked or mask[np.arange(200), actions - 3].all()
    assert len(set(actions.tolist())) > 1


def test_a_numpy_policy_that_wants_a_mask_says_so(tmp_path: Path) -> None:
    calql.export_policy(choosing("cal-ql", tmp_path, masked=True), "npz", tmp_path / "p.npz", seed=4)
    with pytest.raises(ValueError, match="which actions are allowed"):
        NumpyPolicy(tmp_path / "p.npz")(np.zeros(spec(discrete=True).observation_shape, np.float32))


@pytest.mark.parametrize(("name", "image"), [("cal-ql", False), ("odt", False), ("bc", True)])
def test_stablehlo_acts_the_same_for_any_number_of_observations(name: str, image: bool, tmp_path: Path) -> None:
    folder = policy_of(name, tmp_path, image=image)
    calql.export_policy(folder, "stablehlo", tmp_path / "p.stablehlo", seed=4)
    ours = calql.load_policy(folder, seed=4)
    for count in (1, 7):
        seen = observations(image, count)
        ours.reset()
        np.testing.assert_allclose(Compiled(tmp_path / "p.stablehlo")(seen), ours(seen), atol=1e-5)


@pytest.mark.parametrize("to", ["onnx", "npz", "stablehlo"])
def test_what_a_policy_remembers_goes_along(to: Any, tmp_path: Path) -> None:
    """More steps than the decision transformer looks back, with rewards on the way."""
    folder = policy_of("odt", tmp_path)
    calql.export_policy(folder, to, tmp_path / "p", seed=4)
    ours = calql.load_policy(folder, seed=4)
    theirs: Any = {"onnx": Runtime, "npz": NumpyPolicy, "stablehlo": Compiled}[to](tmp_path / "p")
    for step in range(5):
        seen, reward = observations(False, 3) + step, float(step)
        np.testing.assert_allclose(theirs(seen, reward), ours(seen, reward), atol=1e-5)


def test_the_first_step_of_an_episode_forgets_whatever_state_is_given(tmp_path: Path) -> None:
    calql.export_policy(policy_of("odt", tmp_path), "onnx", tmp_path / "p.onnx", seed=4)
    policy, seen = Runtime(tmp_path / "p.onnx"), observations(False, 2)
    first = policy(seen)
    policy.timestep = 0  # the state stays
    np.testing.assert_allclose(policy(seen), first, atol=1e-6)


def test_one_observation_or_several_with_numpy(tmp_path: Path) -> None:
    calql.export_policy(policy_of("bc", tmp_path), "npz", tmp_path / "p.npz", seed=4)
    policy, seen = NumpyPolicy(tmp_path / "p.npz"), observations(False, 3)
    np.testing.assert_allclose(policy(seen[0]), policy(seen)[0], atol=1e-6)
    assert ACTIONS.contains(policy(seen[0]))
    with pytest.raises(ValueError, match=r"shape \(2,\), not \[3\]"):
        policy(seen[0, :2])
    with pytest.raises(ValueError, match="not a number"):
        policy(np.full(3, np.nan, np.float32))


WITHOUT = """
import json, sys
import numpy as np
seen = np.array(json.loads(sys.argv[1]), np.float32)
if sys.argv[2] == "onnx":
    import onnxruntime
    action = onnxruntime.InferenceSession("p.onnx").run(["action"], {"observation": seen})[0]
else:
    from numpy_policy import NumpyPolicy
    action = NumpyPolicy("p.npz")(seen)
assert not {"jax", "calql", "onnx"} & set(sys.modules)
print(json.dumps(action.tolist()))
"""


@pytest.mark.parametrize("to", ["onnx", "npz"])
def test_it_runs_where_there_is_neither_jax_nor_this_package(to: Any, tmp_path: Path) -> None:
    folder, seen = policy_of("cal-ql", tmp_path), observations(False, 2)
    calql.export_policy(folder, to, tmp_path / f"p.{to}", seed=5)
    shutil.copy(numpy_policy.__file__, tmp_path)
    command = [sys.executable, "-c", WITHOUT, json.dumps(seen.tolist()), to]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    np.testing.assert_allclose(json.loads(ended.stdout), calql.load_policy(folder, seed=5)(seen), atol=1e-5)


# -- what the file says -----------------------------------------------------------------------------------


def test_an_onnx_file_says_what_it_is(tmp_path: Path) -> None:
    folder = policy_of("cal-ql", tmp_path)
    calql.export_policy(folder, "onnx", tmp_path / "p.onnx", seed=5)
    model = onnx.load(tmp_path / "p.onnx")
    words = {each.key: each.value for each in model.metadata_props}
    about = json.loads(words["description"])
    assert about["inputs"] == [{"name": "observation", "dtype": "float32", "shape": ["batch", 3]}]
    assert about["outputs"] == [{"name": "action", "dtype": "float32", "shape": ["batch", 2]}]
    assert about["observation"]["parts"] == ["observation"]
    assert about["action"]["low"] == [-2.0, 0.0]
    np.testing.assert_allclose(about["action"]["high"], [2.0, 0.1])
    assert (about["method"], about["seed"], about["phase"], about["chosen"]) == ("cal-ql", 5, "online", "named")
    assert about["arrays"] == json.loads((folder / "policy.json").read_text())["checksums"][1]
    assert words["checksum"] == hashlib.sha256(model.graph.SerializeToString(deterministic=True)).hexdigest()


def test_words_lie_beside_a_stablehlo_file(tmp_path: Path) -> None:
    written = calql.export_policy(policy_of("cal-ql", tmp_path), "stablehlo", tmp_path / "p", seed=5)
    about = json.loads((tmp_path / "p.json").read_text())
    assert about["checksum"] == written.sha256 == hashlib.sha256((tmp_path / "p").read_bytes()).hexdigest()


def test_exporting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = policy_of("bc", tmp_path)
    for to in ("onnx", "npz"):
        one, two = (calql.export_policy(folder, to, tmp_path / f"{n}.{to}", seed=4).sha256 for n in "ab")
        assert one == two


# -- files from strangers ---------------------------------------------------------------------------------


def rewritten(source: Path, out: Path, *, compression: int = zipfile.ZIP_STORED, **changes: Any) -> Path:
    """An .npz with some of its members changed, as bytes."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(out, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, changes.get(name.removesuffix(".npy"), old.read(name)))
    return out


def as_member(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_a_numpy_policy_that_was_changed_is_refused(tmp_path: Path) -> None:
    calql.export_policy(policy_of("bc", tmp_path), "npz", tmp_path / "p.npz", seed=4)
    about = json.loads(bytes(np.load(tmp_path / "p.npz")["description"]))
    weights = as_member(np.load(tmp_path / "p.npz")["constant/c0"] + 1.0)
    with pytest.raises(ValueError, match="not what its checksum says"):
        NumpyPolicy(rewritten(tmp_path / "p.npz", tmp_path / "a.npz", **{"constant/c0": weights}))
    about["program"][0]["op"] = "System"
    about["checksum"] = numpy_policy.checksum(about, {n: a for n, a in np.load(tmp_path / "p.npz").items() if "/" in n})
    words = as_member(np.frombuffer(json.dumps(about).encode(), np.uint8))
    with pytest.raises(ValueError, match="the operation 'System', which this reader does not know"):
        NumpyPolicy(rewritten(tmp_path / "p.npz", tmp_path / "b.npz", description=words))
    with pytest.raises(ValueError, match="is compressed"):
        NumpyPolicy(rewritten(tmp_path / "p.npz", tmp_path / "c.npz", compression=zipfile.ZIP_DEFLATED))


def test_no_pickle_of_a_numpy_policy_is_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", description=np.array([print], dtype=object))
    with pytest.raises(ValueError, match="OBJECT"):
        NumpyPolicy(tmp_path / "p.npz")


def test_an_array_that_claims_to_be_huge_is_refused(tmp_path: Path) -> None:
    calql.export_policy(policy_of("bc", tmp_path), "npz", tmp_path / "p.npz", seed=4)
    lie = as_member(np.zeros(8, np.float32)).replace(b"(8,)", b"(8999999999999,)")
    with pytest.raises(ValueError):
        NumpyPolicy(rewritten(tmp_path / "p.npz", tmp_path / "a.npz", **{"constant/c0": lie}))


# -- which seed -------------------------------------------------------------------------------------------


def test_the_best_has_the_highest_last_score() -> None:
    rows = [
        {"seed": 0, "score": 0.9}, {"seed": 1, "score": 0.1}, {"seed": 2, "score": 0.5},
        {"seed": 0, "score": 0.2}, {"seed": 1, "score": 0.5}, {"seed": 2, "score": None},
        {"seed": 3, "score": float("nan")},
    ]  # fmt: skip
    scores = last_scores(rows)
    assert scores == {0: 0.2, 1: 0.5, 2: 0.5}
    assert best([0, 1, 2, 3], scores, "")[0] == 1  # of equals the lowest
    assert best([0, 1, 2, 3], scores, "")[1].startswith("seed 1, score 0.5: best of 4 (highest score")
    with pytest.raises(UserError, match="no evaluation says which seed is best"):
        best([3], scores, "run")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    data = corridor.write_demonstrations(folder)
    options = {**TINY, "seeds": 2, "vary": {"calibrate": (True, False)}}
    return calql.train(dataset=data, env="corridor:Corridor-v0", out=folder / "run", **options).folder


def test_the_command_chooses_among_arms_and_seeds(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path(shutil.copytree(sweep, tmp_path / "run"))
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    wins = {"seed": 1, "arm": "calibrate=false"}
    changed = [{**row, "score": 0.75 if wins.items() <= row.items() else 0.25} for row in rows]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed))
    assert main(["export", "run", "--to", "npz"]) == 0
    said = capsys.readouterr().out
    assert "policy: policy.npz (cal-ql, seed 1 of calibrate=false, score 0.75: best of 4" in said
    seen = np.array([0.3, 1.0], np.float32)
    ours = calql.load_policy(run, seed=1, arm="calibrate=false")(seen)
    np.testing.assert_allclose(NumpyPolicy("policy.npz")(seen), ours, atol=1e-5)
    about = NumpyPolicy("policy.npz").description
    assert about["dataset"]["fingerprint"] == json.loads((run / "config.json").read_text())["dataset"]["fingerprint"]
    assert (about["seed"], about["arm"], about["task"]) == (1, "calibrate=false", "corridor:Corridor-v0")
    assert main(["export", "run", "--to", "npz", "--arm", "calibrate=true", "--seed", "0", "--out", "b.npz"]) == 0
    other = calql.load_policy(run, seed=0, arm="calibrate=true")(seen)
    np.testing.assert_allclose(NumpyPolicy("b.npz")(seen), other, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seed 9 --arm calibrate=true", "the run has no seed 9"),
        ("--arm x=1", "has no arm 'x=1'"),
        ("--seed 0", "the run is a sweep"),
        ("--out there.onnx", "exists already; choose another --out"),
    ],
)
def test_what_cannot_be_exported_is_said_in_a_line(
    words: str, said: str, sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.onnx").write_text("")
    assert main(["export", str(sweep), *words.split()]) == 2
    wrong = capsys.readouterr().err
    assert said in wrong
    assert wrong.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.onnx"]


def test_a_policy_folder_alone_cannot_say_which_seed_is_best(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no evaluation says which seed is best; name one with --seed"):
        calql.export_policy(policy_of("bc", tmp_path), "npz", tmp_path / "p.npz")
