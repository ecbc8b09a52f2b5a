"""Exported programs in terms of the ops that regions are made of.

torch.export's own `run_decompositions` traces a program twice, through wrappers in Python. Here a
program that writes to nothing is traced once, with torch's functionalization in C++: three to four
times as fast. Programs that write to inputs or buffers, or have graphs inside, go torch's way.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions
from torch.backends import mkldnn, nnpack
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Interpreter, Node, Proxy, map_arg
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.proxy import GraphAppendingTracer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from cpuaccel import _log
from cpuaccel._ops import resize as _resize_op  # noqa: F401  cpuaccel::resize
from cpuaccel.graph.tracing import check_time

_aten: Any = torch.ops.aten

# Ops of torch that are others underneath: those are what oneDNN's are made from.
_TAKEN_APART = (
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

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def decomposed(program: ExportedProgram) -> GraphModule:
    """Return a module that computes what `program` does, on its tensors, in ops of ATen.

    Sizes that are symbols stay symbols.

    Raises:
        Exception: what torch raises while it traces.
    """
    traced = _traced(program) if _is_plain(program) else None
    if traced is None or not _is_functional(traced):
        slow: Any = program.run_decompositions(dict(_table()))
        by_torch: GraphModule = slow.module(check_guards=False)
        return by_torch
    of_program: Any = program
    module: GraphModule = of_program.module(check_guards=False)
    codegen = module.graph._codegen
    module.graph = traced
    module.graph._codegen = codegen
    _read_attributes(module.graph, program)
    _sizes_of_inputs(module.graph)
    _group_norms(module.graph)
    _resizes(module.graph)
    _whole_slices(module.graph)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    known = torch.export.default_decompositions()
    return {op: known[op] for op in _TAKEN_APART if op in known}


@cache
def _table_below() -> dict[Any, Callable[..., Any]]:
    """Return the table for tracing below autograd, where batch norms are another op."""
    batch_norm: Any = decompositions.native_batch_norm_decomposition
    return {**_table(), _aten.native_batch_norm.default: batch_norm}


# Composite ops whose parts compute the same however their source lies. What others are made of may
# count on the layout that the trace saw, and a region may bring another.
_NAMES_OF_ANY_LAYOUT = (
    "conv1d conv2d conv3d conv_transpose2d linear matmul einsum scaled_dot_product_attention"
    " layer_norm group_norm batch_norm adaptive_avg_pool2d max_pool2d max_pool3d pad"
    " upsample_nearest2d upsample_bilinear2d softmax log_softmax relu6 prelu square true_divide"
    " where max min var std dropout feature_dropout type_as __and__ __or__ __xor__"
    " sym_size sym_stride sym_numel"
)
_OF_ANY_LAYOUT = frozenset(f"aten::{name}" for name in _NAMES_OF_ANY_LAYOUT.split())


def _is_plain(program: ExportedProgram) -> bool:
    """Say whether the graph is one of ops alone, on tensors that are all inputs of it."""
    kinds = (*_HELD, InputKind.USER_INPUT)
    return all(each.kind in kinds for each in program.graph_signature.input_specs) and all(
        node.op in ("placeholder", "output")
        or (node.op == "call_function" and not _hides_something(node.target))
        for node in program.graph.nodes
    )


def _hides_something(target: Any) -> bool:
    """Say whether a function holds a graph, or is made of ops that may count on a layout."""
    if isinstance(target, _Nested):
        return True
    if not isinstance(target, torch._ops.OpOverload):
        return False
    schema = target._schema
    is_of_views = any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))
    return (
        not is_of_views
        and schema.name not in _OF_ANY_LAYOUT
        and torch._C._dispatch_has_kernel_for_dispatch_key(str(target._name), _COMPOSITE)
    )


_COMPOSITE = "CompositeImplicitAutograd"
_Nested = torch._ops.HigherOrderOperator


def _traced(program: ExportedProgram) -> Graph | None:
    """Return the graph of `program` in ops of ATen; None where it cannot be traced so."""
    values = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    modes = [each.fake_mode for each in values if hasattr(each, "fake_mode")]
    if not modes:
        return None
    interpreter = _Interpreter(program.graph_module)

    def run(*inputs: Any) -> Any:
        with _NoConcreteSizes():  # type: ignore[no-untyped-call]
            return interpreter.run(*inputs, enable_io_processing=False)

    try:
        # aten::convolution would ask for sizes to choose among the libraries; export does the same.
        with modes[0], torch.no_grad(), mkldnn.flags(enabled=False), nnpack.flags(enabled=False):
            functional = torch.func.functionalize(run)
            return make_fx(functional, decomposition_table=_table_below())(*values).graph
    except TimeoutError:
        raise
    except Exception as error:  # what no kernel in C++ can trace, torch's own way may
        _log.logger.info("capture: traced the slow way: %s", _log.first_line(error))
        return None


class _Interpreter(Interpreter):
    """Runs a program; what torch's kernels in C++ cannot trace is another op here."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self._functional = _without_writing(module.graph)

    def run_node(self, n: Node) -> Any:
        if n in self._functional:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return self.call_function(self._functional[n], args, kwargs)
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(_TAKEN_APART_HERE.get(target, target), args, kwargs)


def _without_writing(graph: Graph) -> dict[Node, Any]:
    """Return ops that may stand for those in place: of what they write to nobody reads more.

    Torch's functionalization asks for numbers where an activation in place meets symbols.
    """
    found: dict[Node, Any] = {}
    fresh: set[Node] = set()
    seen: set[Node] = set()
    for node in graph.nodes:
        seen.add(node)
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            continue
        aliases = [each.alias_info for each in target._schema.returns if each.alias_info]
        if not aliases:
            fresh.add(node)
        src = node.args[0] if node.args else None
        functional = _functional_of(target)
        if functional is None or src not in fresh:
            continue
        if all(user in seen for user in src.users):
            found[node] = functional
            fresh.add(node)
    return found


