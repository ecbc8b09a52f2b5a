"""Decomposes exported programs into the ATen ops that regions are made of.

torch.export's own `run_decompositions` traces a program twice, through Python wrappers. Here a
program without mutations is traced once, with torch's functionalization in C++: three to four times
as fast. Programs that mutate inputs or buffers, or that contain subgraphs, go through
`run_decompositions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.backends import nnpack
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx

from cpuaccel import _log
from cpuaccel._compat import (
    HigherOrderOperator,
    OpOverload,
    TorchDispatchMode,
    decompositions,
    has_kernel_for_key,
    is_traceable_wrapper_subclass,
    without_onednn,
)
from cpuaccel._ops import resize as _resize_op  # noqa: F401  cpuaccel::resize
from cpuaccel.compile.capture import normalize
from cpuaccel.compile.capture.repeated_layers import RepeatedLayers
from cpuaccel.compile.capture.torch_export import check_time

_aten: Any = torch.ops.aten

# Composite ops. Regions are made from the ops that they decompose into.
_DECOMPOSED_OPS = (
    _aten.conv1d.default,
    _aten.conv2d.default,
    _aten.conv2d.padding,
    _aten.conv3d.default,
    _aten.conv_transpose2d.input,
    _aten.linear.default,
    _aten.matmul.default,
    _aten.layer_norm.default,
    _aten.adaptive_avg_pool2d.default,
    _aten.max_pool2d.default,
    _aten.scaled_dot_product_attention.default,
)

_ATTRIBUTE_INPUTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def decomposed(program: ExportedProgram, repeated: RepeatedLayers | None = None) -> GraphModule:
    """Return a module that computes what `program` does, on its tensors, in ATen ops.

    Symbolic sizes stay symbolic. `repeated`: the layers that are one op each in the program.

    Raises:
        NotRepeated: these layers cannot be copied.
        Exception: what torch raises while it traces.
    """
    if repeated is not None:
        repeated.check(program.graph)
    traced = _traced(program) if _is_plain(program) else None
    if traced is None or not _is_functional(traced):
        slow: Any = program.run_decompositions(dict(_table()))
        by_torch: GraphModule = slow.module(check_guards=False)
        if repeated is not None:
            repeated.paste(by_torch.graph)
            by_torch.recompile()
        return by_torch
    of_program: Any = program
    module: GraphModule = of_program.module(check_guards=False)
    codegen = module.graph._codegen
    module.graph = traced
    module.graph._codegen = codegen
    _read_attributes(module.graph, program)
    if repeated is not None:
        repeated.paste(module.graph)
    normalize.sizes_of_inputs(module.graph)
    normalize.group_norms(module.graph)
    normalize.resizes(module.graph)
    normalize.full_slices(module.graph)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    known = torch.export.default_decompositions()
    return {op: known[op] for op in _DECOMPOSED_OPS if op in known}


@cache
def _table_below() -> dict[Any, Callable[..., Any]]:
    """Return the table for tracing below autograd, where batch norm is another op."""
    batch_norm: Any = decompositions.native_batch_norm_decomposition
    return {**_table(), _aten.native_batch_norm.default: batch_norm}


# Composite ops whose decompositions are right for any layout of the source. Those of other ops may
# depend on the layout that the trace saw, and a region may pass another one.
_NAMES_OF_ANY_LAYOUT = (
    "conv1d conv2d conv3d conv_transpose2d linear matmul einsum scaled_dot_product_attention"
    " layer_norm group_norm batch_norm adaptive_avg_pool2d max_pool2d max_pool3d pad"
    " upsample_nearest2d upsample_bilinear2d softmax log_softmax relu6 prelu square true_divide"
    " where max min var std dropout feature_dropout type_as __and__ __or__ __xor__"
    " sym_size sym_stride sym_numel"
)
_OF_ANY_LAYOUT = frozenset(f"aten::{name}" for name in _NAMES_OF_ANY_LAYOUT.split())


def _is_plain(program: ExportedProgram) -> bool:
    """Say whether the graph consists of ops only, and all its tensors are plain inputs."""
    kinds = (*_ATTRIBUTE_INPUTS, InputKind.USER_INPUT)
    return all(each.kind in kinds for each in program.graph_signature.input_specs) and all(
        # torchao's weights are tensors of tensors, which run_decompositions takes apart.
        (node.op == "placeholder" and not is_traceable_wrapper_subclass(node.meta.get("val")))
        or node.op == "output"
        or (node.op == "call_function" and not _hides_something(node.target))
        for node in program.graph.nodes
    )


def _hides_something(target: Any) -> bool:
    """Say whether a function holds a graph, or decomposes into ops that may depend on a layout."""
    if isinstance(target, _Nested):
        return True
    if not isinstance(target, OpOverload):
        return False
    schema = target._schema
    is_of_views = any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))
    return (
        not is_of_views
        and schema.name not in _OF_ANY_LAYOUT
        and has_kernel_for_key(str(target._name), _COMPOSITE)
    )


_COMPOSITE = "CompositeImplicitAutograd"
_Nested = HigherOrderOperator


def _traced(program: ExportedProgram) -> Graph | None:
    """Return the graph of `program` in ATen ops; None if it cannot be traced this way."""
    values = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    modes = [each.fake_mode for each in values if hasattr(each, "fake_mode")]
    if not modes:
        return None
    interpreter = _Interpreter(program.graph_module)

    def run(*inputs: Any) -> Any:
        with _NoConcreteSizes():  # type: ignore[no-untyped-call]
            return interpreter.run(*inputs, enable_io_processing=False)

    try:
        # aten::convolution would read sizes to choose a library; torch.export turns these off too.
        with modes[0], torch.no_grad(), without_onednn(), nnpack.flags(enabled=False):
            functional = torch.func.functionalize(run)
            return make_fx(functional, decomposition_table=_table_below())(*values).graph
    except TimeoutError:
        raise
    except Exception as error:  # run_decompositions may trace what the C++ kernels cannot
        _log.logger.info(
            "capture: torch.export decomposes this model instead: %s", _log.first_line(error)
        )
        return None


class _Interpreter(Interpreter):
    """Runs a program; replaces ops that torch's C++ kernels cannot trace."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self._functional = _functional_forms(module.graph)

    def run_node(self, n: Node) -> Any:
        if n in self._functional:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return self.call_function(self._functional[n], args, kwargs)
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(_REPLACEMENTS.get(target, target), args, kwargs)


