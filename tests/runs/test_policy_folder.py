"""A policy stands on its own: words and arrays, no data, no environment, no training options."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from test_probe import TINY
from toy_task import SEEDS, same, spec, tiny, tiny_options

import calql
import corridor
from calql.engine.program import Program
from calql.methods import able
from calql.methods.base import TimeStep
from calql.networks.acting import in_float32
from calql.runs.artifact import LoadedPolicy
from calql.runs.policy_folder import DESCRIPTION, read_policies, structure, write_policies
from calql.runs.spaces import from_words, in_words
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

IMAGES = ["cal-ql", "o3f", "bc"]
CASES = [(name, False) for name in able(False)] + [(name, True) for name in IMAGES]
ACTIONS = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 0.1], np.float32))


def described(name: str, *, image: bool = False, online: bool = True) -> dict[str, Any]:
    made = spec(image)
    return {
        "format": 1, "method": name, "options": vars(tiny_options(name)), "seeds": [4, 5], "arms": [],
        "phase": "online" if online else "offline", "action": in_words(ACTIONS),
        "observation": {
            "shape": list(made.observation_shape), "dtype": "uint8" if image else "float32", "low": None, "high": None,
            "mean": list(made.mean), "std": list(made.std),
        },
    }  # fmt: skip


def stacked(name: str, *, image: bool = False) -> Any:
    """Policies [seed, ...] as training has them online."""
    method = tiny(name)
    states = Program(method).start(jnp.stack([jax.random.key(seed) for seed in range(SEEDS)]), spec(image))
    online = jax.vmap(lambda state: method.switch(state)[1])(states)
    return jax.device_get(jax.vmap(method.policy)(online))


def observations(image: bool, count: int) -> np.ndarray:
    rng, shape = np.random.default_rng(0), spec(image).observation_shape
    return (
        rng.integers(0, 256, (count, *shape), np.uint8) if image else rng.normal(size=(count, *shape)).astype("float32")
    )


@pytest.mark.parametrize(("name", "image"), CASES)
def test_every_method_comes_back_and_acts_as_it_did(name: str, image: bool, tmp_path: Path) -> None:
    policies = stacked(name, image=image)
    write_policies(tmp_path / "policy", described(name, image=image), policies)
    found = read_policies(tmp_path / "policy")
    assert list(found.of_member) == [4, 5]
    for index, seed in enumerate(found.of_member):
        before = jax.tree.map(lambda leaf, i=index: leaf[i], policies)
        assert jax.tree.structure(found.of_member[seed]) == jax.tree.structure(before)
        same(found.of_member[seed], before)
    policy, seen = LoadedPolicy(found, 5), observations(image, 3)
    method, parameters = tiny(name), in_float32(jax.tree.map(lambda leaf: leaf[1], policies))
    time_step = TimeStep(jnp.asarray(seen[0]), jnp.float32(0.0), jnp.int32(0))
    action, _ = method.act(parameters, method.start(parameters), time_step, jax.random.key(0), explore=False)
    np.testing.assert_allclose(policy(seen[0]), [0.0, 0.05] + np.asarray(action) * [2.0, 0.05], atol=1e-6)


@pytest.mark.parametrize(("name", "image"), [("cal-ql", False), ("odt", False), ("bc", True)])
def test_many_observations_are_as_many_episodes(name: str, image: bool, tmp_path: Path) -> None:
    write_policies(tmp_path / "policy", described(name, image=image), stacked(name, image=image))
    together, alone = (calql.load_policy(tmp_path / "policy") for _ in range(2))
    steps, rewards = [observations(image, 3) + np.array(step, np.uint8) for step in range(4)], [0.0, 1.0, 0.5, 0.25]
    batch = [together(seen, reward) for seen, reward in zip(steps, rewards, strict=True)]
    assert batch[0].shape == (3, 2)
    for episode in range(3):
        alone.reset()
        for step, reward in enumerate(rewards):
            np.testing.assert_allclose(alone(steps[step][episode], reward), batch[step][episode], atol=1e-5)


def test_episodes_that_are_over_begin_anew_by_themselves(tmp_path: Path) -> None:
    """Of a policy that remembers: the others go on."""
    write_policies(tmp_path / "policy", described("odt"), stacked("odt"))
    policy, seen = calql.load_policy(tmp_path / "policy"), observations(False, 2)
    first = policy(seen)
    second = policy(seen + 1.0, [1.0, 2.0])
    assert not np.allclose(first, second)
    policy.reset()
    policy(seen)
    policy.reset([True, False])
    again = policy(np.stack([seen[0], seen[1] + 1.0]), [0.0, 2.0])
    np.testing.assert_allclose(again, [first[0], second[1]], atol=1e-6)
    with pytest.raises(UserError, match=r"`which` has shape \(3,\) and there are 2 episodes"):
        policy.reset([True, False, True])


def test_a_memory_is_of_so_many_episodes(tmp_path: Path) -> None:
    write_policies(tmp_path / "policy", described("odt"), stacked("odt"))
    policy, seen = calql.load_policy(tmp_path / "policy"), observations(False, 3)
    policy(seen)
    with pytest.raises(UserError, match=r"step 2: the policy remembers 3 episodes, and these observations are of 1;"):
        policy(seen[0])
    policy.reset()
    policy(seen[0])


def test_one_that_remembers_nothing_takes_any_number(tmp_path: Path) -> None:
    write_policies(tmp_path / "policy", described("bc"), stacked("bc"))
    policy, seen = calql.load_policy(tmp_path / "policy"), observations(False, 3)
    np.testing.assert_allclose(policy(seen)[0], policy(seen[0]), atol=1e-6)
    assert policy(seen[:2]).shape == (2, 2)
    for wrong in (seen[0, :2], seen[None], seen[:0]):
        with pytest.raises(UserError, match="the observation has shape"):
            policy(wrong)
    for wrong in ("left", [[1.0], [1.0, 2.0]]):
        with pytest.raises(UserError, match="give an array of numbers"):
            policy(wrong)


def test_exploring_draws_and_differs_by_episode(tmp_path: Path) -> None:
    write_policies(tmp_path / "policy", described("cal-ql"), stacked("cal-ql"))
    policy = calql.load_policy(tmp_path / "policy", explore=True)
    actions = policy(np.repeat(observations(False, 1), 3, axis=0))
    assert len(np.unique(actions[:, 0])) == 3
    assert all(ACTIONS.contains(action) for action in actions)


def test_the_structure_is_known_without_a_parameter() -> None:
    _, shapes = structure(tiny("cal-ql"), spec(), online=False)
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(shapes))


# -- a run's policy ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    data = corridor.write_demonstrations(folder)
    return calql.train(dataset=data, env="corridor:Corridor-v0", out=folder / "run", **{**TINY, "seeds": 2}).folder


def test_a_run_describes_its_policy(run: Path) -> None:
    found = json.loads((run / "policy" / DESCRIPTION).read_text())
    assert (found["method"], found["seeds"], found["phase"]) == ("cal-ql", [0, 1], "online")
    assert found["options"]["policy_widths"] == [8]
    assert found["observation"] | {"mean": 0, "std": 0} == {
        "shape": [2], "dtype": "float32", "low": -10.0, "high": 10.0, "mean": 0, "std": 0,
    }  # fmt: skip
    assert found["action"] == {"shape": [1], "dtype": "float32", "low": -2.0, "high": 2.0, "from": [-1.0, 1.0]}
    last = [row for row in calql.Outcome(run, True, "").rows if row["seed"] == 0][-1]
    assert (found["updates"][0], found["env_steps"][0]) == (last["update"], last["env_steps"])
    assert found["versions"]["jax"] == jax.__version__
    assert found["versions"]["commit"]


ALONE = """
import sys
import calql, numpy as np