def _functional_of(target: Any) -> Any:
    """Return the op of which `target` is the form in place; None if it is none."""
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
    # aten::linear asks for sizes as numbers.
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


_TAKEN_APART_HERE: dict[Any, Callable[..., Tensor]] = {
    _aten.linear.default: _linear,
    _aten.adaptive_avg_pool2d.default: _adaptive_avg_pool2d,
    # They ask for sizes as numbers. `_resizes` puts them back.
    _aten.upsample_nearest2d.vec: _nearest,
    _aten.upsample_bilinear2d.vec: _bilinear,
}


class _NoConcreteSizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what would make numbers of sizes that are symbols."""

    _ASKING = (_aten.size.default, _aten.stride.default)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        check_time()
        if func in self._ASKING:
            raise RuntimeError(
                f"{func} of sizes that are symbols: torch would make numbers of them"
            )
        return func(*args, **(kwargs or {}))


def _is_functional(graph: Graph) -> bool:
    """Say whether no op writes to anything: an input that is written to is copied to at the end."""
    nodes: Any = graph.nodes
    return not any(
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and node.target._schema.is_mutable
        for node in nodes
    )


def _read_attributes(graph: Graph, program: ExportedProgram) -> None:
    """Let inputs of `graph` that the program holds be attributes."""
    inputs: list[Node] = list(graph.find_nodes(op="placeholder"))
    for node, spec in zip(inputs, program.graph_signature.input_specs, strict=True):
        if spec.kind in _HELD:
            with graph.inserting_before(node):
                held = graph.get_attr(str(spec.target))
            held.meta = dict(node.meta)
            node.replace_all_uses_with(held)
            graph.erase_node(node)


def _sizes_of_inputs(graph: Graph) -> None:
    """Let sizes that are those of inputs, or are made of them, be made of them.

    Torch reads them from whichever tensor has them. A region cannot hold a node that needs the size
    of one of its own results.
    """
    nodes = graph.find_nodes(op="call_function", target=_aten.sym_size.int)
    read = {node: node.meta.get("val") for node in nodes}
    wanted = {node: size.node.expr for node, size in read.items() if isinstance(size, torch.SymInt)}
    if not wanted:
        return
    symbols = _symbols_of_inputs(graph)
    made: dict[Any, Node] = {}
    before = next(node for node in graph.nodes if node.op not in ("placeholder", "get_attr"))
    for node, expression in wanted.items():
        if not expression.free_symbols <= symbols.keys():
            continue
        if expression not in made:
            with graph.inserting_before(before):
                made[expression] = _made_of(expression, symbols, graph)
        node.replace_all_uses_with(made[expression])
    for node in reversed(list(wanted)):
        if not node.users:
            graph.erase_node(node)


def _symbols_of_inputs(graph: Graph) -> dict[Any, tuple[Node, int]]:
    """Return which dimension of an input is a symbol."""
    found: dict[Any, tuple[Node, int]] = {}
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        for dim, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found.setdefault(size.node.expr, (node, dim))
    return found


def _made_of(expression: Any, symbols: dict[Any, tuple[Node, int]], graph: Graph) -> Node:
    """Put what computes an expression of sizes of inputs into `graph`."""
    tracer = GraphAppendingTracer(graph)
    sizes = {
        symbol: Proxy(graph.call_function(_aten.sym_size.int, symbols[symbol]), tracer)
        for symbol in expression.free_symbols
    }
    proxy = sympy_interp(PythonReferenceAnalysis, sizes, expression)
    _give_value(proxy.node)
    made: Node = proxy.node
    return made


def _give_value(node: Node) -> Any:
    if "val" not in node.meta:
        function: Any = node.target
        node.meta["val"] = function(*map_arg(node.args, _give_value))
    return node.meta["val"]


def _group_norms(graph: Graph) -> None:
    """Let group norms be those that take any layout: aten::native_group_norm does not."""
    for node in graph.find_nodes(op="call_function", target=_aten.native_group_norm.default):
        src, weight, bias, _, _, _, groups, eps = node.args
        for result in [each for each in node.users if each.args[1] == 0]:
            with graph.inserting_before(result):
                norm = graph.call_function(
                    _aten.group_norm.default, (src, groups, weight, bias, eps)
                )
            norm.meta = dict(result.meta)
            result.replace_all_uses_with(norm)
            graph.erase_node(result)


def _resizes(graph: Graph) -> None:
    """Let images be resized by torch's ops, which those that read the graph know."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.cpuaccel.resize.default):
        src, size, scales, mode, align_corners = node.args
        if mode == "nearest":
            node.target, node.args = _aten.upsample_nearest2d.vec, (src, size, scales)
        else:
            node.target = _aten.upsample_bilinear2d.vec
            node.args = (src, size, align_corners, scales)


def _whole_slices(graph: Graph) -> None:
    """Take out slices of all there is, as x[:, 0] has one."""
    returned = set(graph.output_node().all_input_nodes)  # they are objects of their own
    for node in graph.find_nodes(op="call_function", target=_aten.slice.Tensor):
        given: list[Any] = [*node.args, *(0, None, None, 1)[len(node.args) - 1 :]]
        src, _, start, end, step = given
        is_whole = start in (0, None) and (end is None or end == sys.maxsize) and step == 1
        if is_whole and node not in returned and not node.kwargs:
            node.replace_all_uses_with(src)
            graph.erase_node(node)
