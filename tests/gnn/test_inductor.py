"""Inductor's graphs call cpuaccel's kernels, forward and backward, with eager's numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from _process import run_python
from quant._engine import counted, needs_plugin, off
from torch import Tensor
from torch.fx import Graph
from torch.fx.experimental.proxy_tensor import make_fx

import cpuaccel
from gnn._steps import LAYERS, Step, grads, graph

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")
inductor = pytest.importorskip("torch._inductor.compile_fx")
decompositions = pytest.importorskip("torch._inductor.decomposition")
utils = pytest.importorskip("torch._inductor.utils")
graph_pass = pytest.importorskip("cpuaccel._inductor.graph_pass")
row_sums = pytest.importorskip("cpuaccel._inductor.row_sums")

_N, _E, _K = 30, 200, 8
Function = Callable[..., Any]


def _data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    edge_index = torch.randint(0, _N, (2, _E))
    return torch.randn(_N, _K), edge_index[0], edge_index[1], torch.rand(_E)


# Matched patterns


def _passed(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, dst, x[src] * w[:, None])


def _passed_by_scatter(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    index = dst.view(-1, 1).expand(-1, x.shape[1])
    return x.sin().scatter_add(0, index, w.view(-1, 1) * x.index_select(0, src))


def _not_scaled(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    index = dst.unsqueeze(1).expand_as(x[src])
    rows = x.gather(0, src[:, None].expand(-1, x.shape[1]))
    return torch.zeros_like(x).scatter_reduce(0, index, rows, "sum")


def _from_the_end(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return x.index_put((dst.to(torch.int32) - _N,), x[src - _N], accumulate=True)


def _gradients(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    needs = x.clone().requires_grad_(), w.clone().requires_grad_()
    return torch.autograd.grad(_passed_by_scatter(needs[0], src, dst, needs[1]).sum(), needs)


def _heads(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    alpha = w[:, None, None] - torch.tensor([0.5, 0.7], dtype=w.dtype)[:, None]
    features = x.view(-1, 2, 4)
    index = dst.view(-1, 1, 1).expand(-1, 2, 4)
    return torch.zeros_like(features).scatter_add(0, index, alpha * features[src])


_INDEX_SUM = "cpuaccel.index_sum.default"


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    "function", [_passed, _passed_by_scatter, _not_scaled, _from_the_end, _gradients]
)
def test_message_passing_becomes_one_op(function: Function, dtype: torch.dtype, mode: str) -> None:
    x, src, dst, w = _data()
    data = (x.to(dtype), src, dst, w.to(dtype))
    module = _rewritten(function, data, mode)
    assert _targets(module.graph) == [_INDEX_SUM]
    torch.testing.assert_close(module(*data), function(*data))


def test_heads_become_one_op() -> None:
    data = _data()
    module = _rewritten(_heads, data, "fake")
    assert _targets(module.graph) == [_INDEX_SUM]
    torch.testing.assert_close(module(*data), _heads(*data))


def _computed(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, dst, (x[src] * w[:, None]).exp())


def _of_two_types(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, dst, x.bfloat16()[src] * w[:, None])


def _one_row_spread(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, dst, x[src[:1]] * w[:, None])


def _one_head_spread(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    messages = x.view(-1, 1, _K)[src] * torch.stack([w, w + 1], 1)[:, :, None]
    return x.new_zeros(_N, 2, _K).index_add(0, dst, messages)


def _degrees(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return torch.zeros_like(x[:, 0]).scatter_add(0, dst, w)


def _embedded(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    index = src.view(10, -1)
    return x.index_put((index,), x[index].exp(), accumulate=True)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_computed, "aten._index_put_impl.default"),
        (_of_two_types, "aten._index_put_impl.default"),
        (_one_row_spread, "aten._index_put_impl.default"),
        (_one_head_spread, "aten._index_put_impl.default"),
        (_degrees, "aten.index_add.default"),
        (_embedded, "aten._index_put_impl.default"),
    ],
)
def test_other_sums_call_torch_op(function: Function, expected: str) -> None:
    data = _data()
    module = _rewritten(function, data, "fake")
    assert _targets(module.graph) == [expected]
    (node,) = (node for node in module.graph.nodes if str(node.target) == expected)
    assert node.meta["should_fallback"]
    torch.testing.assert_close(module(*data), function(*data))


def _an_index_for_each(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    index = dst[:, None] * torch.ones(x.shape[1], dtype=torch.int64)
    return torch.zeros_like(x).scatter_add(0, index, x[src])


def _spread_rows(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    # A column's index repeated in each row, with as many entries as there are rows here.
    index = dst[:_K].expand(_K, _K)
    return torch.zeros_like(x).scatter_add(0, index, x[:_K])


def _other_dimension(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(1, dst[:_K] % _K, x)


def _shared_value(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return x.index_put((dst,), w[0], accumulate=True)


def _written(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return x.index_put((torch.arange(_N),), x.exp())


def _halves(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    x = x.bfloat16()
    return torch.zeros_like(x).index_put((dst,), x[src], accumulate=True)


@pytest.mark.parametrize(
    "function",
    [_an_index_for_each, _spread_rows, _other_dimension, _shared_value, _written, _halves],
)
def test_unsupported_sums_are_not_changed(function: Function) -> None:
    data = _data()
    before = make_fx(function, decompositions.select_decomp_table(), "fake")(*data)
    with counted() as counts:
        after = _rewritten(function, data, "fake")
    assert _targets(after.graph) == _targets(before.graph)
    assert not any("should_fallback" in node.meta for node in after.graph.nodes)
    left = [name for name in counts.fallbacks if name.startswith("inductor.")]
    assert len(left) == (function is not _written)


def _rewritten(function: Function, data: tuple[Tensor, ...], mode: str) -> torch.fx.GraphModule:
    """The graph that Inductor gets after autograd, rewritten by cpuaccel's pass."""
    module = make_fx(function, decompositions.select_decomp_table(), mode)(*data)
    row_sums.rewrite(module.graph)
    module.graph.lint()
    module.recompile()
    return module


