"""The ops of cpuaccel.gnn against their formulas: the same numbers, and derivatives of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin
from torch import Tensor

pytestmark = [needs_plugin, pytest.mark.filterwarnings("ignore:There is a performance drop")]

pytest.importorskip("cpuaccel.gnn")

from cpuaccel._ops import derivatives, edge_formulas, fused_gnn_formulas  # noqa: E402

_SOURCES, _NODES, _HEADS, _COLUMNS, _EDGES = 5, 4, 2, 3, 13
_OPS: Any = torch.ops.cpuaccel


def _randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def _cases() -> dict[str, list[tuple[Any, ...]]]:
    """Arguments of each op: two node types with sorted edges, and those of an edge_index."""
    torch.manual_seed(3)
    edge_index = torch.stack(
        [torch.randint(0, _SOURCES, (_EDGES,)), torch.randint(0, _NODES - 1, (_EDGES,))]
    )
    loops = torch.randint(0, _NODES, (2, _EDGES))
    loops[:, 3], loops[:, 7] = 1, 2
    edges = _OPS.sort_edges(edge_index, _SOURCES, _NODES)
    columns = _HEADS * _COLUMNS
    src, dst = _randn(_SOURCES, columns), _randn(_NODES, columns)
    one, several = _randn(_EDGES), _randn(_EDGES, _HEADS)
    shift, att = _randn(_NODES, columns), _randn(_HEADS, _COLUMNS)
    scores = _randn(_SOURCES, _HEADS), _randn(_NODES, _HEADS)
    heads = _randn(_NODES, _HEADS, _COLUMNS)
    own = _randn(_NODES, _HEADS), _randn(_NODES, _HEADS)
    alpha = _OPS.edge_softmax(several, edges, _SOURCES, _NODES)
    alpha_of_scores = _OPS.gat_alpha(*scores, edges, 0.2)
    extreme = _OPS.edge_extreme(src, edges, one, _NODES)
    stats = _OPS.edge_stats(src, edges, shift, _NODES, "all")
    kept = torch.rand(_EDGES + _NODES, _HEADS, dtype=torch.float64)
    gat = _OPS.gat_sum(heads, *own, loops, True, 0.2, kept)[1]
    gatv2 = _OPS.gatv2_sum(heads, heads.cos(), att, loops, True, 0.2, kept)[1]
    positive = one.exp()
    from_end = torch.tensor([[_SOURCES], [_NODES]])
    return {
        "edge_sum": [
            (src, edges, None, _NODES),
            (src, edges, one, _NODES, False, True),
            (dst, edges, one, _SOURCES, True, True),
        ],
        "edge_dot": [(dst, src, edges), (dst, src, edges, True)],
        "edge_extreme": [(src, edges, None, _NODES), (src, edges, one, _NODES, True)],
        "edge_extreme_backward": [
            (dst, src, edges, one, extreme, True, True),
            (dst, src, edges, None, _OPS.edge_extreme(src, edges, None, _NODES), True, False),
        ],
        "edge_stats": [
            (src, edges, shift, _NODES, "all"),
            (src, edges, None, _NODES, "amax"),
            (src, edges, shift, _NODES, "amin"),
        ],
        "edge_stats_backward": [
            (
                dst,
                dst.sin(),
                None,
                dst.cos(),
                src,
                edges,
                shift,
                _NODES,
                "all",
                stats[0],
                *stats[2:],
            )
        ],
        "edge_sum_heads": [(src, edges, several, _NODES), (dst, edges, several, _SOURCES, True)],
        "edge_sum_heads_backward": [
            (dst, src, edges, several, False),
            (src, dst, edges, several, True),
        ],
        "edge_dot_heads": [(dst, src, edges, _HEADS)],
        "edge_softmax": [(several, edges, _SOURCES, _NODES), (own[0][:0], loops[:, :0], 4, 4)],
        "edge_softmax_backward": [(several.sin(), alpha, edges, _SOURCES, _NODES)],
        "gat_alpha": [(*scores, edges, 0.2)],
        "gat_alpha_backward": [(several, alpha_of_scores, *scores, edges, 0.2)],
        "gatv2_scores": [(src, dst, att, edges, 0.2)],
        "gatv2_scores_backward": [(several, src, dst, att, edges, 0.2)],
        "index_sum": [
            (src, *edge_index, None, _NODES),
            (src, *edge_index, one, _NODES),
            (src, *edge_index, several, _NODES),
            (src, *(edge_index - from_end), one, _NODES, "index", "index_put"),
        ],
        "edge_values": [
            (several, edge_index, _SOURCES, _NODES),
            (one, edge_index, _SOURCES, _NODES, True),
        ],
        "gcn_sum": [
            (dst, loops, None, True, 1.0),
            (dst, loops, positive, True, 2.0, True),
            (dst, loops, positive, False, 1.0, False, True),
        ],
        "gat_sum": [(heads, *own, loops, True, 0.2), (heads, *own, loops, True, 0.2, kept)],
        "gat_sum_backward": [(heads.sin(), heads, *own, loops, gat, True, 0.2, kept)],
        "gatv2_sum": [(heads, heads.cos(), att, loops, False, 0.2)],
        "gatv2_sum_backward": [
            (heads.sin(), heads, heads.cos(), att, loops, gatv2, True, 0.2, kept)
        ],
    }


CASES = [
    pytest.param(name, i, id=f"{name} {i}")
    for name, all in _cases().items()
    for i in range(len(all))
]
cases = pytest.mark.parametrize(("name", "which"), CASES)


def _formula(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(edge_formulas, name, None) or getattr(
        fused_gnn_formulas, name
    )
    return found


def _tuple(result: Any) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)


def test_every_differentiable_op_has_a_case() -> None:
    modules = (edge_formulas.__name__, fused_gnn_formulas.__name__)
    known = {name for name, f in derivatives.registered.items() if f.__module__ in modules}
    assert set(_cases()) == known


@cases
def test_the_formula_has_the_numbers_of_the_kernel(name: str, which: int) -> None:
    arguments = _cases()[name][which]
    with torch.no_grad():
        found = _tuple(_formula(name)(*arguments))
        expected = _tuple(getattr(_OPS, name)(*arguments))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


# Positions of arguments that depend on each other: none alone has a finite difference.
_FIXED = {
    "edge_extreme_backward": (1, 3, 4),
    "edge_stats_backward": (4, 6, 9, 10, 11, 12, 13),
    "gat_alpha_backward": (1,),
    "gat_sum": (6,),
    "gat_sum_backward": (1, 2, 3, 5, 8),
    "gatv2_sum_backward": (1, 2, 3, 5, 8),
    "gcn_sum": (2,),
}


@cases
def test_derivatives_forward_and_twice(name: str, which: int) -> None:
    arguments = list(_cases()[name][which])
    places = [
        i
        for i, value in enumerate(arguments)
        if isinstance(value, Tensor) and value.is_floating_point() and i not in _FIXED.get(name, ())
    ]

    def call(*given: Tensor) -> tuple[Tensor, ...]:
        for place, value in zip(places, given, strict=True):
            arguments[place] = value
        return _tuple(getattr(_OPS, name)(*arguments))

    needs = [arguments[place].detach().clone().requires_grad_() for place in places]
    differentiable = [i for i, each in enumerate(call(*needs)) if each.requires_grad]

    def run(*given: Tensor) -> tuple[Tensor, ...]:
        results = call(*given)
        return tuple(results[i] for i in differentiable)

    assert torch.autograd.gradcheck(run, needs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(run, needs)


def test_no_op_on_edges_asks_python_where_no_graph_is_needed() -> None:
    """The list in csrc/ops/gnn/edge_autograd.cpp is complete."""
    modules = {edge_formulas.__name__, fused_gnn_formulas.__name__}
    names = [name for name, f in derivatives.registered.items() if f.__module__ in modules]
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    assert [name for name in names if not has(f"cpuaccel::{name}", "AutogradCPU")] == []
