"""Two cameras and a joint: trained, resumed, evaluated, loaded, exported and filmed through the real commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from toy_task import tiny_options

import calql
import two_cameras
from calql.cli import main
from calql.data import Dataset, Reading, load, sources
from calql.engine.boundary import Boundary
from calql.engine.episodes import Request
from calql.methods import METHODS
from calql.methods.base import Transitions
from calql.networks import Spec
from calql.networks.parts import layout_in
from calql.runs import given
from calql.runs.export.numpy_policy import NumpyPolicy
from calql.system.errors import UserError
from two_cameras import NAMES, TwoCameras

pytestmark = pytest.mark.slow

BY_NAME = Reading(observations=NAMES)
ENV = "two_cameras:TwoCameras-v0"
SMALL = [
    "--method", "bc", "--seeds", "1", "--offline-updates", "4", "--evaluate-offline-every", "4",
    "--evaluation-episodes", "1", "--policy-widths", "8", "--batch-size", "8", "--standardise", "--no-films", "--quiet",
]  # fmt: skip
COUNT = 10_000
PARTS = [f"observation.{name}" for name in NAMES]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "two.npz"
    np.savez(path, **two_cameras.steps(12))  # type: ignore[arg-type]
    return path


@pytest.fixture(scope="module")
def run(logs: Path) -> Path:
    """Offline and online in one go."""
    folder = logs.parent / "run"
    words = ["train", "--dataset", str(logs), "--env", ENV, "--observations", *NAMES, *SMALL]
    assert main([*words, "--online-steps", "12", "--evaluate-online-every", "6", "--out", str(folder)]) == 0
    return folder


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def seen() -> dict[str, np.ndarray]:
    """Parts of made-up observations, like those of the data."""
    rng = np.random.default_rng(0)
    return {
        "front": rng.integers(0, 256, (COUNT, *two_cameras.FRONT), np.uint8),
        "wrist": rng.integers(0, 256, (COUNT, *two_cameras.WRIST, 1), np.uint8),
        "state": (rng.normal(size=(COUNT, 2)) * [5.0, 1.0] + [100.0, 0.0]).astype(np.float32),
    }


def test_from_disk_they_give_the_same_rows(
    run: Path, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Converted without coming into memory, where parts are packed as they are read; then streamed."""
    monkeypatch.setattr(sources, "LARGE", 0)
    folder, out = tmp_path / "two.columns", tmp_path / "run"
    assert main(["data", "convert", str(logs), str(folder), "--observations", *NAMES]) == 0
    data = load(folder)
    assert data.stored
    assert data.layout == load(logs, BY_NAME).layout
    words = ["train", "--dataset", str(folder), "--env", ENV, *SMALL, "--stream", "on", "--online-steps", "12"]
    assert main([*words, "--evaluate-online-every", "6", "--out", str(out)]) == 0
    assert (out / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


def test_the_run_says_what_it_was_trained_on(run: Path) -> None:
    described = json.loads((run / "policy" / "policy.json").read_text())["observation"]
    assert [part["name"] for part in described["parts"]] == list(NAMES)
    assert described["mean"][0] == pytest.approx(100.0, abs=10.0)
    assert {row["phase"] for row in rows_of(run)} == {"offline", "online"}
    assert json.loads((run / "config.json").read_text())["options"]["standardise"]


def test_resumed_evaluated_and_filmed(run: Path, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is stopped and taken up again comes to the rows of one that never was."""
    halves = logs.parent / "halves"
    words = ["train", "--dataset", str(logs), "--env", ENV, "--observations", *NAMES, *SMALL]
    assert main([*words, "--online-steps", "6", "--evaluate-online-every", "6", "--out", str(halves)]) == 0
    assert main(["train", "--resume", str(halves), "--online-steps", "12", "--quiet", "--no-films"]) == 0
    last, whole = rows_of(halves)[-1], rows_of(run)[-1]
    for name in ("score", "return", "policy_loss", "env_steps"):
        assert last.get(name) == whole.get(name), name
    capsys.readouterr()
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    assert len(json.loads(capsys.readouterr().out)["score"]) == 1
    assert main(["render", str(run)]) == 0
    assert list((run / "films").glob("*.gif"))


def test_a_loaded_policy_takes_dictionaries(run: Path, seen: dict[str, np.ndarray]) -> None:
    policy = calql.load_policy(run)
    one = policy(TwoCameras().reset(seed=3)[0])  # with a part that it does not want
    assert one.shape == (1,)
    singles = [{name: part[row] for name, part in seen.items()} for row in range(4)]
    several = policy({name: part[:4] for name, part in seen.items()})
    assert np.ptp(several) > 1e-4
    assert np.array_equal(policy(singles), several)
    policy.reset()
    assert np.allclose([policy(each) for each in singles], several, atol=1e-6)
    bad = singles[0] | {"state": np.array([np.nan, 0.0])}
    for wrong, words in (
        (bad, "the observation holds nan as number 0 of 'state'"),
        ({"front": singles[0]["front"]}, "it has no 'wrist'"),
        (np.zeros(3), "it is one array; give a dictionary of front, wrist, state"),
        (singles[0] | {"front": np.zeros((4, 4, 3), np.uint8)}, r"'front' has shape \(4, 4, 3\)"),
    ):
        with pytest.raises(UserError, match=words) as raised:
            policy(wrong)
        assert "\n" not in str(raised.value)


def in_parts(act: Callable[[dict[str, np.ndarray]], Any], seen: dict[str, np.ndarray]) -> np.ndarray:
    """A thousand observations at a time: all of them at once take 700 MB."""
    starts = range(0, COUNT, 1000)
    return np.concatenate([act({name: part[at : at + 1000] for name, part in seen.items()}) for at in starts])


def test_exported_with_an_input_for_each_part(run: Path, seen: dict[str, np.ndarray], tmp_path: Path) -> None:
    ours = in_parts(calql.load_policy(run), seen)
    assert np.ptp(ours) > 1e-2  # the test would see a constant
    for to in ("onnx", "npz", "stablehlo"):
        calql.export_policy(run, to, tmp_path / f"p.{to}")
    session = onnxruntime.InferenceSession(str(tmp_path / "p.onnx"))
    assert [each.name for each in session.get_inputs()] == PARTS
    inputs = dict(zip(PARTS, (seen[name] for name in NAMES), strict=True))
    found = in_parts(lambda part: session.run(["action"], part)[0], inputs)
    np.testing.assert_allclose(found, ours, atol=1e-5, rtol=0)
    theirs = NumpyPolicy(tmp_path / "p.npz")
    some = {name: part[:500] for name, part in seen.items()}
    np.testing.assert_allclose(theirs(some), ours[:500], atol=1e-5, rtol=0)
    np.testing.assert_allclose(theirs({name: part[5] for name, part in seen.items()}), ours[5], atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="the observation has no 'state'"):
        theirs({"front": seen["front"], "wrist": seen["wrist"]})
    program = jax.export.deserialize(bytearray((tmp_path / "p.stablehlo").read_bytes()))
    found = in_parts(lambda part: program.call(*part.values())[0], inputs)
    np.testing.assert_allclose(found, ours, atol=1e-5, rtol=0)
    np.testing.assert_allclose(program.call(*(part[:7] for part in inputs.values()))[0], ours[:7], atol=1e-5, rtol=0)
    about = json.loads((tmp_path / "p.stablehlo.json").read_text())
    assert about["observation"]["parts"] == list(NAMES)


def test_logs_alone_are_valued(logs: Path, tmp_path: Path) -> None:
    words = ["train", "--dataset", str(logs), "--offline", "--observations", *NAMES, *SMALL, "--fqe-updates", "8"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert any(np.isfinite(row.get("fqe_value") or np.nan) for row in rows_of(tmp_path / "run"))


def test_a_dataset_that_is_given_keeps_its_names(logs: Path, tmp_path: Path) -> None:
    """In the run folder, from which a run goes on without a file to read."""
    for names in (NAMES, ("front",), ("clock", "state")):
        data = load(logs, Reading(observations=names))
        given.keep(data, tmp_path)
        again = given.data_of(tmp_path, {"given": {"dataset": "data.npz"}})
        assert again is not None
        assert np.array_equal(again.observations, data.observations)
        assert (again.form, again.parts) == (data.form, data.parts)
        assert again.form is not None


def test_a_joint_that_is_no_number_stops_at_the_boundary(logs: Path) -> None:
    form = load(logs, BY_NAME).form
    boundary = Boundary(two_cameras.Blind, 0.0, form=form)
    env = boundary.make()
    trajectory = boundary.reset(env, Request((0, 0, 0)))
    with pytest.raises(UserError, match=r"step\(\) gave nan as number 1 of 'state' in its observation"):
        boundary.step(env, trajectory, np.zeros(1, np.float32))


def test_what_takes_no_images_says_so(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--dataset", str(logs), "--env", ENV, "--observations", *NAMES, "--method", "odt"]
    assert main(words) != 0
    assert "the method 'odt' cannot take images" in capsys.readouterr().err


def batch_of(data: Dataset, method: Any) -> Transitions:
    rows = (method.minibatches, 4)
    seen = jnp.asarray(np.resize(data.observations, (*rows, data.observations.shape[1])))
    number, action = jnp.zeros(rows), jnp.zeros((*rows, 1))
    optional = {name: action if name == "next_actions" else number for name in method.columns}
    return Transitions(seen, action, number, seen, number, number, **optional)


@pytest.mark.parametrize("name", ["cal-ql", "iql", "awac", "td3-bc", "bc"])
def test_learners_take_them_standardised_or_not(name: str, logs: Path) -> None:
    """Traced alone: what is compiled is each method's own matter."""
    data, key = load(logs, BY_NAME), jax.eval_shape(lambda: jax.random.key(0))
    spec = Spec.of(data.observations, data.actions, layout=data.form)
    for standardise in (False, True):
        options = {**vars(tiny_options(name)), "standardise": standardise}
        method = METHODS[name].make(METHODS[name].options(**options))
        state = jax.eval_shape(lambda key, m=method: m.init(key, spec), key)
        assert layout_in(state) == data.layout
        assert ("Standardise" in str(jax.tree.structure(state))) is standardise
    after, _ = jax.eval_shape(method.update, state, batch_of(data, method), key)
    assert jax.tree.structure(after) == jax.tree.structure(state)


def test_normalisation_is_an_option_of_every_method() -> None:
    """Off, but where a method's authors have it on."""
    usual = {name: entry.options().standardise for name, entry in METHODS.items()}
    assert {name for name, on in usual.items() if on} == {"td3-bc", "o3f", "odt"}
