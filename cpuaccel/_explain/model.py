"""`explain`: walks a model and reports which library and kernel run each layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from cpuaccel import _engine_state, _native
from cpuaccel._compat import OpOverload, OpOverloadPacket
from cpuaccel._explain.choices import choices_footer
from cpuaccel._explain.compiled import compiled_rows, optimized_footer
from cpuaccel._explain.explanation import Explanation, Row
from cpuaccel._explain.fused import fused_footer, fused_rows, is_fused
from cpuaccel._explain.gnn import pyg_rows
from cpuaccel._explain.intx import intx_rows
from cpuaccel._explain.layers import (
    COMPUTE,
    IN_FLOAT,
    float_row,
    kernel_row,
    op_of_class,
    packed_rows,
    without_quint8,
)
from cpuaccel._explain.prepacked import not_packed_note, prepacked_rows
from cpuaccel._explain.torchao import torchao_rows
from cpuaccel._explain.torchscript import script_rows
from cpuaccel.config import ISAS

_HOLDERS = frozenset({"LinearPackedParams", "EmbeddingPackedParams", "PackedParameter"})
"""torch modules that only contain the packed weights of the module that they are in."""

_PASSIVE = frozenset({"Quantize", "DeQuantize", "Dropout", "FloatFunctional", "FXFloatFunctional"})

_WEIGHTS = "_packed_weight_"

_SATURATING = frozenset({"ref", "avx2", "avx512"})
"""x86 ISAs on which FBGEMM and oneDNN add products of bytes in 16 bits, which may saturate."""


def explain_model(model: nn.Module) -> Explanation:
    """Return what runs each layer of `model`. Layers that cpuaccel does not know get no row.

    Raises:
        TypeError: `model` is not a module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"cpuaccel.explain: model: expected a torch.nn.Module, got {type(model).__name__}"
        )
    walk = _Walk()
    walk.visit("", model)
    rows = walk.rows
    if not any(row.problem or "quantized" in row.op for row in rows):
        rows = list(without_quint8(rows))
    footer = [*fused_footer(rows, model), *optimized_footer(model), *_footer()]
    return Explanation(rows, footer)


class _Walk:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._seen: set[int] = set()

    def visit(self, path: str, module: nn.Module, reason: str = "") -> None:
        """Add the rows of `module` and its submodules. `reason`: why torch runs it, or ""."""
        if id(module) in self._seen:
            return
        self._seen.add(id(module))
        try:
            compiled = compiled_rows(module, path)
            if compiled is not None:
                self.rows.extend(compiled)
            elif isinstance(module, torch.jit.ScriptModule) and hasattr(module, "inlined_graph"):
                self.rows.extend(script_rows(path, module))
            elif isinstance(module, GraphModule):
                self._visit_graph(path, module)
            elif is_fused(module):
                self.rows.extend(fused_rows(path, module))
            else:
                self._visit_layer(path, module, reason)
        except Exception:
            # Attributes of a user's module may raise anything; such a module gets no row.
            return

    def _visit_layer(self, path: str, module: nn.Module, reason: str) -> None:
        self.rows.extend(pyg_rows(path, module))
        packed = list(_packed_in(module))
        for suffix, weights in packed:
            self.rows.extend(packed_rows(path + suffix, _op(module), weights))
        prepacked = list(prepacked_rows(path, module))
        self.rows.extend(prepacked)
        if not packed and not prepacked:
            self.rows.extend(
                replace(row, note=not_packed_note(module))
                for row in _torch_rows(path, module, reason)
            )
        for name, child in module.named_children():
            if type(child).__name__ not in _HOLDERS and name != "_all_weight_values":
                self.visit(_join(path, name), child)

    def _visit_graph(self, path: str, module: GraphModule) -> None:
        for node in module.graph.nodes:
            if node.op == "call_module":
                reason = IN_FLOAT if _in_float(node) else ""
                target = str(node.target)
                self.visit(_join(path, target), module.get_submodule(target), reason)
            elif node.op in ("call_function", "call_method"):
                self.rows.extend(_node_rows(path, module, node))


def _packed_in(module: nn.Module) -> Iterator[tuple[str, torch.ScriptObject]]:
    """Yield the packed weights of `module`, each with a suffix for its path."""
    for name, value in vars(module).items():
        if isinstance(value, torch.ScriptObject):
            yield "" if name == "_packed_params" else f".{name.removeprefix(_WEIGHTS)}", value
    for name, child in module.named_children():
        if name == "_all_weight_values":
            for index, cell in child.named_children():
                yield from ((f"[{index}]", value) for _, value in _packed_in(cell))
        elif type(child).__name__ in _HOLDERS:
            yield from (("", value) for _, value in _packed_in(child))


