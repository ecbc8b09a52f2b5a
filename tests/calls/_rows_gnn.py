"""Rows of scatter and segment reductions, gathers, and products of sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from calls._row import FLOATS, Row, Sample
from calls._values import index, values

Samples = Callable[[torch.dtype], Sequence[Sample]]
_SPARSE_DTYPES = (*FLOATS, torch.complex64, torch.int64)


def _index_select(dtype: torch.dtype) -> list[Sample]:
    x = values(9, 20, dtype=dtype)
    return [
        Sample((x, 0, index(14, below=9))),
        Sample((x, 1, index(5, below=20, dtype=torch.int32))),
        Sample((x, 0, index(0, below=9)), kind="empty"),
        Sample((x, 0, torch.tensor([0, -1])), kind="bad"),
        Sample((x, 0, torch.tensor([0, 9])), kind="bad"),
    ]


def _gather(dtype: torch.dtype) -> list[Sample]:
    x = values(9, 20, dtype=dtype)
    return [
        Sample((x, 0, index(14, 1, below=9).expand(14, 20))),
        Sample((x, 1, index(9, 5, below=20))),
        Sample((x, 0, index(0, 20, below=9)), kind="empty"),
        Sample((x, 0, torch.tensor([[0], [-1]]).expand(2, 20)), kind="bad"),
        Sample((x, 0, torch.tensor([[0], [9]]).expand(2, 20)), kind="bad"),
    ]


def _index(dtype: torch.dtype) -> list[Sample]:
    x = values(9, 20, dtype=dtype)
    return [
        Sample((x, [index(14, below=9)])),
        Sample((x, [torch.tensor([0, -1, -9])])),
        Sample((x, [None, index(3, below=20)])),
        Sample((x, [index(0, below=9)]), kind="empty"),
        Sample((x, [torch.tensor([0, 9])]), kind="bad"),
        Sample((x, [torch.tensor([0, -10])]), kind="bad"),
    ]


def _index_put(dtype: torch.dtype) -> list[Sample]:
    x = values(9, 20, dtype=dtype)
    y = values(14, 20, dtype=dtype, seed=1)
    few = values(2, 20, dtype=dtype, seed=1)
    return [
        Sample((x, [index(14, below=9)], y, True)),
        Sample((x, [torch.tensor([3, -1])], few, False)),
        Sample((x, [index(0, below=9)], y[:0], True), kind="empty"),
        Sample((x, [torch.tensor([0, 9])], few, True), kind="bad"),
        Sample((x, [torch.tensor([0, -10])], few, True), kind="bad"),
    ]


def _scatter(*more: object, **named: object) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        x, src = values(9, 20, dtype=dtype), values(14, 20, dtype=dtype, seed=1)
        rows = index(14, 1, below=9)
        few = src[:2]
        return [
            Sample((x, 0, rows.expand(14, 20), src, *more), named),
            Sample((x, 1, index(9, 7, below=20), src[:9, :7], *more), named),
            Sample((x[:2, :1], 0, torch.tensor([[0], [1]]), src[:2, :1], *more), named),
            Sample((x, 0, rows[:0].expand(0, 20), src[:0], *more), named, "empty"),
            Sample((x, 0, torch.tensor([[0], [-1]]).expand(2, 20), few, *more), named, "bad"),
            Sample((x, 0, torch.tensor([[0], [-100]]).expand(2, 20), few, *more), named, "bad"),
            Sample((x, 0, torch.tensor([[0], [9]]).expand(2, 20), few, *more), named, "bad"),
        ]

    return samples


def _index_add(*more: object, **named: object) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        x, src = values(9, 20, dtype=dtype), values(14, 20, dtype=dtype, seed=1)
        few = src[:2]
        return [
            Sample((x, 0, index(14, below=9), src, *more), named),
            Sample((x, 1, index(7, below=20), src[:9, :7], *more), named),
            Sample((x, 0, index(0, below=9), src[:0], *more), named, "empty"),
            Sample((x, 0, torch.tensor([0, -1]), few, *more), named, "bad"),
            Sample((x, 0, torch.tensor([0, 9]), few, *more), named, "bad"),
        ]

    return samples


def _rows_added(dtype: torch.dtype) -> list[Sample]:
    """Samples of the calls that Inductor's pass looks for: one index for each row."""
    x, src = values(9, 20, dtype=dtype), values(14, 20, dtype=dtype, seed=1)
    return [
        Sample((x, index(14, below=9), src)),
        Sample((x, index(0, below=9), src[:0]), kind="empty"),
        *(Sample((x, torch.tensor([0, at]), src[:2]), kind="bad") for at in (-1, -100, 9)),
    ]


