"""gather_scale_reduce against torch's own ops, with gradients; what it caches and rejects."""

from __future__ import annotations

import pytest
import torch
from _process import run_python
from hypothesis import given
from hypothesis import strategies as st
from ops._compare import ISAS, capped
from quant._engine import needs_plugin, off
from torch import Tensor

import cpuaccel
from gnn._graphs import check_rejects_other_edges, gradients, quiet, reductions

pytestmark = [needs_plugin, *quiet]

gnn = pytest.importorskip("cpuaccel.gnn")

# The ISAs with different kernels here.
isas = pytest.mark.parametrize("isa", [i for i in ISAS if i in ("ref", "avx2", "avx512")])


def _composed(
    x: Tensor, edge_index: Tensor, weight: Tensor | None, nodes: int, reduce: str
) -> Tensor:
    """The docstring's formula in torch ops."""
    messages = x[edge_index[0]]
    if weight is not None:
        messages = messages * weight[:, None]
    index = edge_index[1].long()[:, None].expand_as(messages)
    zeros = torch.zeros(nodes, x.shape[1], dtype=x.dtype)
    return zeros.scatter_reduce(0, index, messages, reduce, include_self=False)


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    """An edge_index with a hub, its sources and destinations; whole rows without edges."""
    sources, nodes = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    count = draw(st.sampled_from([0, 1, 7, 100, 3000]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    begin = torch.randint(0, sources, (count,), generator=random)
    end = torch.randint(0, nodes, (count,), generator=random)
    if draw(st.booleans()):
        end[: count // 2] = nodes // 2
    dtype = draw(st.sampled_from([torch.int32, torch.int64]))
    return torch.stack([begin, end]).to(dtype), sources, nodes


@isas
@reductions
@given(data=st.data())
def test_against_torch(isa: str, reduce: str, data: st.DataObject) -> None:
    edge_index, sources, nodes = data.draw(_graphs())
    columns = data.draw(st.integers(1, 40))
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    # Whole numbers: many messages are equal, and many results are 0.
    x = torch.randint(-3, 4, (sources, columns)).to(dtype).requires_grad_()
    needs = [x]
    weight = None
    if data.draw(st.booleans()):
        weight = torch.randint(-2, 3, (edge_index.shape[1],)).to(dtype).requires_grad_()
        needs.append(weight)
    with capped(isa):
        ours = gnn.gather_scale_reduce(x, edge_index, weight, nodes, reduce)
        our_gradients = gradients(ours, needs)
    exact = [each.detach().double().requires_grad_() for each in needs]
    with off():
        exact_weight = exact[1] if weight is not None else None
        theirs = _composed(exact[0], edge_index, exact_weight, nodes, reduce)
        their_gradients = gradients(theirs, exact)
        plain = gnn.gather_scale_reduce(x, edge_index, weight, nodes, reduce)
    assert ours.dtype == plain.dtype == dtype
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(plain.double(), theirs, rtol=1e-5, atol=1e-5)
    for a, b in zip(our_gradients, their_gradients, strict=True):
        # Up to 3000 terms are added sequentially.
        torch.testing.assert_close(a.double(), b, rtol=3000 * 2**-24, atol=1e-4)


@reductions
def test_nan_is_torch_s(reduce: str) -> None:
    x = torch.randn(9, 5)
    x[torch.rand(x.shape) < 0.2] = float("nan")
    x.requires_grad_()
    edge_index = torch.randint(0, 9, (2, 40))
    ours = gnn.gather_scale_reduce(x, edge_index, None, None, reduce)
    theirs = _composed(x, edge_index, None, 9, reduce)
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    for a, b in zip(gradients(ours, [x]), gradients(theirs, [x]), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)


@reductions
@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck(reduce: str, weighted: bool) -> None:
    edge_index = torch.randint(0, 6, (2, 25))
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(25, dtype=torch.float64, requires_grad=True) if weighted else None

    def run(x: Tensor, weight: Tensor | None) -> Tensor:
        result: Tensor = gnn.gather_scale_reduce(x, edge_index, weight, 7, reduce)
        return result

    assert torch.autograd.gradcheck(run, (x, weight))
    assert torch.autograd.gradgradcheck(run, (x, weight))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_by_x_alone(reduce: str, weighted: bool) -> None:
    """The derivative that is not in Python: of second order, of many gradients, and with hooks."""
    edge_index = torch.randint(0, 5, (2, 20))
    weight = torch.randn(20, dtype=torch.float64) if weighted else None
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)

    def run(a: Tensor) -> Tensor:
        result: Tensor = gnn.gather_scale_reduce(a, edge_index, weight, 6, reduce)
        return result

    assert torch.autograd.gradcheck(run, (x,))
    assert torch.autograd.gradgradcheck(run, (x,))
    grads = torch.randn(4, 6, 3, dtype=torch.float64)
    (many,) = torch.autograd.grad(run(x), x, grads, is_grads_batched=True)
    each = [torch.autograd.grad(run(x), x, grad)[0] for grad in grads]
    torch.testing.assert_close(many, torch.stack(each))
    with torch.autograd.graph.save_on_cpu():
        (hooked,) = torch.autograd.grad(run(x), x, grads[0])
    assert torch.equal(hooked, each[0])
    assert not run(x.detach()).requires_grad


@reductions
def test_any_number_of_threads_gives_the_same_bits(reduce: str) -> None:
    edge_index = torch.randint(0, 500, (2, 200_000))
    edge_index[1, :90_000] = 3
    x = torch.randn(500, 40, requires_grad=True)
    weight = torch.randn(edge_index.shape[1], requires_grad=True)
    seen = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        cpuaccel.clear_caches()
        y = gnn.gather_scale_reduce(x, edge_index, weight, None, reduce)
        seen.append([y, *torch.autograd.grad(y, [x, weight], torch.ones_like(y))])
    for other in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], other, strict=True))


