"""Count the kernels of one update, and the bytes they write and read, in what XLA compiles for an H200.

Needs no card but the packages jax-cuda12-plugin, jax-cuda12-pjrt and nvidia-cuda-nvcc-cu12, in the version of jax:

    JAX_PLATFORMS=cpu XLA_FLAGS=--xla_gpu_autotune_level=0 python docs/figures/kernels.py antmaze fused [SEEDS]

Without a card nothing is tuned, so a program there may have other kernels; bytes are those of results and operands.
With MOSAIC_GPU_DUMP_PTXAS=1 and MOSAIC_GPU_DUMP_TO=FOLDER, which has to exist, the assembler's report on each kernel of
ours is there too: registers, and what it spills to memory.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import prod
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
    kernels = list(of_update(text))
    copies = sum(kind == "copy" for kind, _, _ in kernels)
    written, read = sum(size for _, size, _ in kernels) / 1e9, sum(size for _, _, size in kernels) / 1e9
    print(f"{task}, {kernel}: {len(kernels)} kernels, {copies} copies, {written:.2f} GB written, {read:.2f} GB read")


def of_update(text: str) -> Iterator[tuple[str, int, int]]:
    """What each kernel is, writes and reads, in the longest computation: the body of the loop over updates."""
    bodies = re.findall(r"^%?region[\w.\-]* \([^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    sizes: dict[str, int] = {}
    for line in max(bodies, key=len).splitlines():
        found = re.match(r"\s*(?:ROOT )?%([\w.\-]+) = (.*?) ([\w\-]+)\((.*?)\)", line)
        if found is None:
            continue
        name, shape, kind, operands = found.groups()
        sizes[name] = size(shape)
        if kind not in NO_KERNEL:
            yield kind, sizes[name], sum(sizes.get(operand, 0) for operand in re.findall(r"%([\w.\-]+)", operands))


def size(shape: str) -> int:
    parts = re.findall(r"(\w+)\[([\d,]*)\]", shape)
    return sum(BYTES.get(kind, 0) * prod(int(n) for n in dims.split(",") if n) for kind, dims in parts)


if __name__ == "__main__":
    main(sys.argv[1], "fused" if "fused" in sys.argv else "plain")
