"""Compiled programs survive the process that compiled them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import jax, jax.numpy as jnp
from calql.system.compiled import keep_compiled
print(keep_compiled())
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((64, 64))).block_until_ready()
print(sum(event.endswith("cache_hits") for event in hits))
"""


def in_a_process(**variables: str) -> list[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")}
    env = {**inherited, "JAX_PLATFORMS": "cpu", **variables}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.slow
def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    first, second = (in_a_process(CALQL_COMPILED=str(tmp_path)) for _ in range(2))
    assert first[0].startswith(str(tmp_path))
    assert int(first[1]) == 0
    assert int(second[1]) > 0


@pytest.mark.slow
def test_off_keeps_nothing_and_a_folder_chosen_through_jax_stays(tmp_path: Path) -> None:
    assert in_a_process(CALQL_COMPILED="off")[0] == "None"
    chosen = tmp_path / "chosen"
    assert in_a_process(JAX_COMPILATION_CACHE_DIR=str(chosen), CALQL_COMPILED=str(tmp_path))[0] == str(chosen)