def test_a_graph_is_sorted_once_and_again_when_it_changed() -> None:
    cpuaccel.clear_caches()
    cpuaccel.reset_stats()
    edge_index = torch.randint(0, 9, (2, 40))
    x = torch.randn(9, 3, requires_grad=True)

    def run() -> None:
        ours = gnn.gather_scale_reduce(x, edge_index)
        torch.testing.assert_close(ours, _composed(x, edge_index, None, 9, "sum"))
        (grad,) = torch.autograd.grad(ours.sum(), x)
        counts = torch.zeros(9).index_add_(0, edge_index[0], torch.ones(40))
        torch.testing.assert_close(grad, counts[:, None].expand(9, 3))

    for _ in range(3):
        run()
    found = cpuaccel.stats()["index_cache"]
    assert (found["misses"], found["hits"], found["stale"]) == (2, 4, 0)
    edge_index.numpy()[0, 5] = (edge_index[0, 5] + 1) % 9
    run()
    found = cpuaccel.stats()["index_cache"]
    assert (found["misses"], found["stale"]) == (4, 1)


def test_weights_that_changed_are_not_stale() -> None:
    edge_index, x = torch.randint(0, 9, (2, 40)), torch.randn(9, 3)
    weight = torch.randn(40)
    for _ in range(2):
        torch.testing.assert_close(
            gnn.gather_scale_reduce(x, edge_index, weight),
            _composed(x, edge_index, weight, 9, "sum"),
        )
        weight.data[7] += 1


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (TypeError, "x: expected a Tensor, got int", (3, torch.zeros(2, 0).long())),
        (TypeError, "x: expected floats, got int64", (torch.ones(2, 2).long(), None)),
        (ValueError, r"x: expected shape \[N, K\], got \[4\]", (torch.ones(4), None)),
        (TypeError, "edge_index: expected int32 or int64", (torch.ones(4, 2), torch.ones(2, 3))),
        (
            ValueError,
            r"edge_index: expected shape \[2, E\], got \[3, 1\]",
            (torch.ones(4, 2), torch.zeros(3, 1).long()),
        ),
        (
            ValueError,
            r"weight: expected one for each of the 3 edges, got \[2\]",
            (torch.ones(4, 2), torch.zeros(2, 3).long(), torch.ones(2)),
        ),
        (
            TypeError,
            "weight: expected float32 as x, got float64",
            (torch.ones(4, 2), torch.zeros(2, 3).long(), torch.ones(3).double()),
        ),
        (
            ValueError,
            "num_nodes: expected an int of 0 or more, got -1",
            (torch.ones(4, 2), torch.zeros(2, 3).long(), None, -1),
        ),
        (
            ValueError,
            "reduce: expected one of sum, mean, amax, amin, got 'max'",
            (torch.ones(4, 2), torch.zeros(2, 3).long(), None, None, "max"),
        ),
        (
            IndexError,
            r"edge_index\[0\] to be at least 0 and below 4, .*, but got 4",
            (torch.ones(4, 2), torch.tensor([[4], [0]])),
        ),
        (
            IndexError,
            r"edge_index\[1\] to be at least 0 and below 2, .*, but got -1",
            (torch.ones(4, 2), torch.tensor([[1, 2], [0, -1]]), None, 2),
        ),
    ],
)
def test_errors_name_what_is_wrong(
    error: type[Exception], match: str, arguments: tuple[object, ...]
) -> None:
    with pytest.raises(error, match=match):
        gnn.gather_scale_reduce(*arguments)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@reductions
