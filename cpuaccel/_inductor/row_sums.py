"""Rewrites sums of rows by an index in Inductor's graphs: scatter_add, index_put, scatter_reduce.

Inductor turns them into compare-and-swap loops. Here they become

- cpuaccel::index_sum if the summands are rows of another tensor, read by an index and scaled by
  at most one number each: message passing, forward and backward, without the messages;
- torch's own op in all other cases that cpuaccel's eager kernel supports.

The rule of the graph's op says which values an index may have: index and index_put take negative
ones, gather and the scatter ops reject them. index_sum gets the names of these ops. Inductor
decomposes index_select and index_add to index and index_put before this pass, also without
cpuaccel, and so drops their rules. The node's `original_aten` still names them, but Inductor's key
for cached graphs does not include it.

scatter_reduce with mean, amax and amin needs no rewrite: Inductor calls torch's op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel import _native
from cpuaccel._inductor.nodes import call, keep_origin
from cpuaccel._ops import fused_gnn as _fused_gnn_ops  # noqa: F401  the fake kernel of index_sum

_aten: Any = torch.ops.aten
_TYPES = (torch.float32, torch.float64)
_INDICES = (torch.int32, torch.int64)
_LEAST_COLUMNS = 4
"""With fewer columns the messages are about as small as what index_sum caches for an index."""

_VIEWS = (_aten.reshape.default, _aten.view.default, _aten.unsqueeze.default)


@dataclass(frozen=True)
class RowSum:
    """result = base, and then result[index[e]] += summands[e] for each e."""

    base: Node
    index: Node
    """One number for each row of `summands`. It has one dimension, except for index_put."""
    summands: Node
    scatter_op: str
    """The op that reads the index; csrc/ops/gnn/index_rule.cpp has the rule of each name."""


@dataclass(frozen=True)
class Messages:
    """summands[e] = x[index[e]], times weight[e] if there is one; x is [N, K] or [N, heads, K]."""

    x: Node
    index: Node
    weight: Node | None
    """Shape [E, 1] or [E, heads, 1]."""
    gather_op: str
    """The op that reads the index; csrc/ops/gnn/index_rule.cpp has the rule of each name."""


def rewrite(graph: Graph) -> None:
    """Replace the sums that cpuaccel's kernels support in a graph of ATen ops after autograd.

    Other sums are counted as fallbacks of "inductor.<op>".
    """
    for node in list(graph.nodes):
        match = _MATCHES.get(node.target) if node.op == "call_function" else None
        row_sum = match(node) if match else ""
        if isinstance(row_sum, str):
            if row_sum:
                op = node.target.overloadpacket._qualified_op_name.removeprefix("aten::")
                _native.load().count_fallback(f"inductor.{op}", row_sum)
            continue
        messages = _messages(row_sum)
        if messages is not None:
            _fuse(node, row_sum, messages)
        else:
            _call_torch(node, row_sum)
    graph.eliminate_dead_code()


# Matching


# Each function returns a RowSum; the reason for a fallback; or "" if the node adds nothing by an
# index. The reasons are those of the eager ops: csrc/ops/reasons.h.


def _of_scatter_add(node: Node) -> RowSum | str:
    base, dim, index, summands = node.args
    return _row_sum(base, dim, _rows_index(index), summands, "scatter_add")


def _of_scatter_reduce(node: Node) -> RowSum | str:
    base, dim, index, summands, reduce = node.args
    if reduce != "sum":
        return ""
    if not node.kwargs.get("include_self", True):
        return "include_self=False"
    return _row_sum(base, dim, _rows_index(index), summands, "scatter_reduce")


def _of_index_put(node: Node) -> RowSum | str:
    base, indices, summands, *accumulate = node.args
    if not (accumulate and accumulate[0]):
        return ""
    if len(indices) != 1:  # type: ignore[arg-type]
        return "unsupported indices"
    return _row_sum(base, 0, indices[0], summands, "index_put")  # type: ignore[index]


_MATCHES: dict[Any, Callable[[Node], RowSum | str]] = {
    _aten.scatter_add.default: _of_scatter_add,
    _aten.scatter_reduce.two: _of_scatter_reduce,
    _aten.index_put.default: _of_index_put,
    _aten._unsafe_index_put.default: _of_index_put,
}


def _row_sum(base: Any, dim: Any, index: Any, summands: Any, op: str) -> RowSum | str:
    dst, numbers, values = _tensor(base), _tensor(index), _tensor(summands)
    if dst is None or values is None:
        return "unsupported layout"
    if dst.dim() == 0 or dim not in (0, -dst.dim()):
        return "not along dimension 0"
    if numbers is None:
        return "an index for each element, not for each row"
    if dst.dtype not in _TYPES or values.dtype != dst.dtype or numbers.dtype not in _INDICES:
        return "unsupported dtype"
    if numbers.dim() == 0 or not _same(values.shape, (*numbers.shape, *dst.shape[1:])):
        return "unsupported shape"
    return RowSum(base, index, summands, op)


def _rows_index(node: Any) -> Any:
    """Return the one-dimensional index that `node` expands along rows, or None."""
    index = _tensor(node)
    while index is not None and index.dim() > 1:
        if node.target not in (*_VIEWS, _aten.expand.default):
            return None
        source = _tensor(node.args[0])
        if source is None or not _same(source.shape[:1], index.shape[:1]):
            return None
        if node.target is _aten.expand.default and source.dim() != index.dim():
            return None
        # Columns are broadcast or have size 1; before an expand they have size 1.
        if any(not _is(size, 1) for size in source.shape[1:]):
            return None
        node, index = node.args[0], source
    return None if index is None else _unexpanded(node)


def _messages(row_sum: RowSum) -> Messages | None:
    summands, index = row_sum.summands, row_sum.index.meta["val"]
    x = _tensor(summands) if index.dim() == 1 else None
    # Messages that a backward graph keeps anyway are read once more at no cost.
    if x is None or x.dim() not in (2, 3) or any(user.op == "output" for user in summands.users):
        return None
    columns = x.shape[1:]
    if statically_known_true(columns.numel() < _LEAST_COLUMNS):
        return None
    # _fuse() flattens the heads and splits them again, which needs known sizes.
    if len(columns) == 2 and not all(isinstance(size, int) and size for size in columns):
        return None
    gathered = _gathered(summands, x)
    if gathered is not None:
        source, numbers, op = gathered
        return Messages(source, numbers, None, op)
    if summands.target is not _aten.mul.Tensor:
        return None
    for rows, weight in (summands.args, summands.args[::-1]):
        gathered = _gathered(rows, x)
        if gathered is not None and _is_column(weight, x):
            source, numbers, op = gathered
            return Messages(source, numbers, weight, op)  # type: ignore[arg-type]
    return None


def _gathered(node: Any, summands: Tensor) -> tuple[Node, Node, str] | None:
    """Return x, its 1-D index and the op if `node` is rows of x with the shape of `summands`."""
    rows = _tensor(node)
    if rows is None or rows.dtype != summands.dtype or not _same(rows.shape, summands.shape):
        return None
    node = _unexpanded(node)
    if node.target in (_aten.index.Tensor, _aten._unsafe_index.Tensor):
        x, indices = node.args
        index = indices[0] if len(indices) == 1 else None
        op = "index"
    elif node.target in (_aten.gather.default, _aten.index_select.default):
        x, dim, index = node.args[:3]
        if dim not in (0, -rows.dim()):
            return None
        index = _rows_index(index)
        op = node.target.overloadpacket.__name__
        read = _tensor(x)
        if read is None or not _same(read.shape[1:], rows.shape[1:]):
            return None
    else:
        return None
    read, numbers = _tensor(x), _tensor(index)
    if read is None or numbers is None or read.dim() != rows.dim() or numbers.dim() != 1:
        return None
    return (x, index, op) if numbers.dtype in _INDICES else None  # type: ignore[return-value]


def _unexpanded(node: Node) -> Node:
    """Skip expand nodes that do not change the size."""
    while node.target is _aten.expand.default:
        source, expanded = _tensor(node.args[0]), _tensor(node)
        if source is None or expanded is None or not _same(source.shape, expanded.shape):
            break
        node = node.args[0]  # type: ignore[assignment]
    return node


def _is_column(node: Any, rows: Tensor) -> bool:
    weight = _tensor(node)
    return (
        weight is not None
        and weight.dtype == rows.dtype
        and _same(weight.shape, (*rows.shape[:-1], 1))
    )


def _tensor(node: Any) -> Tensor | None:
    """Return the fake value of `node` if it is a dense tensor on the CPU, else None."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        return None
    return value if value.device.type == "cpu" else None


