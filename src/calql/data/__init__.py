"""Data in: one columnar form, its readers and writers, and the return-to-go."""

from calql.data.actions import normalise_actions
from calql.data.check import check
from calql.data.choices import one_hot
from calql.data.convert import write
from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Dataset, concatenate
from calql.data.formats.minari import read_minari, write_minari
from calql.data.formats.npz import read_npz_arrays
from calql.data.inspect import Description, describe, render
from calql.data.jumps import split_at_jumps
from calql.data.load import load
from calql.data.packing import pack_observations
from calql.data.reading import Reading
from calql.data.returns import possible_returns, return_to_go
from calql.data.write import write_npz

__all__ = [
    "Dataset",
    "Description",
    "Reading",
    "check",
    "concatenate",
    "describe",
    "from_d4rl_arrays",
    "load",
    "normalise_actions",
    "one_hot",
    "pack_observations",
    "possible_returns",
    "read_minari",
    "read_npz_arrays",
    "render",
    "return_to_go",
    "split_at_jumps",
    "write",
    "write_minari",
    "write_npz",
]