def _functional_forms(graph: Graph) -> dict[Node, Any]:
    """Return functional ops for in-place ops whose memory no other node reads afterwards.

    torch's functionalization specializes symbolic sizes at an in-place activation.
    """
    found: dict[Node, Any] = {}
    fresh: set[Node] = set()  # nodes with memory of their own
    seen: set[Node] = set()
    for node in graph.nodes:
        seen.add(node)
        if not isinstance(node.target, OpOverload):
            continue
        src = node.args[0] if node.args else None
        functional = _functional_of(node.target)
        if functional is not None and src in fresh:
            others = src.users.keys() - {node}
            if others <= seen and not any(_may_be_view(each, found) for each in others):
                found[node] = functional
        if not _may_be_view(node, found):
            fresh.add(node)
    return found


# Composite ops that may return their source, or a view of it, although their schemas do not say so.
_SILENT_VIEWS = frozenset(
    f"aten::{name}" for name in ("dropout", "feature_dropout", "type_as", "einsum")
)


def _may_be_view(node: Node, functional: Collection[Node]) -> bool:
    """Say whether a result may share memory with a source; nodes of `functional` do not."""
    if node in functional:
        return False
    target = node.target
    if not isinstance(target, OpOverload):
        return True
    schema = target._schema
    return schema.name in _SILENT_VIEWS or any(each.alias_info for each in schema.returns)


def _functional_of(target: Any) -> Any:
    """Return the functional form of an in-place op; None if `target` has none."""
    name, overload = target._schema.name.removeprefix("aten::"), target._overloadname
    arguments = target._schema.arguments
    is_written = [each.alias_info is not None and each.alias_info.is_write for each in arguments]
    if not name.endswith("_") or is_written != [True] + [False] * (len(arguments) - 1):
        return None
    found = getattr(getattr(_aten, name[:-1], None), overload, None)
    if found is None or [each.name for each in found._schema.arguments] != [
        each.name for each in arguments
    ]:
        return None
    return found


def _linear(src: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    # aten::linear specializes symbolic sizes.
    if src.dim() < 2:
        found: Tensor = _aten.linear.default(src, weight, bias)
        return found
    *leading, K = src.shape
    rows = src if len(leading) == 1 else _aten.reshape(src, [math.prod(leading), K])
    columns = _aten.t(weight)
    dst: Tensor = _aten.mm(rows, columns) if bias is None else _aten.addmm(bias, rows, columns)
    return dst if len(leading) == 1 else _aten.view(dst, [*leading, weight.shape[0]])


def _adaptive_avg_pool2d(src: Tensor, output_size: list[int]) -> Tensor:
    # aten::adaptive_avg_pool2d changes the strides of its result in place.
    if list(output_size) == [1, 1]:
        mean: Tensor = _aten.mean(src, [-1, -2], True)
        return mean
    pooled: Tensor = _aten._adaptive_avg_pool2d(src, output_size)
    return pooled


def _nearest(src: Tensor, size: Any, scales: Any) -> Tensor:
    resized: Tensor = torch.ops.cpuaccel.resize.default(src, size, scales, "nearest", False)
    return resized


def _bilinear(src: Tensor, size: Any, align_corners: bool, scales: Any) -> Tensor:
    resize = torch.ops.cpuaccel.resize.default
    resized: Tensor = resize(src, size, scales, "bilinear", align_corners)
    return resized


_REPLACEMENTS: dict[Any, Callable[..., Tensor]] = {
    _aten.linear.default: _linear,
    _aten.adaptive_avg_pool2d.default: _adaptive_avg_pool2d,
    # They specialize symbolic sizes. `normalize.resizes` restores these ops.
    _aten.upsample_nearest2d.vec: _nearest,
    _aten.upsample_bilinear2d.vec: _bilinear,
}


class _NoConcreteSizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises if an op would specialize symbolic sizes. It checks the time limit at each op."""

    _ASKING = (_aten.size.default, _aten.stride.default)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        check_time()
        if func in self._ASKING:
            raise RuntimeError(f"{func} would specialize symbolic sizes")
        return func(*args, **(kwargs or {}))


def _is_functional(graph: Graph) -> bool:
    """Say whether no op mutates anything: a mutated input has a copy_ at the end of the graph."""
    nodes: Any = graph.nodes
    return not any(
        node.op == "call_function"
        and isinstance(node.target, OpOverload)
        and node.target._schema.is_mutable
        for node in nodes
    )


def _read_attributes(graph: Graph, program: ExportedProgram) -> None:
    """Turn inputs of `graph` that the program holds into attributes."""
    inputs: list[Node] = list(graph.find_nodes(op="placeholder"))
    for node, spec in zip(inputs, program.graph_signature.input_specs, strict=True):
        if spec.kind in _ATTRIBUTE_INPUTS:
            with graph.inserting_before(node):
                held = graph.get_attr(str(spec.target))
            held.meta = dict(node.meta)
            node.replace_all_uses_with(held)
            graph.erase_node(node)
