"""Weights that change after compilation: nothing that was made of the old ones is used again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from _settings import setting
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn, normed

pytestmark = needs_onednn


def _model() -> Any:
    return normed(16, 32)


def _x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 16, 9, 9)


def _swap(model: Any) -> None:
    model.conv.weight = nn.Parameter(torch.randn_like(model.conv.weight))


def _load(model: Any) -> None:
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})


def _numpy(model: Any) -> None:
    model.conv.weight.detach().numpy()[...] *= 2


CHANGES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda model: model.conv.weight.mul_(2),
    "bias": lambda model: model.conv.bias.add_(1),
    "statistics": lambda model: model.norm.running_mean.add_(1),
    "data": lambda model: model.conv.weight.data.mul_(2),
    "new data": lambda model: setattr(model.conv.weight, "data", model.conv.weight * 2),
    "numpy": _numpy,
    "load_state_dict": _load,
    "another parameter": _swap,
    "one number of a small one": lambda model: model.norm.weight.data[3].add_(1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_followed(change: Callable[[Any], Any]) -> None:
    model = _model()
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel")
        before = compiled(_x())
        change(model)
        after = compiled(_x())
        torch.testing.assert_close(after, model(_x()), atol=1e-4, rtol=1e-4)
        assert not torch.equal(before, after)


def test_one_number_written_without_a_trace_is_found_in_64_calls() -> None:
    model = _model()
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel")
        compiled(_x())
        model.conv.weight.data.view(-1)[1234] += 3
        for _ in range(64):
            found = compiled(_x())
        torch.testing.assert_close(found, model(_x()), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("first", [0, 100, 1008])
def test_64_kib_written_without_a_trace_are_found_at_once(first: int) -> None:
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()).eval()
    x = torch.randn(4, 1024)
    with torch.no_grad():
        compiled = cpuaccel.optimize(model, (x,), time_budget=0)
        before = compiled(x)
        model[0].weight.data[first : first + 16] += 1
        torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)
        assert not torch.equal(before, compiled(x))


def test_one_number_of_many_is_found_in_64_calls() -> None:
    model = nn.Sequential(nn.Linear(1000, 1000), nn.ReLU()).eval()
    x = torch.ones(4, 1000)
    with torch.no_grad():
        compiled = cpuaccel.optimize(model, (x,), time_budget=0)
        for place in (0, 123456, 999999):
            compiled(x)
            model[0].weight.data.view(-1)[place] += 100
            for _ in range(64):
                found = compiled(x)
            torch.testing.assert_close(found, model(x), atol=1e-3, rtol=1e-4)


def test_weights_that_are_gone_are_let_go() -> None:
    with torch.no_grad():
        torch._dynamo.reset()
        cpuaccel.clear_caches()
        for _ in range(4):
            model = _model()
            torch.compile(model, backend="cpuaccel")(_x())
            torch._dynamo.reset()
            del model
            gc.collect()
        torch.compile(_model(), backend="cpuaccel")(_x())
    assert cpuaccel.stats()["graph_cache"]["size"] <= 2


def test_layers_of_one_shape_have_their_own_weights() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))).eval()
    x = torch.randn(1, 8, 9, 9)
    with torch.no_grad():
        torch._dynamo.reset()
        torch.testing.assert_close(
            torch.compile(model, backend="cpuaccel")(x), model(x), atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("rows", [1, 32, 200])
def test_one_weight_read_both_ways(rows: int) -> None:
    torch.manual_seed(0)
    model = Lambda(
        lambda self, x: torch.tanh(torch.tanh(F.linear(x, self.last.weight)) @ self.last.weight),
        last=nn.Linear(96, 96),
    ).eval()
    x = torch.randn(rows, 96)
    with torch.no_grad():
        torch._dynamo.reset()
        expected = model(x)
        for run in (torch.compile(model, backend="cpuaccel"), _optimized(model, x)):
            torch.testing.assert_close(run(x), expected, atol=1e-5, rtol=1e-4)


def _optimized(model: nn.Module, x: Tensor) -> nn.Module:
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "plan", optimized.verdict
    return optimized


def test_the_cache_is_bounded_and_counted() -> None:
    model = _model()
    with setting("graph_cache_capacity", 3):
        with torch.no_grad():
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
            cpuaccel.reset_stats()
            for size in (8, 9, 10, 11, 12, 12):
                x = torch.randn(1, 16, size, size)
                torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)
        stats = cpuaccel.stats()["graph_cache"]
        assert stats["size"] == stats["capacity"] == 3
        assert stats["misses"] == 5
        assert stats["hits"] == 1
        assert stats["evictions"] >= 2
