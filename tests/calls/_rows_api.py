"""Rows of cpuaccel's float API: message passing, layers of torch_geometric, prepacked layers.

With cpuaccel disabled these run on torch's own ops, which are the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calls._row import FLOATS, Row, Sample
from calls._values import index, values

NODES, EDGES = 11, 40
_WIDE = (torch.float32, torch.float64)


def _edges(count: int = EDGES) -> Tensor:
    """Edges between some of the nodes; some nodes have no incoming edge."""
    return index(2, count, below=NODES - 2)


def _bad_edges() -> tuple[Tensor, Tensor]:
    below, above = _edges(4).clone(), _edges(4).clone()
    below[0, 1], above[1, 2] = -1, NODES
    return below, above


def _gather_scale_reduce(reduce: str) -> Callable[[torch.dtype], Sequence[Sample]]:
    def samples(dtype: torch.dtype) -> list[Sample]:
        x, weight = values(NODES, 8, dtype=dtype), values(EDGES, dtype=dtype, seed=1)
        named = {"reduce": reduce}
        return [
            Sample((x, _edges(), weight), named),
            Sample((x, _edges().int()), named),
            Sample((x, _edges(0)), named, "empty"),
            *(Sample((x, bad), named, "bad") for bad in _bad_edges()),
        ]

    return samples


def _edge_softmax(dtype: torch.dtype) -> list[Sample]:
    scores = values(EDGES, 3, dtype=dtype)
    return [
        Sample((scores, _edges(), NODES)),
        Sample((scores[:, 0].clone(), _edges(), NODES)),
        Sample((scores[:0], _edges(0), NODES), kind="empty"),
        *(Sample((scores[:4], bad, NODES), kind="bad") for bad in _bad_edges()),
    ]


def _gat(dtype: torch.dtype) -> list[Sample]:
    x = values(NODES, 3, 8, dtype=dtype)
    scores = [values(NODES, 3, dtype=dtype, seed=seed) for seed in (1, 2)]
    return [
        Sample((x, *scores, _edges())),
        Sample((x, *scores, _edges(0)), kind="empty"),
        *(Sample((x, *scores, bad), kind="bad") for bad in _bad_edges()),
    ]


def _gatv2(dtype: torch.dtype) -> list[Sample]:
    x, y = (values(NODES, 3, 8, dtype=dtype, seed=seed) for seed in (0, 1))
    att = values(3, 8, dtype=dtype, seed=2)
    return [
        Sample((x, y, att, _edges())),
        Sample((x, y, att, _edges(0)), kind="empty"),
        *(Sample((x, y, att, bad), kind="bad") for bad in _bad_edges()),
    ]


def _on() -> bool:
    import cpuaccel

    return cpuaccel.is_enabled()


def _run(module: nn.Module, *args: Any) -> Any:
    return module(*args)


def _pyg_row(name: str, make: Callable[[Any], nn.Module], *covers: str) -> Row:
    def samples(dtype: torch.dtype) -> list[Sample]:
        import torch_geometric.nn as pyg

        from cpuaccel import gnn

        with torch.random.fork_rng():
            torch.manual_seed(3)
            layer = make(pyg).to(dtype)
        if _on():
            layer = gnn.accelerate(layer)
        x = values(NODES, 16, dtype=dtype)
        return [
            Sample((layer, x, _edges(), *_relations(name, EDGES))),
            Sample((layer, x, _edges(0), *_relations(name, 0)), kind="empty"),
        ]

    return Row(
        f"pyg_{name}",
        samples,
        keys=(),
        covers=tuple(f"cpuaccel::{each}" for each in covers),
        call=_run,
        dtypes=_WIDE,
    )


def _relations(name: str, count: int) -> tuple[Tensor, ...]:
    return (index(count, below=3, seed=7),) if name == "rgcn" else ()


_PYG: dict[str, tuple[Callable[[Any], nn.Module], tuple[str, ...]]] = {
    "gcn": (lambda pyg: pyg.GCNConv(16, 8), ("gcn_sum", "kept_gcn_weight")),
    "sage": (lambda pyg: pyg.SAGEConv(16, 8), ()),
    "sage_max": (lambda pyg: pyg.SAGEConv(16, 8, aggr="max"), ()),
    "gin": (lambda pyg: pyg.GINConv(nn.Linear(16, 8)), ()),
    "graph": (lambda pyg: pyg.GraphConv(16, 8), ()),
    "graph_max": (lambda pyg: pyg.GraphConv(16, 8, aggr="max"), ()),
    "gat": (lambda pyg: pyg.GATConv(16, 8, heads=2), ("gat_sum", "gat_sum_backward")),
    "gatv2": (lambda pyg: pyg.GATv2Conv(16, 8, heads=2), ("gatv2_sum", "gatv2_sum_backward")),
    "pna": (
        lambda pyg: pyg.PNAConv(16, 8, ["mean", "std", "max"], ["linear"], torch.ones(9)),
        ("edge_stats", "edge_stats_backward"),
    ),
    "rgcn": (lambda pyg: pyg.RGCNConv(16, 8, 3), ("kept_relations",)),
    "edge": (lambda pyg: pyg.EdgeConv(nn.Linear(32, 8)), ("edge_contrast",)),
    "edge_relu": (lambda pyg: pyg.EdgeConv(nn.Sequential(nn.Linear(32, 8), nn.ReLU())), ()),
    "edge_deep": (
        lambda pyg: pyg.EdgeConv(nn.Sequential(nn.Linear(32, 8), nn.Tanh()), aggr="add"),
        ("edge_values",),
    ),
}


def _prepacked_row(name: str, make: Callable[[], nn.Module], *covers: str) -> Row:
    shapes = {
        "linear": ((17, 64), (0, 64), (17, 65)),
        "conv1d": ((2, 32, 9), (0, 32, 9), (2, 31, 9)),
        "conv2d": ((2, 32, 9, 9), (0, 32, 9, 9), (2, 31, 9, 9)),
        "lstm": ((5, 2, 32), (5, 0, 32), (5, 2, 33)),
        "attention": ((2, 5, 64), (0, 5, 64), (2, 5, 65)),
    }[name]

    def samples(dtype: torch.dtype) -> list[Sample]:
        import cpuaccel

        with torch.random.fork_rng():
            torch.manual_seed(3)
            layer = make().to(dtype).eval().requires_grad_(False)
        if _on():
            layer = cpuaccel.prepack(layer)
        kinds = ("plain", "empty", "bad")
        inputs = [values(*shape, dtype=dtype) for shape in shapes]
        repeat = 3 if name == "attention" else 1
        return [
            Sample((layer, *[x] * repeat), kind=kind) for x, kind in zip(inputs, kinds, strict=True)
        ]

    return Row(
        f"prepacked_{name}",
        samples,
        keys=(),
        covers=tuple(f"cpuaccel::{each}" for each in covers),
        call=_run,
        dtypes=FLOATS,
    )


def _row(name: str, samples: Any, call: Any, *covers: str) -> Row:
    covered = tuple(f"cpuaccel::{each}" for each in covers)
    return Row(name, samples, keys=(), covers=covered, call=call, dtypes=FLOATS)


def _api(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        from cpuaccel import gnn

        return getattr(gnn, name)(*args, **kwargs)

    return call


_SUMS = ("sort_edges", "kept_edges", "kept_weight", "edge_sum", "edge_dot", "index_sum")
_EXTREMES = ("edge_extreme", "edge_extreme_backward")
_HEADS = ("edge_sum_heads", "edge_sum_heads_backward", "edge_dot_heads")

ROWS = (
    *(
        _row(
            f"gather_scale_reduce_{reduce}",
            _gather_scale_reduce(reduce),
            _api("gather_scale_reduce"),
            *(_EXTREMES if reduce.startswith("a") else _SUMS),
        )
        for reduce in ("sum", "mean", "amax", "amin")
    ),
    _row(
        "edge_softmax",
        _edge_softmax,
        _api("edge_softmax"),
        "edge_softmax",
        "edge_softmax_backward",
    ),
    _row("gat_attention", _gat, _api("gat_attention"), "gat_alpha", "gat_alpha_backward", *_HEADS),
    _row(
        "gatv2_attention",
        _gatv2,
        _api("gatv2_attention"),
        "gatv2_scores",
        "gatv2_scores_backward",
        *_HEADS,
    ),
    *(_pyg_row(name, make, *covers) for name, (make, covers) in _PYG.items()),
    _prepacked_row(
        "linear", lambda: nn.Linear(64, 64), "pack_linear", "unpack_linear", "packed_linear"
    ),
    _prepacked_row("conv1d", lambda: nn.Conv1d(32, 64, 3, padding=1), "packed_convolution"),
    _prepacked_row("conv2d", lambda: nn.Conv2d(32, 64, 3, padding=1), "packed_convolution"),
    _prepacked_row("lstm", lambda: nn.LSTM(32, 64, num_layers=2), "packed_lstm"),
    _prepacked_row("attention", lambda: nn.MultiheadAttention(64, 4, batch_first=True)),
)
