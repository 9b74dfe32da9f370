"""Memory is added up before it is taken, and the sum is never more than a run takes."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest

import corridor
from calql.engine import memory
from calql.engine.memory import largest_product, least_memory, one_row, require_memory, size
from calql.engine.mixing import batch_shape
from calql.engine.options import RunOptions
from calql.methods import method_entry
from calql.methods.cal_ql import CalQL
from calql.methods.learner import ActorCritic
from calql.networks import Spec
from calql.system import machine
from calql.system.errors import UserError
from calql.system.machine import host_memory, in_words

SMALL = CalQL(policy_widths=(8,), critic_widths=(8,), batch_size=4, sampled_actions=2, backup_actions=2)


def test_states_and_buffers_are_counted_exactly() -> None:
    data, options = corridor.demonstrations(2), RunOptions(seeds=3, capacity=50, online_steps=1000)
    method = ActorCritic(SMALL)
    state = method.init(jax.random.key(0), Spec((2,), 1))
    networks, buffers, batches = least_memory(method, data, options, limit=20).values()
    assert networks == 3 * sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    row = 2 * 4 + 4 + 4 + 2 * 4 + 4 + 4  # seen, action, reward, next, terminal, reference
    assert buffers == 3 * 50 * row
    assert batches == 3 * 4 * row


@pytest.mark.parametrize("name", ["cal-ql", "odt", "rebrac", "iql"])
def test_every_kind_of_method_can_be_measured(name: str) -> None:
    entry = method_entry(name)
    method, data = entry.make(entry.options()), corridor.demonstrations(2)
    found = least_memory(method, data, RunOptions(seeds=10_000), limit=20)
    assert all(part > 0 for part in found.values())


def test_the_largest_product_is_that_of_the_sampled_actions() -> None:
    data, method = corridor.demonstrations(2), ActorCritic(SMALL)
    state = jax.eval_shape(lambda: method.init(jax.random.key(0), Spec((2,), 1)))
    row, shape = one_row(method, data), batch_shape(method)
    batch = jax.tree.map(lambda c: jax.ShapeDtypeStruct((*shape, *c.shape), c.dtype), row)
    product = largest_product(method, state, batch)
    assert product % (4 * 8 * 4) == 0  # rows times width times float32
    assert product > size(batch)


def test_what_cannot_fit_is_refused_by_the_option_that_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "device_memory", lambda: 10**6)
    data, method = corridor.demonstrations(2), ActorCritic(SMALL)
    require_memory(method, data, RunOptions(seeds=2, capacity=100), 20)
    for options, said in (
        (RunOptions(seeds=2000, online_steps=0), "the networks of 2000 seeds: use fewer --seeds"),
        (RunOptions(seeds=2, capacity=10**6), "2 online buffers: use a smaller --capacity"),
    ):
        with pytest.raises(UserError, match=f"needs at least .* of memory, and there are 1 MB; .* are for {said}"):
            require_memory(method, data, options, 20)


def test_a_control_group_may_have_less_than_the_machine(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       1000 kB\nMemFree: 1 kB\n")
    assert host_memory(tmp_path, meminfo) == 1_024_000
    (tmp_path / "memory.max").write_text("max\n")
    assert host_memory(tmp_path, meminfo) == 1_024_000
    (tmp_path / "memory.max").write_text("500000\n")
    assert host_memory(tmp_path, meminfo) == 500_000
    assert host_memory(tmp_path / "none", tmp_path / "none") > 2**60


def test_bytes_in_words() -> None:
    assert [in_words(n) for n in (12, 1500, 24e9, 3e15)] == ["12 bytes", "1.5 kB", "24 GB", "3e+03 TB"]
    assert machine.device_memory() > 0