policy = calql.load_policy(sys.argv[1], seed=1)
print(policy(np.array([0.0, 1.0], np.float32)).tolist())
training = ("corridor", "calql.engine.run", "calql.domains.own.tasks", "calql.runs.record")
assert not any(name in sys.modules for name in training)
"""


def test_it_needs_neither_data_nor_environment_nor_the_run(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "policy", tmp_path / "elsewhere")
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "elsewhere")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    policy = calql.load_policy(run, seed=1)
    np.testing.assert_allclose(json.loads(ended.stdout), policy(np.array([0.0, 1.0], np.float32)), atol=1e-6)
    with pytest.raises(UserError, match=r"the run has no seed 7; its seeds: \[0, 1\]"):
        calql.load_policy(tmp_path / "elsewhere", seed=7)


@pytest.mark.parametrize("method", ["cal-ql", "odt"])
def test_evaluating_gives_what_the_checkpoint_gives(method: str, tmp_path: Path) -> None:
    """With `policy/` and, as runs of before are evaluated, without it."""
    data = corridor.write_demonstrations(tmp_path)
    own = {"width": 8, "layers": 1, "heads": 1, "batch_size": 4, "updates_per_episode": 2, "warmup_updates": 2}
    sizes = {name: value for name, value in TINY.items() if method == "cal-ql" or "widths" not in name}
    sizes = {**sizes, "seeds": 2, "first_seed": 3}
    if method == "odt":
        sizes = {**{name: value for name, value in sizes.items() if "actions" not in name}, **own}
    options = {"method": method, **sizes}
    folder = calql.train(dataset=data, env="corridor:Corridor-v0", out=tmp_path / "run", **options).folder
    with_policy = calql.evaluate(folder, 3)
    action = calql.load_policy(folder, seed=4)(np.array([0.3, 1.0], np.float32))
    shutil.rmtree(folder / "policy")
    assert calql.evaluate(folder, 3) == with_policy
    assert with_policy["seeds"] == [3, 4]
    np.testing.assert_array_equal(calql.load_policy(folder, seed=4)(np.array([0.3, 1.0], np.float32)), action)


def test_evaluating_takes_no_data(run: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(run, tmp_path / "copy"))
    config = json.loads((copied / "config.json").read_text())
    config["choice"]["dataset"] = "gone.npz"
    (copied / "config.json").write_text(json.dumps(config))
    assert calql.evaluate(copied, 2) == {**calql.evaluate(run, 2), "run": str(copied)}


def test_resuming_writes_it_anew(run: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(run, tmp_path / "copy"))
    before = json.loads((copied / "policy" / DESCRIPTION).read_text())
    calql.resume(copied, online_steps=40)
    after = json.loads((copied / "policy" / DESCRIPTION).read_text())
    assert after["env_steps"][0] > before["env_steps"][0]
    assert {**after, "observation": 0} | {"updates": 0, "env_steps": 0, "arrays": 0, "checksums": 0} == {
        **before, "observation": 0, "updates": 0, "env_steps": 0, "arrays": 0, "checksums": 0,
    }  # fmt: skip
    assert after["observation"] == before["observation"]
    assert sorted(path.name for path in (copied / "policy").iterdir()) == sorted([after["arrays"], DESCRIPTION])


def test_a_sweep_has_a_policy_for_each_seed_of_each_arm(tmp_path: Path) -> None:
    data = corridor.write_demonstrations(tmp_path)
    options = {**TINY, "seeds": 2, "vary": {"calibrate": (True, False)}}
    folder = calql.train(dataset=data, env="corridor:Corridor-v0", out=tmp_path / "run", **options).folder
    with_policy, seen = calql.evaluate(folder, 2), np.array([0.3, 1.0], np.float32)
    assert with_policy["seeds"] == [0, 1, 0, 1]
    assert with_policy["arms"] == ["calibrate=true"] * 2 + ["calibrate=false"] * 2
    actions = [
        [calql.load_policy(folder, arm=arm, seed=seed)(seen) for seed in (0, 1)] for arm in with_policy["arms"][::2]
    ]
    assert len(np.unique(actions)) == 4
    with pytest.raises(UserError, match="the run is a sweep; name one of its arms: calibrate=true, calibrate=false"):
        calql.load_policy(folder)
    shutil.rmtree(folder / "policy")
    assert calql.evaluate(folder, 2) == with_policy
    np.testing.assert_array_equal(calql.load_policy(folder, arm="calibrate=false", seed=1)(seen), actions[1][1])


# -- whole or not at all ----------------------------------------------------------------------------------

KILLED = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
from calql.runs.policy_folder import write_policies

folder, words = Path(sys.argv[1]), json.loads(sys.argv[2])
write_policies(folder, words, {"w": np.ones((2, 3), np.float32)})
left, fsync = int(sys.argv[3]), os.fsync

def killed(file):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)

os.fsync = killed
write_policies(folder, {**words, "updates": [2, 2]}, {"w": np.zeros((2, 3), np.float32)})
"""