def _messages_added(dtype: torch.dtype) -> list[Sample]:
    x, weight = values(9, 20, dtype=dtype), values(14, dtype=dtype, seed=1)
    edges = index(2, 14, below=9)
    bad = [edges.clone() for _ in range(3)]
    bad[0][1, 3], bad[1][1, 3], bad[2][0, 3] = -1, -100, 9
    return [
        Sample((x, edges, weight)),
        Sample((x, edges[:, :0], weight[:0]), kind="empty"),
        *(Sample((x, each, weight), kind="bad") for each in bad),
    ]


def _scatter_add_rows(x: Tensor, rows: Tensor, src: Tensor) -> Tensor:
    return x.scatter_add(0, rows[:, None].expand_as(src), src)


def _scatter_reduce_rows(x: Tensor, rows: Tensor, src: Tensor) -> Tensor:
    return x.scatter_reduce(0, rows[:, None].expand_as(src), src, "sum")


def _add_messages(x: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
    messages = x.index_select(0, edges[0]) * weight[:, None]
    to = edges[1][:, None].expand_as(messages)
    return torch.zeros_like(x).scatter_add(0, to, messages)


def _segment_reduce(reduce: str) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        x = values(14, 5, dtype=dtype)
        lengths, offsets = torch.tensor([3, 0, 6, 5]), torch.tensor([0, 3, 3, 9, 14])
        return [
            Sample((x, reduce), {"lengths": lengths}),
            Sample((x, reduce), {"offsets": offsets}),
            Sample((x[:, 0].clone(), reduce), {"lengths": lengths, "initial": 1}),
            Sample((x[:0], reduce), {"lengths": lengths[1:2]}, "empty"),
            Sample((x, reduce), {"lengths": torch.tensor([3, -1, 12])}, "bad"),
            Sample((x, reduce), {"lengths": torch.tensor([3, 3])}, "bad"),
        ]

    return samples


def _embedding_bag(mode: int) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        table, indices = values(9, 20, dtype=dtype), index(14, below=9)
        offsets, last = torch.tensor([0, 3, 3, 9]), torch.tensor([0, 3, 3, 9, 14])
        weights = values(14, dtype=dtype, seed=1)
        plain = (False, mode, False, None)
        weighted = [Sample((table, indices, offsets, False, 0, False, weights))]
        return [
            Sample((table, indices, offsets, *plain)),
            Sample((table, indices.int(), last.int(), *plain, True, 2)),
            *(weighted if mode == 0 else ()),
            Sample((table, indices[:0], offsets[:1], *plain), kind="empty"),
            Sample((table, torch.tensor([0, 9]), offsets[:1], *plain), kind="bad"),
            Sample((table, indices, offsets + 1, *plain), kind="bad"),
        ]

    return samples


def _bag(table: Tensor, *more: Any) -> Tensor:
    return torch.ops.aten._embedding_bag(table, *more)[0]


def _matrix(dtype: torch.dtype, rows: int = 9, columns: int = 7) -> Tensor:
    dense = values(rows, columns, dtype=dtype)
    return torch.where(values(rows, columns, dtype=torch.float32, seed=5) > 0, dense, 0).to(dtype)


def _sparse_mm(layout: torch.layout) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        a = _matrix(dtype).to_sparse(layout=layout)
        return [
            Sample((a, values(7, 20, dtype=dtype, seed=1))),
            Sample((a, values(7, 1, dtype=dtype, seed=1))),
            Sample((a, values(7, 0, dtype=dtype)), kind="empty"),
            Sample((a, values(8, 3, dtype=dtype)), kind="bad"),
        ]

    return samples


def _sparse_addmv(dtype: torch.dtype) -> list[Sample]:
    a = _matrix(dtype).to_sparse(layout=torch.sparse_csr)
    bias, x = values(9, dtype=dtype, seed=2), values(7, dtype=dtype, seed=1)
    return [
        Sample((bias, a, x), {"beta": 2, "alpha": 3}),
        Sample((bias, a, x), {"beta": 0}),
        Sample((bias, a, values(8, dtype=dtype)), kind="bad"),
    ]


def _sparse_addmm(layout: torch.layout) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        made = []
        for each in _sparse_mm(layout)(dtype):
            bias = values(9, each.args[1].shape[1], dtype=dtype, seed=2)
            made.append(Sample((bias, *each.args), {"beta": 2, "alpha": 3}, each.kind))
            made.append(Sample((bias, *each.args), {"beta": 0}, each.kind))
        return made

    return samples


def _sparse_reduce(reduce: str) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        plain = _sparse_mm(torch.sparse_csr)(dtype)
        return [Sample((*each.args, reduce), kind=each.kind) for each in plain]

    return samples


_SCATTERED = ("sum", "prod", "mean", "amax", "amin")
_CSR = {"keys": ("SparseCsrCPU",), "dtypes": _SPARSE_DTYPES}

ROWS = (
    Row("index_select", _index_select, "aten::index_select"),
    Row("gather", _gather, "aten::gather"),
    Row("index", _index, "aten::index.Tensor"),
    Row("index_put", _index_put, "aten::index_put", covers=("aten::_index_put_impl_",)),
    Row("scatter_add", _scatter(), "aten::scatter_add"),
    Row("scatter_add_rows", _rows_added, call=_scatter_add_rows),
    Row("scatter_reduce_rows", _rows_added, call=_scatter_reduce_rows),
    Row("add_messages", _messages_added, call=_add_messages, covers=("cpuaccel::index_sum",)),
    Row("index_add", _index_add(), "aten::index_add"),
    Row("index_add_scaled", _index_add(alpha=2), "aten::index_add"),
    *(
        Row(
            f"scatter_reduce_{reduce}{'' if include else '_alone'}",
            _scatter(reduce, include_self=include),
            "aten::scatter_reduce.two",
            keys=("CPU", "AutogradCPU"),
        )
        for reduce in _SCATTERED
        for include in (True, False)
    ),
    *(
        Row(
            f"index_reduce_{reduce}",
            _index_add(reduce, include_self=include),
            "aten::index_reduce",
            keys=("CPU", "AutogradCPU"),
        )
        for reduce, include in zip(_SCATTERED[1:], (True, False, False, True), strict=True)
    ),
    *(
        Row(
            f"segment_reduce_{reduce}",
            _segment_reduce(reduce),
            "aten::segment_reduce",
            covers=("aten::_segment_reduce_backward",),
        )
        for reduce in ("sum", "mean", "max", "min", "prod")
    ),
    *(
        Row(
            f"embedding_bag_{name}",
            _embedding_bag(mode),
            call=_bag,
            covers=(
                "aten::_embedding_bag",
                "aten::_embedding_bag_forward_only",
                "aten::_embedding_bag_backward",
                "aten::_embedding_bag_dense_backward",
                "aten::_embedding_bag_per_sample_weights_backward",
            ),
            dtypes=FLOATS,
        )
        for mode, name in enumerate(("sum", "mean", "max"))
    ),
    Row("mm_csr", _sparse_mm(torch.sparse_csr), "aten::mm", **_CSR),
    Row("addmv_csr", _sparse_addmv, "aten::addmv", **_CSR),
    Row("addmm_csr", _sparse_addmm(torch.sparse_csr), "aten::addmm", **_CSR),
    Row(
        "addmm_coo",
        _sparse_addmm(torch.sparse_coo),
        "aten::addmm",
        keys=("SparseCPU",),
        dtypes=_SPARSE_DTYPES,
    ),
    *(
        Row(
            f"sparse_mm_{reduce}",
            _sparse_reduce(reduce),
            call=torch.sparse.mm,
            covers=("aten::_sparse_mm_reduce_impl", "aten::_sparse_mm_reduce_impl_backward"),
            **_CSR,
        )
        for reduce in ("sum", "mean", "amax", "amin")
    ),
)
