"""edge_softmax, gat_attention and gatv2_attention against torch's own ops, with gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops._compare import ISAS, capped
from quant._engine import needs_plugin, off
from torch import Tensor

import cpuaccel
from gnn._graphs import gradients

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")

# The ISAs with different kernels here.
isas = pytest.mark.parametrize("isa", [i for i in ISAS if i in ("ref", "avx2", "avx512")])

Sizes = tuple[int, int, int, int]


def _softmax(edge_index: Tensor, scores: Tensor) -> Tensor:
    result: Tensor = gnn.edge_softmax(scores, edge_index, 50)
    return result


def _gat(edge_index: Tensor, x: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    result: Tensor = gnn.gat_attention(x, src, dst, edge_index, 0.1)
    return result


def _gatv2(edge_index: Tensor, src: Tensor, dst: Tensor, att: Tensor) -> Tensor:
    result: Tensor = gnn.gatv2_attention(src, dst, att, edge_index, 0.1)
    return result


CASES: dict[str, tuple[Callable[..., Tensor], Callable[[Sizes, int], list[tuple[int, ...]]]]] = {
    "edge_softmax": (_softmax, lambda s, count: [(count, s[2])]),
    "gat": (_gat, lambda s, _: [(s[0], s[2], s[3]), (s[0], s[2]), (s[1], s[2])]),
    "gatv2": (_gatv2, lambda s, _: [(s[0], s[2], s[3]), (s[1], s[2], s[3]), (s[2], s[3])]),
}
cases = pytest.mark.parametrize("case", CASES)


@isas
@cases
@given(data=st.data())
def test_against_torch_in_float64(isa: str, case: str, data: st.DataObject) -> None:
    run, shapes = CASES[case]
    sources, nodes = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    heads, columns = data.draw(st.sampled_from([1, 2, 3, 8])), data.draw(st.integers(1, 40))
    count = data.draw(st.sampled_from([0, 1, 7, 100, 1000]))
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    edge_index = torch.stack(
        [torch.randint(0, sources, (count,)), torch.randint(0, nodes, (count,))]
    )
    if data.draw(st.booleans()):
        edge_index[1, : count // 2] = nodes // 2
    needs = [
        torch.randn(shape, dtype=dtype, requires_grad=True)
        for shape in shapes((sources, nodes, heads, columns), count)
    ]
    exact = [each.detach().double().requires_grad_() for each in needs]
    with capped(isa):
        ours = run(edge_index, *needs)
        our_gradients = gradients(ours, needs)
    with off():
        theirs = run(edge_index, *exact)
        their_gradients = gradients(theirs, exact)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)
    for a, b in zip(our_gradients, their_gradients, strict=True):
        size = float(b.abs().max()) if b.numel() else 0.0
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4 * max(1.0, size))


@cases
def test_gradcheck(case: str) -> None:
    run, shapes = CASES[case]
    edge_index = torch.randint(0, 6, (2, 15))
    needs = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in shapes((6, 6, 2, 3), 15)
    ]
    assert torch.autograd.gradcheck(lambda *needs: run(edge_index, *needs), needs)


@cases
def test_any_number_of_threads_gives_the_same_bits(case: str) -> None:
    run, shapes = CASES[case]
    edge_index = torch.randint(0, 50, (2, 40_000))
    edge_index[1, :15_000] = 3
    needs = [torch.randn(shape, requires_grad=True) for shape in shapes((50, 50, 4, 8), 40_000)]
    seen = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        cpuaccel.clear_caches()
        y = run(edge_index, *needs)
        seen.append([y, *gradients(y, needs)])
    for other in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], other, strict=True))


def test_large_scores_and_those_that_are_no_numbers() -> None:
    edge_index = torch.tensor([[0, 1, 2, 0, 1, 0], [0, 0, 0, 1, 1, 2]])
    scores = torch.tensor([1e4, -1e4, 1e4, float("nan"), 1.0, -3e38])[:, None]
    ours = gnn.edge_softmax(scores, edge_index)
    with off():
        theirs = gnn.edge_softmax(scores, edge_index)
    torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_one_head_needs_no_dimension() -> None:
    edge_index, scores = torch.randint(0, 9, (2, 40)), torch.randn(40)
    ours = gnn.edge_softmax(scores, edge_index)
    assert ours.shape == (40,)
    assert torch.equal(ours, gnn.edge_softmax(scores[:, None], edge_index)[:, 0])
    ends = torch.zeros(9).index_add_(0, edge_index[1], ours)
    torch.testing.assert_close(ends[ends > 0], torch.ones(int((ends > 0).sum())))


@pytest.mark.parametrize("case", ["gat", "gatv2"])
def test_dropout_draws_as_torch_does(case: str) -> None:
    edge_index = torch.randint(0, 9, (2, 60))
    run = gnn.gat_attention if case == "gat" else gnn.gatv2_attention
    needs = [torch.randn(shape) for shape in CASES[case][1]((9, 9, 2, 5), 60)]
    torch.manual_seed(5)
    ours = run(*needs, edge_index, 0.2, 0.5)
    torch.manual_seed(5)
    with off():
        theirs = run(*needs, edge_index, 0.2, 0.5)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("error", "match", "run"),
    [
        (
            ValueError,
            r"scores: expected one for each of the 4 edges, got \[3\]",
            lambda e: gnn.edge_softmax(torch.ones(3), e),
        ),
        (
            ValueError,
            r"score_src: expected shape \[3, 2\], got \[4, 2\]",
            lambda e: gnn.gat_attention(torch.ones(3, 2, 5), torch.ones(4, 2), torch.ones(3, 2), e),
        ),
        (
            TypeError,
            "score_dst: expected float32, got float64",
            lambda e: gnn.gat_attention(
                torch.ones(3, 2, 5), torch.ones(3, 2), torch.ones(3, 2).double(), e
            ),
        ),
        (
            ValueError,
            r"att: expected shape \[2, 5\], got \[2, 4\]",
            lambda e: gnn.gatv2_attention(
                torch.ones(3, 2, 5), torch.ones(3, 2, 5), torch.ones(2, 4), e
            ),
        ),
        (
            IndexError,
            r"edge_index\[1\] to be at least 0 and below 2, .*, but got 2",
            lambda e: gnn.gat_attention(torch.ones(3, 2, 5), torch.ones(3, 2), torch.ones(2, 2), e),
        ),
    ],
)
def test_errors_name_what_is_wrong(
    error: type[Exception], match: str, run: Callable[[Tensor], object]
) -> None:
    with pytest.raises(error, match=match):
        run(torch.tensor([[0, 1, 2, 0], [0, 1, 2, 1]]))


def _arguments() -> dict[str, tuple[object, ...]]:
    edges = torch.ops.cpuaccel.sort_edges(torch.randint(0, 5, (2, 12)), 5, 6)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, requires_grad=True)

    terms = (torch.randn(5, 2), torch.randn(6, 2))
    alpha = torch.ops.cpuaccel.gat_alpha(*terms, edges, 0.2)
    nodes = (torch.randn(5, 6), torch.randn(6, 6), torch.randn(2, 3))
    return {
        "edge_sum_heads": (numbers(5, 6), edges, numbers(12, 2), 6),
        "edge_sum_heads_backward": (numbers(6, 6), numbers(5, 6), edges, numbers(12, 2), False),
        "edge_dot_heads": (numbers(6, 6), numbers(5, 6), edges, 2),
        "edge_softmax": (numbers(12, 2), edges, 5, 6),
        "edge_softmax_backward": (torch.randn(12, 2), alpha, edges, 5, 6),
        "gat_alpha": (numbers(5, 2), numbers(6, 2), edges, 0.2),
        "gat_alpha_backward": (torch.randn(12, 2), alpha, *terms, edges, 0.2),
        "gatv2_scores": (numbers(5, 6), numbers(6, 6), numbers(2, 3), edges, 0.2),
        "gatv2_scores_backward": (torch.randn(12, 2), *nodes, edges, 0.2),
    }


names = pytest.mark.parametrize("name", list(_arguments()) if hasattr(gnn, "spmm") else [])


@names
def test_opcheck(name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.cpuaccel, name).default, _arguments()[name])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("heads", "columns"), [(1, 3), (2, 2), (3, 4), (2, 17)])
def test_sums_of_heads_derived_twice(heads: int, columns: int, transposed: bool) -> None:
    edges = torch.ops.cpuaccel.sort_edges(torch.randint(0, 3, (2, 5)), 3, 4)
    rows = (4, 3) if transposed else (3, 4)
    x = torch.randn(rows[0], heads * columns, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, heads, dtype=torch.float64, requires_grad=True)

    def run(x: Tensor, weight: Tensor) -> Tensor:
        total: Tensor = torch.ops.cpuaccel.edge_sum_heads(x, edges, weight, rows[1], transposed)
        return total

    assert torch.autograd.gradcheck(run, (x, weight))
    assert torch.autograd.gradgradcheck(run, (x, weight))


@names
def test_edges_that_are_none_are_an_error(name: str) -> None:
    good = _arguments()[name]
    place = next(
        i for i, each in enumerate(good) if isinstance(each, Tensor) and each.dtype == torch.int32
    )
    edges = good[place]
    assert isinstance(edges, Tensor)
    for bad in (edges + 1, edges[1:], edges.float(), edges[:0], edges * 1000):
        arguments = [*good[:place], bad, *good[place + 1 :]]
        with pytest.raises(RuntimeError, match="cpuaccel::"):
            getattr(torch.ops.cpuaccel, name)(*arguments)


def test_compiles_with_any_size() -> None:
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def run(x: Tensor, src: Tensor, dst: Tensor, edge_index: Tensor) -> Tensor:
        return _gat(edge_index, x, src, dst)

    for nodes, count in ((9, 40), (12, 70)):
        needs = [torch.randn(shape, requires_grad=True) for shape in ((nodes, 2, 5), (nodes, 2))]
        edge_index = torch.randint(0, nodes, (2, count))
        found, expected = (
            each(needs[0], needs[1], needs[1], edge_index)
            for each in (run, lambda x, src, dst, e: _gat(e, x, src, dst))
        )
        torch.testing.assert_close(found, expected)
        for a, b in zip(gradients(found, needs), gradients(expected, needs), strict=True):
            torch.testing.assert_close(a, b)