def _torch_class(module: nn.Module) -> tuple[str, str]:
    """Return the namespace and name of the torch class that `module` has or is derived from."""
    for cls in type(module).__mro__[:-1]:
        if cls is not nn.Module and cls.__module__.startswith(("torch.nn.", "torch.ao.nn.")):
            return cls.__module__, cls.__name__
    return "", ""


def _op(module: nn.Module) -> str:
    namespace, name = _torch_class(module)
    holder = getattr(module, "_packed_params", None)
    fp16 = getattr(holder, "dtype", None) == torch.float16
    return op_of_class(name, ".dynamic." in namespace, fp16)


def _torch_rows(path: str, module: nn.Module, reason: str) -> Iterator[Row]:
    namespace, name = _torch_class(module)
    if ".quantized." in namespace and ".reference." not in namespace:
        if name not in _PASSIVE and not any(module.children()):
            yield kernel_row(path, f"nn.quantized.{name}", name, reason)
    elif rows := list(torchao_rows(path, f"nn.{name}", module)) or list(intx_rows(path, module)):
        yield from rows
    elif namespace and any(True for _ in module.parameters(recurse=False)):
        yield float_row(path, f"nn.{name}", name, reason)
    elif namespace in ("torch.nn.modules.activation", "torch.nn.modules.pooling"):
        yield kernel_row(path, f"nn.{name}", name, reason)


def _node_rows(path: str, module: GraphModule, node: Node) -> Iterator[Row]:
    op, name = _function(node)
    if name.startswith(("quantize_per", "dequantize")):
        return
    packed = [
        (str(source.target), value)
        for source in node.all_input_nodes
        if source.op == "get_attr"
        and isinstance(value := _attribute(module, str(source.target)), torch.ScriptObject)
    ]
    for target, value in packed:
        yield from packed_rows(_join(path, target), op, value)
    if packed:
        return
    layer = _join(path, node.name)
    if _in_float(node):
        yield kernel_row(layer, op, op, IN_FLOAT)
    elif op.startswith("quantized::") or (name in COMPUTE and _has_tensors(node)):
        yield kernel_row(layer, op, op)


def _function(node: Node) -> tuple[str, str]:
    """Return the op that a node calls, with its namespace if it has one, and its bare name."""
    target: Any = node.target
    if isinstance(target, str):
        return target, target
    if isinstance(target, OpOverload):
        op = str(target._schema.name)
    elif isinstance(target, OpOverloadPacket):
        op = str(target._qualified_op_name)
    else:
        op = str(target.__name__)
        # Functions that torch selects by an argument, such as max_pool2d, may be named fn.
        if op == "fn":
            op = node.name.rstrip("0123456789_") if node.name[-1].isdigit() else node.name
    return op, op.rpartition("::")[2]


def _in_float(node: Node) -> bool:
    return node.op != "output" and any(
        source.op == "call_method" and source.target == "dequantize"
        for source in node.all_input_nodes
    )


def _has_tensors(node: Node) -> bool:
    """Return whether a node works on tensors, and not on sizes, as far as the graph shows."""
    return not any(
        source.op == "call_method" and source.target in ("size", "dim")
        for source in node.all_input_nodes
    )


def _attribute(module: nn.Module, target: str) -> object:
    value: object = module
    for name in target.split("."):
        value = getattr(value, name, None)
    return value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _footer() -> Iterator[str]:
    native = _native.native()
    if not _engine_state.is_enabled():
        yield f"cpuaccel is off: {_engine_state.why_off()}"
    if native is None:
        return
    stats = native.stats()
    yield f"Calls in this process: {_counts(stats['calls'])}."
    yield f"Fallbacks to torch: {_counts(stats['fallbacks'])}."
    yield from choices_footer(native)
    if native.isa() in _SATURATING and "avx2" in ISAS:
        yield (
            "This CPU has no VNNI, or CPUACCEL_MAX_ISA disables it. Calls whose activations use all"
            " 8 bits run on cpuaccel's kernels, because FBGEMM's and oneDNN's can saturate then."
            " With reduce_range=True, the default of the x86 engine, nearly all calls run on"
            " FBGEMM or oneDNN."
        )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