def test_other_dtypes_are_torch_s(reduce: str, dtype: torch.dtype) -> None:
    edge_index, x = torch.randint(0, 9, (2, 40)), torch.randn(9, 3).to(dtype)
    ours = gnn.gather_scale_reduce(x, edge_index, None, None, reduce)
    assert ours.dtype == dtype
    theirs = _composed(x.double(), edge_index, None, 9, reduce)
    torch.testing.assert_close(ours.double(), theirs, rtol=0.05, atol=0.05)


@pytest.mark.filterwarnings("ignore::UserWarning")
@reductions
def test_spmm_takes_matrices_and_edges(reduce: str) -> None:
    edge_index, x = torch.randperm(81)[:30], torch.randn(9, 4)
    edge_index = torch.stack([edge_index % 9, edge_index // 9])
    matrix = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(30), (9, 9)).coalesce()
    expected = gnn.spmm(edge_index, x, reduce)
    torch.testing.assert_close(expected, _composed(x, edge_index, None, 9, reduce))
    for each in (matrix, matrix.to_sparse_csr(), matrix.to_sparse_csc()):
        torch.testing.assert_close(gnn.spmm(each, x, reduce), expected)


def test_empty() -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    for reduce in ("sum", "mean", "amax", "amin"):
        for nodes, sources, columns in ((3, 2, 4), (0, 2, 4), (3, 0, 4), (3, 2, 0)):
            x = torch.randn(sources, columns, requires_grad=True)
            y = gnn.gather_scale_reduce(x, none, torch.ones(0), nodes, reduce)
            assert torch.equal(y, torch.zeros(nodes, columns))
            y.sum().backward()
            assert torch.equal(x.grad, torch.zeros(sources, columns))


def _arguments() -> dict[str, tuple[object, ...]]:
    edge_index = torch.randint(0, 5, (2, 12))
    edges = torch.ops.cpuaccel.sort_edges(edge_index, 5, 6)
    x, y = torch.randn(5, 3), torch.randn(6, 3)
    weight = torch.randn(12)
    learned = weight.clone().requires_grad_()
    dst = torch.ops.cpuaccel.edge_extreme(x, edges, weight, 6)
    return {
        "sort_edges": (edge_index, 5, 6),
        "edge_sum": (x.clone().requires_grad_(), edges, learned, 6, False, True),
        "edge_dot": (y.clone().requires_grad_(), x.clone().requires_grad_(), edges, False),
        "edge_extreme": (x.clone().requires_grad_(), edges, learned, 6, True),
        "edge_extreme_backward": (y, x, edges, weight, dst, True, False),
    }


@pytest.mark.parametrize(
    "name", ["sort_edges", "edge_sum", "edge_dot", "edge_extreme", "edge_extreme_backward"]
)
def test_opcheck(name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.cpuaccel, name).default, _arguments()[name])


@pytest.mark.parametrize("name", ["edge_sum", "edge_dot", "edge_extreme", "edge_extreme_backward"])
def test_edges_that_are_none_are_an_error(name: str) -> None:
    position = 1 if name in ("edge_sum", "edge_extreme") else 2
    check_rejects_other_edges(name, _arguments()[name], position)


def test_compiles_with_any_size() -> None:
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def run(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        y: Tensor = gnn.gather_scale_reduce(x, edge_index, weight, None, "mean")
        return y + gnn.gather_scale_reduce(x, edge_index, None, None, "amax")

    for nodes, count in ((9, 40), (12, 70)):
        x, weight = torch.randn(nodes, 5, requires_grad=True), torch.randn(count)
        edge_index = torch.randint(0, nodes, (2, count))
        expected = _composed(x, edge_index, weight, nodes, "mean")
        expected = expected + _composed(x, edge_index, None, nodes, "amax")
        found = run(x, edge_index, weight)
        torch.testing.assert_close(found, expected)
        for a, b in zip(gradients(found, [x]), gradients(expected, [x]), strict=True):
            torch.testing.assert_close(a, b)


def test_importing_cpuaccel_imports_none_of_it() -> None:
    code = "import sys, cpuaccel; print('cpuaccel.gnn' in sys.modules)"
    assert run_python(code) == "False"
