"""Ops of a captured graph that one call runs: the same results, errors and views as one by one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from cpuaccel.compile.capture import bound_ops


def _bound(of: Callable[..., Any], *args: Any) -> tuple[GraphModule, GraphModule]:
    """Return the graph of a function, and the same with bound ops."""
    plain = make_fx(of)(*args)
    graph = Graph()
    graph.output(graph.graph_copy(plain.graph, {}))
    bound_ops.bind(graph, {*graph.find_nodes(op="placeholder")}, set())
    graph.lint()
    return plain, GraphModule(plain, graph)


def _calls(made: GraphModule) -> list[str]:
    targets = [node.target for node in made.graph.nodes if node.op == "call_function"]
    return [getattr(each, "__name__", str(each)) for each in targets]


def _rotary(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    angles = positions[:, :, None].float() * frequencies
    both = torch.cat([angles, angles], -1)
    return both.cos()[:, None], both.sin()[:, None] * 2.5


def test_ops_of_a_rotary_embedding_are_one_call() -> None:
    given = torch.arange(6).reshape(2, 3), torch.rand(8)
    plain, bound = _bound(_rotary, *given)
    assert _calls(bound) == ["bound", "getitem", "getitem"]
    given = torch.arange(7, 13).reshape(2, 3), torch.rand(8)
    for found, expected in zip(bound(*given), plain(*given), strict=True):
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()


def test_arguments_of_all_kinds() -> None:
    def of(x: Tensor, y: Tensor) -> Any:
        a = torch.clamp(x, min=0) + torch.where(x > y, 1.0, y)
        b = torch.addmm(a, x, y, alpha=2).sum([0, 1], keepdim=True)
        c = torch.full((2, 2), 3, dtype=torch.float64).to(torch.bfloat16)
        d = torch.nn.functional.gelu(y, approximate="tanh").softmax(1)
        return a, b, c, d, torch.stack([x, y]), torch.nn.functional.layer_norm(x, (4,))

    given = torch.randn(4, 4), torch.randn(4, 4)
    plain, bound = _bound(of, *given)
    assert "bound" in _calls(bound)
    for found, expected in zip(bound(*given), plain(*given), strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


def test_views_stay_views() -> None:
    x = torch.randn(3, 4)
    _, bound = _bound(lambda x: x.t().unsqueeze(0)[0], x)
    assert "bound" in _calls(bound)
    assert bound(x).data_ptr() == x.data_ptr()
    assert bound(x)._is_view()


def test_ops_with_several_results_or_that_write_are_not_bound() -> None:
    def of(x: Tensor) -> Any:
        y = x + 1
        z = y.mul_(2)
        a = z.exp().neg()
        values, numbers = a.sort(1)
        return values.exp(), numbers

    x = torch.randn(3, 4)
    plain, bound = _bound(of, x)
    names = _calls(bound)
    assert names.count("bound") == 1
    assert any("sort" in each for each in names)
    assert torch.equal(bound(x)[0], plain(x)[0])


def test_lists_of_tensors() -> None:
    graph, ops = Graph(), torch.ops.aten
    x = graph.placeholder("x")
    split = graph.call_function(ops.split.Tensor, (x, 2, 1))
    whole = graph.call_function(ops.cat.default, (split, 1))
    first = graph.call_function(operator.getitem, (split, 0))
    exp = graph.call_function(ops.exp.default, (first,))
    graph.output((whole, graph.call_function(ops.neg.default, (exp,))))
    bound_ops.bind(graph, {x}, set())
    bound = GraphModule(torch.nn.Module(), graph)
    assert _calls(bound)[-3:] == ["getitem", "bound", "getitem"]
    given = torch.randn(3, 4)
    assert torch.equal(bound(given)[0], given)
    assert torch.equal(bound(given)[1], given[:, :2].exp().neg())


def test_errors_are_those_of_the_op() -> None:
    def of(numbers: Tensor, table: Tensor) -> Tensor:
        return torch.nn.functional.embedding(numbers, table).cos().sin()

    plain, bound = _bound(of, torch.tensor([1]), torch.randn(3, 2))
    assert "bound" in _calls(bound)
    for numbers in (torch.tensor([5]), torch.tensor([1.5])):
        with pytest.raises((IndexError, RuntimeError)) as expected:
            plain(numbers, torch.randn(3, 2))
        with pytest.raises(expected.type) as found:
            bound(numbers, torch.randn(3, 2))
        assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_gradients() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with torch.inference_mode():
        plain, bound = _bound(lambda x: (x.exp() * 2.5).cos().sum(), x.detach().clone())
    (found,), (expected,) = (torch.autograd.grad(made(x), x) for made in (bound, plain))
    assert torch.equal(found, expected)


def test_memory_of_results_between_ops_is_freed() -> None:
    def of(x: Tensor) -> Tensor:
        for _ in range(20):
            x = x + 1
        return x

    x = torch.zeros(1 << 20)
    _, bound = _bound(of, x)
    assert _calls(bound) == ["bound", "getitem"]
    with torch.profiler.profile(profile_memory=True) as seen:
        bound(x)
    held = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    assert most <= 3 * x.nbytes


def test_errors_of_binding() -> None:
    made: Any = torch.classes.cpuaccel.BoundOps(1)
    with pytest.raises(RuntimeError, match="no value 4"):
        made.add("aten::neg", "", [[4]], [None])
    with pytest.raises(RuntimeError, match="returns a tensor"):
        made.add("aten::sort", "", [[0], [], []], [None, 0, False])
    with pytest.raises(RuntimeError, match="expected 1 arguments"):
        made.add("aten::neg", "", [], [])
    with pytest.raises(RuntimeError, match="expected a value of type"):
        made.add("aten::unsqueeze", "", [[0], []], [None, 1.5])
    with pytest.raises(RuntimeError, match="got tensors"):
        made.add("aten::unsqueeze", "", [[0], [0]], [None, None])
    with pytest.raises(RuntimeError, match="expected 1 tensors"):
        made.run([])