def _same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(_is(x, y) for x, y in zip(a, b, strict=True))


def _is(a: Any, b: Any) -> bool:
    same: bool = statically_known_true(a == b)  # without a guard
    return same


# Rewriting


def _fuse(node: Node, row_sum: RowSum, messages: Messages) -> None:
    graph = node.graph
    with graph.inserting_before(node):
        x, weight = messages.x, messages.weight
        sizes = row_sum.base.meta["val"].shape[1:]
        if len(sizes) == 2:
            x = call(graph, _aten.reshape.default, x, [-1, sizes.numel()])
        if weight is not None:
            weight = call(graph, _aten.squeeze.dim, weight, -1)
        total = call(
            graph,
            torch.ops.cpuaccel.index_sum.default,
            x,
            messages.index,
            row_sum.index,
            weight,
            _size(graph, row_sum.base),
            messages.gather_op,
            row_sum.scatter_op,
        )
        if len(sizes) == 2:
            total = call(graph, _aten.reshape.default, total, [-1, *sizes])
        if not _is_zeros(row_sum.base):
            total = call(graph, _aten.add.Tensor, row_sum.base, total)
    _replace(node, total)


def _call_torch(node: Node, row_sum: RowSum) -> None:
    # Inductor would turn index_put into index_put_ and then reuse the memory of its operand while
    # the result, which is the same memory, is still read. The functional op stays functional.
    graph, base, summands = node.graph, row_sum.base, row_sum.summands
    with graph.inserting_before(node):
        if row_sum.scatter_op == "index_put":
            op = _aten._index_put_impl.default
            total = call(graph, op, base, [row_sum.index], summands, True)
        else:
            total = call(graph, _aten.index_add.default, base, 0, row_sum.index, summands)
    total.meta["should_fallback"] = True
    _replace(node, total)


def _replace(node: Node, by: Node) -> None:
    keep_origin(node, by)
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def _size(graph: Graph, node: Node) -> Any:
    rows = node.meta["val"].shape[0]
    return rows if isinstance(rows, int) else call(graph, _aten.sym_size.int, node, 0)


def _is_zeros(node: Node) -> bool:
    return node.target is _aten.full.default and bool(node.args[1] == 0)
