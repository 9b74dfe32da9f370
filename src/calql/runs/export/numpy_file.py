"""A graph as an .npz archive, which `numpy_policy.py` acts with: numbers and words, no code."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from calql.runs.export.graph import Graph
from calql.runs.export.numpy_policy import CONSTANT, DESCRIPTION, checksum


def as_npz(graph: Graph, description: Mapping[str, Any]) -> bytes:
    """The bytes of the file."""
    arrays = {CONSTANT + name: np.asarray(array) for name, array in graph.constants.items()}
    program = [{**vars(node), "attributes": dict(node.attributes)} for node in graph.nodes]
    words = json.loads(json.dumps({**description, "program": program}))  # as it will be read
    words["checksum"] = checksum(words, arrays)
    text = np.frombuffer(json.dumps(words).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **{DESCRIPTION: text, **arrays})  # type: ignore[arg-type]  # no array is called allow_pickle
    return file.getvalue()