def _targets(graph: Graph) -> list[str]:
    """The targets of all nodes that add by an index."""
    kinds = ("index_sum", "index_add", "index_put", "scatter")
    names = (str(node.target) for node in graph.nodes if node.op == "call_function")
    return [name for name in names if any(kind in name for kind in kinds)]


_READ = {"index": True, "index_select": False, "gather": False}
_ADDED = {"index_put": True, "index_add": False, "scatter_add": False, "scatter_reduce": False}
"""Whether each op accepts negative indices."""


@pytest.mark.parametrize("read", _READ)
@pytest.mark.parametrize("added", _ADDED)
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
def test_index_sum_takes_what_the_named_ops_take(read: str, added: str, index: torch.dtype) -> None:
    x, src, dst, w = _data()
    src, dst = src.to(index), dst.to(index)
    op = torch.ops.cpuaccel.index_sum
    good = op(x, src, dst, w, _N, read, added)
    kinds = (IndexError, RuntimeError)
    for numbers, name, wraps in ((src, read, _READ[read]), (dst, added, _ADDED[added])):
        kept = int(numbers[3])
        for bad in (_N, -_N - 1, -100, *([] if wraps else [-1])):
            numbers[3] = bad
            low = -_N if wraps else 0
            message = f"{name}: expected index to be at least {low} and below 30, .* got {bad}$"
            with pytest.raises(kinds, match=message):
                op(x, src, dst, w, _N, read, added)
        numbers[3] = kept - _N if wraps else kept
        # It must not use the cached order of indices that the other rule accepted.
        assert torch.equal(op(x, src, dst, w, _N, read, added), good)
        numbers[3] = kept


def test_numbers_kept_for_one_rule_are_an_error_by_another() -> None:
    x, src, dst, w = _data()
    src[3], dst[5] = -1, -2
    op = torch.ops.cpuaccel.index_sum
    op(x, src, dst, w, _N, "index", "index_put")
    for read, added in (("index", "scatter_add"), ("gather", "index_put")):
        with pytest.raises(RuntimeError, match=r"expected index to be at least 0 .* got -[12]$"):
            op(x, src, dst, w, _N, read, added)
    with pytest.raises(RuntimeError, match=r"the name of an op .* but got nothing"):
        op(x, src, dst, w, _N, "nothing")


