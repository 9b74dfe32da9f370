"""Count the kernels of one update, and the bytes they write and read, in what XLA compiles for an H200.

Also counted: those around the loop over updates, once for all its rounds, and the longest chain of kernels that wait
for each other. With `list`, every kernel of an update and what it is made of (a `*` is on that chain).

Needs no card but the packages jax-cuda12-plugin, jax-cuda12-pjrt and nvidia-cuda-nvcc-cu12, in the version of jax:

    JAX_PLATFORMS=cpu XLA_FLAGS=--xla_gpu_autotune_level=0 python docs/figures/kernels.py antmaze fused SEEDS [list]

(`door` in place of `antmaze`. jax 0.11 wants the packages of CUDA 13.)

Without a card nothing is tuned, so a program there may have other kernels; bytes are those of results and operands.
With MOSAIC_GPU_DUMP_PTXAS=1 and MOSAIC_GPU_DUMP_TO=FOLDER, which has to exist, the assembler's report on each kernel of
ours is there too: registers, and what it spills to memory.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from calql.bench.updates import Bench, Shapes
from calql.engine.program import Program
from calql.methods.learner_options import ActorCriticOptions
from calql.networks import Kernel
from calql.networks.kernels import fused

SEEDS = int(sys.argv[3]) if len(sys.argv) > 3 else 6
CARD = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: 4800000000000 l2_cache_size: 52428800
  clock_rate_ghz: 1.98 device_memory_size: 150000000000 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 } registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 patch: 0 }
runtime_version { major: 12 minor: 9 patch: 0 }
device_description_str: "NVIDIA H200"
"""
OPTIONS = ActorCriticOptions(precision="bfloat16")
TASKS = {
    "antmaze": (Shapes(29, 8, seeds=SEEDS), replace(OPTIONS, policy_widths=(256, 256), critic_widths=(256,) * 4)),
    "door": (Shapes(39, 28, seeds=SEEDS), replace(OPTIONS, policy_widths=(512, 512), critic_widths=(512,) * 3)),
}
BYTES = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "pred": 1, "u8": 1}
NO_KERNEL = ("parameter", "get-tuple-element", "tuple", "bitcast", "constant")


def main(task: str, kernel: Kernel) -> None:
    shapes, options = TASKS[task]
    there = {"target": fused, "attribute": "available", "return_value": True}
    with mock.patch("jax.default_backend", return_value="gpu"), mock.patch.object(**there):
        bench = Bench("cal-ql", replace(options, critic_kernel=kernel), shapes)
        counts = jnp.zeros((3, SEEDS), jnp.int32)
        inputs = (bench.learning, bench.logged, bench.replay, bench.keys, *counts)
        card = topologies.get_topology_desc("", "cuda", topology="1x1x1", target_config=CARD).devices[0]
        place = SingleDeviceSharding(card)
        shaped = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), inputs)
        text = Program.train.lower(bench.program, *shaped, rounds=bench.loop).compile().as_text() or ""
    around, update = (list(kernels_of(body)) for body in (around_the_loop(text), over_updates(text)))
    if "list" in sys.argv:
        show(update, text)
    copies = sum(kernel.kind == "copy" for kernel in update)
    written, read = sum(kernel.written for kernel in update) / 1e9, sum(kernel.read for kernel in update) / 1e9
    print(f"{task}, {kernel}: {len(update)} kernels, {copies} copies, {written:.2f} GB written, {read:.2f} GB read")
    print(f"longest chain {max(each.depth for each in update)}; {len(around) - 1} around a loop of {bench.loop}")


class One(NamedTuple):
    """A kernel."""

    name: str
    kind: str
    depth: int  # place in the longest chain that leads to it
    written: int  # bytes
    read: int
    follows: str | None  # the one before it in that chain
    rest: str  # of its line


def over_updates(text: str) -> str:
    """The longest computation of a region: the body of the loop."""
    return max(re.findall(r"^%?region[\w.\-]* \([^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL), key=len)


def around_the_loop(text: str) -> str:
    (entry,) = re.findall(r"^ENTRY [^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return entry


def kernels_of(body: str) -> Iterator[One]:
    sizes: dict[str, int] = {}
    last: dict[str, tuple[int, str | None]] = {}  # the longest chain to a value: its length and its last kernel
    for line in body.splitlines():
        found = re.match(r"\s*(?:ROOT )?%([\w.\-]+) = (.*?) ([\w\-]+)\((.*?)\)(.*)", line)
        if found is None:
            continue
        name, shape, kind, operands, rest = found.groups()
        inputs = re.findall(r"%([\w.\-]+)", operands)
        sizes[name] = size(shape)
        last[name] = max((last.get(each, (0, None)) for each in inputs), default=(0, None), key=lambda chain: chain[0])
        if kind not in NO_KERNEL:
            depth, follows = last[name]
            last[name] = depth + 1, name
            read = sum(sizes.get(each, 0) for each in inputs)
            yield One(name, kind, depth + 1, sizes[name], read, follows, rest)


def show(kernels: list[One], text: str) -> None:
    named = {kernel.name: kernel for kernel in kernels}
    chain, at = set[str](), max(kernels, key=lambda kernel: kernel.depth).name
    while at is not None:
        chain.add(at)
        at = named[at].follows
    for kernel in kernels:
        mark, megabytes = (
            "*" if kernel.name in chain else " ",
            f"{kernel.written / 1e6:7.2f} {kernel.read / 1e6:8.2f} MB",
        )
        print(f"{mark}{kernel.depth:3d} {kernel.name[:44]:44s} {megabytes}  {', '.join(made_of(kernel, text))}")


def made_of(kernel: One, text: str) -> list[str]:
    """The operations that it has most of, by their names in JAX."""
    called = re.search(r"calls=%([\w.\-]+)", kernel.rest)
    inside = called and re.search(rf"^%{re.escape(called[1])} \(.*?^\}}", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r'op_name="([^"]*)"', (inside[0] if inside else "") + kernel.rest)
    return [name for name, _ in Counter(name.split("body/")[-1] for name in names).most_common(3)]


def size(shape: str) -> int:
    parts = re.findall(r"(\w+)\[([\d,]*)\]", shape)
    return sum(BYTES.get(kind, 0) * prod(int(n) for n in dims.split(",") if n) for kind, dims in parts)


if __name__ == "__main__":
    main(sys.argv[1], "fused" if "fused" in sys.argv else "plain")
