"""Rows of `explain` for a TorchScript module, read from its graph with all calls inlined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from cpuaccel._explain.explanation import Row
from cpuaccel._explain.layers import (
    COMPUTE,
    FUSED_KERNEL,
    IN_FLOAT,
    float_row,
    is_packed_type,
    kernel_row,
    packed_rows,
)

_PACKING = ("_prepack", "_unpack")
_HOLDER_ATTRIBUTES = ("._packed_params", ".param")
_CELLS = "._all_weight_values."
_FLOAT16 = 5  # torch.float16, as TorchScript stores it


def script_rows(path: str, module: torch.jit.ScriptModule) -> Iterator[Row]:
    """Yield what runs each layer of `module`, in the order of its forward."""
    seen: set[str] = set()
    for node in _nodes(module.inlined_graph):
        packed = [value for value in node.inputs() if is_packed_type(_type(value))]
        for value in packed:
            target = _target(value)
            weights = _weights(module, value, target)
            if weights is not None and target not in seen:
                seen.add(target)
                yield from packed_rows(_layer(path, target), _op(module, node, target), weights)
        if not packed:
            yield from _torch_rows(path, node)


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _type(value: Any) -> str:
    return str(value.type().annotation_str)


def _target(value: Any) -> str:
    """Return the path of an attribute in the module. In frozen modules it is the value's name."""
    names: list[str] = []
    while value.node().kind() == "prim::GetAttr":
        names.insert(0, value.node().s("name"))
        value = next(value.node().inputs())
    return ".".join(names) or value.debugName().removeprefix("self.")


def _weights(module: Any, value: Any, target: str) -> torch.ScriptObject | None:
    if value.node().kind() == "prim::Constant":
        found = value.toIValue()
    elif value.node().kind() == "prim::GetAttr":
        found = module._c
        for name in target.split("."):
            found = found.getattr(name)
    else:
        return None
    return found if isinstance(found, torch.ScriptObject) else None


def _layer(path: str, target: str) -> str:
    for suffix in _HOLDER_ATTRIBUTES:
        while target.endswith(suffix):
            target = target.removesuffix(suffix)
    owner, cells, index = target.partition(_CELLS)
    layer = f"{owner}[{index}]" if cells else target.replace("._packed_weight_", ".")
    return ".".join(name for name in (path, layer) if name)


def _op(module: Any, node: Any, target: str) -> str:
    """Return the op that runs on packed weights whose first user is `node`."""
    if _CELLS in target:
        return _user_of_list(node)
    kind = str(node.kind())
    holder = _find(module, target.rpartition(".")[0])
    # The graph has both kinds of dynamic linear, in branches on the dtype of the weights.
    if kind == "quantized::linear_dynamic" and getattr(holder, "dtype", None) == _FLOAT16:
        return f"{kind}_fp16"
    return kind if kind.startswith(("quantized::", "cpuaccel::")) else ""


def _user_of_list(node: Any) -> str:
    """Return the recurrent op that takes the list of cells that `node` builds or appends to."""
    cells = next(node.inputs() if node.kind() == "aten::append" else node.outputs())
    users = (str(use.user.kind()) for use in cells.uses())
    return next((kind for kind in users if kind.startswith("aten::quantized_")), "")


def _find(module: Any, target: str) -> Any:
    for name in target.split("."):
        module = getattr(module, name, None)
    return module


def _torch_rows(path: str, node: Any) -> Iterator[Row]:
    kind = str(node.kind())
    namespace, _, name = kind.partition("::")
    if "Tensor" not in [_type(value) for value in node.outputs()] or name.endswith(_PACKING):
        return
    inputs = list(node.inputs())
    if namespace == "cpuaccel":
        yield Row(_place(path, node), kind, "cpuaccel", reason=FUSED_KERNEL)
    elif namespace == "quantized":
        yield kernel_row(_place(path, node), kind, kind)
    elif namespace == "aten" and name in COMPUTE:
        weight = next((value for value in inputs[1:] if _target(value).endswith("weight")), None)
        if weight is not None:
            layer = _layer(path, _target(weight).rpartition(".")[0])
            yield float_row(layer, kind, name)
        else:
            in_float = any(value.node().kind() == "aten::dequantize" for value in inputs)
            yield kernel_row(_place(path, node), kind, kind, IN_FLOAT if in_float else "")


def _place(path: str, node: Any) -> str:
    """Return the module that a traced node comes from, else the name of its result."""
    scope = str(node.scopeName()).rpartition("/")[2].removeprefix("__module.")
    name = next(node.outputs()).debugName().partition(".")[0]
    return ".".join(part for part in (path, scope or f"%{name}") if part)