@pytest.mark.parametrize("moment", range(4))
def test_killed_at_any_write_a_whole_one_is_there(moment: int, tmp_path: Path) -> None:
    """Arrays before and after they have their name, then the description likewise."""
    words = json.dumps({"format": 1, "seeds": [0, 1], "arms": [], "updates": [1, 1]})
    command = [sys.executable, "-c", KILLED, str(tmp_path / "policy"), words, str(moment)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    found = json.loads((tmp_path / "policy" / DESCRIPTION).read_text())
    assert found["updates"] == ([2, 2] if moment == 3 else [1, 1])
    arrays = np.load(tmp_path / "policy" / found["arrays"])
    np.testing.assert_array_equal(arrays["1/w"], np.full(3, 0.0 if moment == 3 else 1.0))
    write_policies(tmp_path / "policy", json.loads(words), {"w": np.full((2, 3), 5.0, np.float32)})
    assert len(list((tmp_path / "policy").glob("arrays-*.npz"))) == 1


def test_a_reader_meets_a_writer(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays that the description named are gone when they are opened: it is read again."""
    folder = Path(shutil.copytree(run / "policy", tmp_path / "policy"))
    found = json.loads((folder / DESCRIPTION).read_text())
    os.rename(folder / found["arrays"], folder / "arrays-new.npz")
    texts = [json.dumps(found), json.dumps({**found, "arrays": "arrays-new.npz"})]
    original = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path, *a, **k: (
            texts.pop(0) if path.name == DESCRIPTION and len(texts) > 1
            else texts[0] if path.name == DESCRIPTION else original(path, *a, **k)
        ),
    )  # fmt: skip
    assert list(read_policies(folder).of_member) == [0, 1]


def _changed(**changes: Any) -> Any:
    def change(folder: Path) -> None:
        path = folder / DESCRIPTION
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def _flipped(folder: Path) -> None:
    path = next(folder.glob("arrays-*.npz"))
    content = bytearray(path.read_bytes())
    content[len(content) // 5] ^= 0xFF
    path.write_bytes(content)


def _swapped(folder: Path) -> None:
    path = next(folder.glob("arrays-*.npz"))
    np.savez(path, **{name: array + 1 for name, array in np.load(path).items()})


BAD = {
    "torn": (lambda folder: (folder / DESCRIPTION).write_text('{"format": 1,'), "is not valid JSON"),
    "later": (_changed(format=2), "is of format 2, and this version reads 1; use the version"),
    "no method": (_changed(method=None), "has no 'method', or not as it is written"),
    "no seeds": (_changed(seeds=["a"]), "has no seeds"),
    "unknown method": (_changed(method="cal-qll"), "did you mean 'cal-ql'"),
    "strange option": (_changed(options={"warp": 9}), "policy.json: 'options' has warp, which this version does not"),
    "bad option": (_changed(options={"policy_rate": -1.0}), "policy.json: --policy-rate is -1.0"),
    "no bounds": (_changed(action={"shape": [1]}), "has no spaces that make sense"),
    "elsewhere": (_changed(arrays="../arrays.npz"), "names arrays outside its folder"),
    "gone": (_changed(arrays="arrays-0.npz"), "has no arrays-0.npz"),
    "other widths": (_changed(options={"policy_widths": [9]}), "does not fit this version of the method 'cal-ql'"),
    "flipped": (_flipped, "copy it again"),
    "swapped": (_swapped, "holds other arrays than policy.json describes"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_is_said_in_a_line(kind: str, run: Path, tmp_path: Path) -> None:
    change, said = BAD[kind]
    folder = Path(shutil.copytree(run / "policy", tmp_path / "policy"))
    change(folder)
    with pytest.raises(UserError) as raised:
        calql.load_policy(folder)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_without_a_policy_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        calql.load_policy(tmp_path / "nothing")


@pytest.mark.parametrize(
    "box",
    [
        spaces.Box(-1.0, 1.0, (3,), np.float32),
        spaces.Box(np.array([-0.1, 0.3], np.float32), np.array([np.inf, 0.7], np.float32)),
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    ],
)
def test_boxes_in_words(box: spaces.Box) -> None:
    words = json.loads(json.dumps(in_words(box), allow_nan=False))
    assert from_words(words) == box
