"""A graph as an ONNX file, which says what it is in its metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from calql import __version__
from calql.runs.export.graph import Graph, Node, Port
from calql.system.extras import extra

OPSET, IR_VERSION = 18, 8  # of 2022: runtimes of any age read them
DESCRIPTION, CHECKSUM = "description", "checksum"  # the keys of its metadata


def as_onnx(graph: Graph, description: Mapping[str, Any]) -> bytes:
    """The bytes of the file, checked by the rules of the format."""
    onnx = extra("onnx", "--to onnx")
    helper = onnx.helper
    body = helper.make_graph(
        [_node(onnx, node) for node in graph.nodes],
        "policy",
        [_port(onnx, port) for port in graph.inputs],
        [_port(onnx, port) for port in graph.outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    model = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="calql",
        producer_version=__version__,
        doc_string=description["what"],
    )
    words = {DESCRIPTION: json.dumps(description), CHECKSUM: hashlib.sha256(_bytes(body)).hexdigest()}
    helper.set_model_props(model, words)
    onnx.checker.check_model(model, full_check=True)
    return _bytes(model)


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _node(onnx: Any, node: Node) -> Any:
    attributes: dict[str, Any] = dict(node.attributes)
    if node.op == "Cast":
        attributes["to"] = _kind(onnx, attributes["to"])
    return onnx.helper.make_node(node.op, list(node.inputs), [node.output], **attributes)


def _port(onnx: Any, port: Port) -> Any:
    return onnx.helper.make_tensor_value_info(port.name, _kind(onnx, port.dtype), list(port.shape))


def _kind(onnx: Any, dtype: str) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
