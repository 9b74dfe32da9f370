"""Packages that not everybody needs, the extras of `pyproject.toml`: imported when they are used.

Whoever lacks one reads in one line how to get it. No module of this package needs one to be imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from calql.system.errors import UserError

EXTRAS: Mapping[str, str] = {  # the package as it is imported, and the extra that brings it
    "av": "formats",
    "flatbuffers": "export",
    "gymnasium_robotics": "domains",
    "imageio": "films",
    "minari": "minari",
    "mujoco": "domains",
    "onnx": "export",
    "pyarrow": "formats",
    "ray": "ray",
    "submitit": "slurm",
    "tensorboardX": "tensorboard",
    "wandb": "wandb",
    "zarr": "formats",
}


def extra(module: str, what: str) -> ModuleType:
    """A module of an extra, for `what`."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:  # a defect of the package that was found, and not its absence
            raise
        mend = f"pip install 'calql[{EXTRAS[package]}]'"
        raise UserError(f"{what} needs the package {package}, which is not installed", mend=mend) from None


class Extra:
    """A module of an extra under a name at the top of a file: imported when something of it is first used."""

    def __init__(self, module: str, what: str) -> None:
        self._module, self._what = module, what

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of any object is no use of the module
            raise AttributeError(name)
        found = getattr(extra(self._module, self._what), name)
        setattr(self, name, found)  # found at once from now on
        return found
