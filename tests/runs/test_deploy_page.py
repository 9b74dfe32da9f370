"""The code of docs/deploy.md runs as it stands there."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from toy_task import tiny_options

import calql
from calql.methods import METHODS
from calql.networks import Spec
from calql.runs.export import numpy_policy
from calql.runs.policy_folder import write_policies
from calql.runs.spaces import in_words

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SPEC = Spec((2,), 1, mean=(-0.5, 0.0), std=(0.3, 0.05))


def policy_of(name: str, folder: Path) -> Path:
    options = tiny_options(name)
    method = METHODS[name].make(options)
    policy = jax.tree.map(lambda leaf: np.asarray(leaf)[None], method.policy(method.init(jax.random.key(0), SPEC)))
    system = gymnasium.make("MountainCarContinuous-v0")
    described: dict[str, Any] = {
        "format": 1, "method": name, "options": vars(options), "seeds": [0], "arms": [], "phase": "offline",
        "action": in_words(system.action_space), "versions": {},
        "observation": {**in_words(system.observation_space), "mean": list(SPEC.mean), "std": list(SPEC.std)},
    }  # fmt: skip
    write_policies(folder, described, policy)
    return folder


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copy(numpy_policy.__file__, tmp_path)
    for to in ("onnx", "npz", "stablehlo"):
        calql.export_policy(policy_of("cal-ql", tmp_path / "policy"), to)
    names: dict[str, Any] = {}
    assert len(BLOCKS) == 5
    for block in BLOCKS:
        exec(block, names)
    monkeypatch.delitem(sys.modules, "numpy_policy")
    loop = BLOCKS[0].partition("import onnxruntime\n\n")[2]
    assert len(loop.splitlines()) <= 10
    assert names["truncated"]  # the loop played an episode to its end

    calql.export_policy(policy_of("odt", tmp_path / "odt"), "onnx", "odt.onnx")
    theirs, ours = names["Remembering"]("odt.onnx"), calql.load_policy("odt")
    for step in range(4):
        seen = np.array([-0.5 + 0.1 * step, 0.01], np.float32)
        np.testing.assert_allclose(theirs(seen, 0.5 * step), ours(seen, 0.5 * step), atol=1e-5)