def _by_scatter_add(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    index = dst[:, None].expand(-1, _K)
    return torch.zeros_like(x).scatter_add(0, index, x[src] * w[:, None])


def _by_scatter_reduce(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    index = dst[:, None].expand(-1, _K)
    return torch.zeros_like(x).scatter_reduce(0, index, x[src] * w[:, None], "sum")


def _by_gather(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    rows = x.gather(0, src[:, None].expand(-1, _K))
    return torch.zeros_like(x).index_put((dst,), rows * w[:, None], accumulate=True)


def _by_index_put(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    return torch.zeros_like(x).index_put((dst,), x[src] * w[:, None], accumulate=True)


def _not_fused(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
    index = dst[:, None].expand(-1, _K)
    return torch.zeros_like(x).scatter_add(0, index, (x[src] * w[:, None]).exp())


@pytest.mark.parametrize(
    "function",
    [_by_scatter_add, _by_scatter_reduce, _by_gather, _by_index_put, _not_fused],
)
def test_compiled_graphs_take_the_negative_numbers_that_eager_takes(function: Function) -> None:
    torch._dynamo.reset()
    with torch._inductor.config.patch({"cpp.simdlen": 1}):
        compiled = torch.compile(function, fullgraph=True)
        # Inductor's own loops abort the process at a bad index if they have threads.
        for which in (2,) if function is _not_fused else (1, 2):
            for bad in (-1, -_N, -100, _N):
                data = _data()
                data[which][3] = bad
                try:
                    expected = function(*data)
                except (IndexError, RuntimeError):
                    with pytest.raises((IndexError, RuntimeError)) as error:
                        compiled(*data)
                    assert "edge_index" not in str(error.value)
                else:
                    torch.testing.assert_close(compiled(*data), expected)


def _mean(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    return torch.index_reduce(x, 0, index, source, "mean", include_self=False)


def _sums_of_one_tensor(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    first = (x + 1).index_put((index,), source.exp(), accumulate=True)
    return first - torch.zeros_like(x).index_put((index,), source.sin(), accumulate=True)


@pytest.mark.parametrize("function", [_mean, _sums_of_one_tensor])
def test_a_compiled_sum_is_not_written_over_while_it_is_read(function: Any) -> None:
    x, source = torch.randn(9, 5), torch.randn(7, 5)
    index = torch.tensor([0, 3, 3, 8, 1, 0, 0])
    torch._dynamo.reset()
    with torch._inductor.config.patch({"cpp.simdlen": 1}):
        found = torch.compile(function, fullgraph=True)(x, index, source)
    torch.testing.assert_close(found, function(x, index, source))


def test_index_sum_keeps_the_order_of_an_index() -> None:
    x, src, dst, _ = _data()
    op = torch.ops.cpuaccel.index_sum
    cpuaccel.clear_caches()
    with counted() as counts:
        for _ in range(3):
            op(x, src, dst, None, _N)
    assert counts.calls["sort_edges.cpuaccel"] == 1
    src[0] = (src[0] + 1) % _N
    with counted() as counts:
        found = op(x, src, dst, None, _N)
    assert counts.calls["sort_edges.cpuaccel"] == 1
    torch.testing.assert_close(found, torch.zeros_like(x).index_add(0, dst, x[src]))


@pytest.mark.parametrize("heads", [0, 2])
def test_opcheck_of_index_sum(heads: int) -> None:
    x, src, dst, w = _data()
    weight = torch.rand(_E, heads) if heads else w
    torch.library.opcheck(torch.ops.cpuaccel.index_sum.default, (x, src, dst, weight, _N))


# Registration


def test_registered_when_inductor_is_imported(tmp_path: Path) -> None:
    code = """
import sys, torch
assert "torch._inductor.compile_fx" not in sys.modules
assert "cpuaccel._inductor.row_sums" not in sys.modules
import torch._inductor.compile_fx
from torch._inductor.codegen import common
print(type(common.custom_backend_passes["cpu"]).__module__)
"""
    assert run_python(code, cwd=tmp_path) == "cpuaccel._inductor.graph_pass"


def test_registered_once_where_inductor_was_imported_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    common = pytest.importorskip("torch._inductor.codegen.common")
    before = _Before()
    monkeypatch.setitem(common.custom_backend_passes, "cpu", before)
    for _ in range(2):
        with off():
            pass
        ours = common.custom_backend_passes["cpu"]
        assert isinstance(ours, graph_pass.GraphPass)
        assert ours.uuid()[0] == before.uuid()


class _Before:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, module: torch.fx.GraphModule) -> None:
        self.calls += 1

    def uuid(self) -> str:
        return "before"


def test_the_switch_changes_what_is_done_and_the_key_of_caches() -> None:
    before = _Before()
    ours = graph_pass.GraphPass(before)
    module = make_fx(_passed, decompositions.select_decomp_table(), "fake")(*_data())
    on = ours.uuid()
    with off():
        assert ours.uuid() != on
        ours(module)
    assert _INDEX_SUM not in _targets(module.graph)
    assert ours.uuid() == on
    ours(module)
    assert _INDEX_SUM in _targets(module.graph)
    assert before.calls == 2


def test_ahead_of_time_graphs_have_no_cpuaccel_op() -> None:
    virtualized = pytest.importorskip("torch._inductor.virtualized")
    ours = graph_pass.GraphPass(None)
    module = make_fx(_passed, decompositions.select_decomp_table(), "fake")(*_data())
    with virtualized.V.set_aot_compilation(True):
        ours(module)
    assert _INDEX_SUM not in _targets(module.graph)


# Compiled graphs


def _compiled(function: Function, *inputs: Any, **options: Any) -> tuple[Any, str]:
    """The function's result after its backward, and the generated code."""
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, **options)

    def run() -> Any:
        result = compiled(*inputs)
        result.backward()
        return result

    # Scalar loops, because the C++ compiler takes a while for vectorized ones.
    with torch._inductor.config.patch({"cpp.simdlen": 1}):
        result, codes = utils.run_and_get_code(run)
    return result, "\n".join(codes)


def test_compiled_sums_of_sizes_not_known() -> None:
    def total(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
        return (_passed(x, src, dst, w) * w[:_N, None]).sum()

    x, src, dst, w = _data()
    src -= _N
    seen: list[Graph] = []
    needs = x.clone().requires_grad_()
    # The user's own pass is kept, in its place.
    with torch._inductor.config.patch(post_grad_custom_pre_pass=seen.append):
        result, code = _compiled(total, needs, src, dst, w, dynamic=True)
    assert len(seen) == 2
    assert code.count("cpuaccel.index_sum.default(") == 2
    assert "atomic_add" not in code
    expected = x.clone().requires_grad_()
    other = total(expected, src, dst, w)
    other.backward()
    torch.testing.assert_close(result, other)
    torch.testing.assert_close(needs.grad, expected.grad)


def test_off_compiles_torch() -> None:
    def total(x: Tensor, src: Tensor, dst: Tensor, w: Tensor) -> Tensor:
        return _passed(x, src, dst, w).sum()

    torch.set_num_threads(2)  # one thread adds without atomics
    x, src, dst, w = _data()
    x.requires_grad_()
    with off():
        _, code = _compiled(total, x, src, dst, w)
    assert "cpuaccel" not in code
    assert "atomic_add" in code


@pytest.mark.parametrize(
    ("name", "accelerated", "op"),
    [
        ("GCN", False, "index_sum"),
        ("GAT", False, "index_sum"),
        ("GAT", True, "gat_sum_backward"),
    ],
)
def test_compiled_training_step(pyg: Any, name: str, accelerated: bool, op: str) -> None:
    layer = LAYERS[name](pyg.nn)
    plain, other = Step(copy.deepcopy(layer)), Step(layer)
    if accelerated:
        gnn.accelerate(other)
    x, edge_index = graph()
    loss, code = _compiled(other, x, edge_index)
    assert op in code
    assert "atomic_add" not in code
    expected = plain(x, edge_index)
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads(other), grads(plain), rtol=1e-4, atol=1e-5)
