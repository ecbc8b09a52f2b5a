"""Plan steps of torchao's layers: what they compute, fuse and share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from _process import run_python
from compile._compiled import needs_onednn
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from torchao_int8 import _layers
from torchao_int8._layers import KINDS, Kind, by_cpuaccel, kinds

pytestmark = needs_onednn


class _Attention(nn.Module):
    """Three layers that read the same rows, and a residual."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm, self.heads = nn.LayerNorm(width), heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        sizes = (batch, length, self.heads, width // self.heads)
        q, k, v = (
            each(x).view(sizes).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.norm(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))


@pytest.fixture(autouse=True)
def _no_recompilations() -> None:
    """Dynamo counts the graphs of all models under one limit, which fullgraph makes an error."""
    torch._dynamo.reset()


def _optimized(model: nn.Module, *inputs: Tensor, **options: Any) -> Any:
    """Return `model` with a plan; no time is spent on comparing their speed."""
    with torch.no_grad():
        return cpuaccel.optimize(model, inputs, time_budget=0, **options)


def _steps(optimized: Any, *inputs: Tensor) -> list[str]:
    with torch.no_grad():
        plans = cpuaccel.explain(optimized, inputs).plans
    return [step.kinds for plan in plans for step in plan.steps]


def _rows(kind: Kind) -> list[str]:
    return [] if kind.rows == "none" else ["quantize rows"]


def _two_layers(kind: Kind) -> nn.Module:
    return kind.quantized(nn.Sequential(nn.Linear(40, 50), nn.Linear(50, 30, bias=False)))


@kinds
def test_layers_give_the_bits_of_eager_mode(kind: Kind) -> None:
    model, x = _two_layers(kind), torch.randn(7, 40)
    optimized = _optimized(model, x)
    assert _steps(optimized, x) == [*_rows(kind), "int8_linear", *_rows(kind), "int8_linear"]
    with torch.no_grad():
        for each in (x, torch.randn(7, 40)):
            assert torch.equal(by_cpuaccel(optimized, each, kind=kind), model(each))


@kinds
@pytest.mark.parametrize("function", [nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU()], ids=str)
def test_an_activation_is_part_of_the_step(kind: Kind, function: nn.Module) -> None:
    model = kind.quantized(nn.Sequential(nn.Linear(40, 50), function))
    x = torch.randn(7, 40)
    optimized = _optimized(model, x)
    assert _steps(optimized, x) == [*_rows(kind), "int8_linear"]
    with torch.no_grad():
        found, expected = by_cpuaccel(optimized, x, kind=kind), model(x)
    if isinstance(function, nn.ReLU):
        assert torch.equal(found, expected)
    else:
        assert_close(found, expected, rtol=2e-5, atol=2e-6)
    x[2, 3] = float("nan")
    with torch.no_grad():
        assert torch.equal(optimized(x).isnan(), model(x).isnan())


@kinds
def test_a_function_that_two_read_stays(kind: Kind) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x)
            return y + torch.relu(y)

    model, x = kind.quantized(Both()), torch.randn(5, 24)
    optimized = _optimized(model, x)
    with torch.no_grad():
        assert torch.equal(optimized(x), model(x))


@kinds
def test_layers_of_one_source_share_its_integers(kind: Kind) -> None:
    model, x = kind.quantized(_Attention()), torch.randn(2, 6, 32)
    if kind.rows == "given":
        for name in ("query", "key", "value", "out"):
            weight = getattr(model, name).weight
            weight.act_quant_scale = weight.act_quant_scale.reshape(1, 1, 1)
    optimized = _optimized(model, x)
    steps = [step for step in _steps(optimized, x) if step in ("quantize rows", "int8_linear")]
    assert steps == [*_rows(kind), *(3 * ["int8_linear"]), *_rows(kind), "int8_linear"]
    with torch.no_grad():
        assert_close(by_cpuaccel(optimized, x, kind=kind), model(x), rtol=1e-3, atol=2e-2)


def test_layers_that_quantize_differently_share_nothing() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(24, 8), nn.Linear(24, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(x) + self.b(x)

    model = Pair().eval()
    for name, kind in (("a", "dynamic"), ("b", "asymmetric")):
        layer = nn.Sequential(getattr(model, name))
        setattr(model, name, KINDS[kind].quantized(layer)[0])  # type: ignore[index]
    x = torch.randn(5, 24)
    optimized = _optimized(model, x)
    assert _steps(optimized, x).count("quantize rows") == 2
    with torch.no_grad():
        assert_close(optimized(x), model(x), rtol=1e-5, atol=1e-6)


@kinds
def test_a_sum_and_a_norm_are_one_step(kind: Kind) -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = nn.Linear(24, 24), nn.LayerNorm(24)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x + self.layer(x))

    model, x = kind.quantized(Residual()), torch.randn(5, 24)
    optimized = _optimized(model, x)
    assert _steps(optimized, x) == [*_rows(kind), "int8_linear", "Add+LayerNorm"]
    with torch.no_grad():
        assert_close(by_cpuaccel(optimized, x, kind=kind), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["dynamic", "tensor asymmetric", "static", "weight only"])
def test_compiled_for_any_number_of_rows(name: str) -> None:
    kind = KINDS[name]
    model = _two_layers(kind)
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True, dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(6, 40))
        for rows in (2, 7, 33):
            x = torch.randn(rows, 40)
            assert torch.equal(by_cpuaccel(compiled, x, kind=kind), model(x))


@pytest.mark.parametrize("name", ["dynamic", "static", "weight only"])
def test_an_optimized_model_runs_other_sizes_by_a_plan(name: str) -> None:
    kind = KINDS[name]
    model = _two_layers(kind)
    optimized = _optimized(model, torch.randn(6, 40))
    with torch.no_grad():
        for rows in (2, 7, 33):
            x = torch.randn(rows, 40)
            optimized(x)
            assert torch.equal(by_cpuaccel(optimized, x, kind=kind), model(x))
            assert cpuaccel.stats()["calls"]["graph_region.cpuaccel"] == 1


@kinds
def test_changed_weights(kind: Kind) -> None:
    model, x = _two_layers(kind), torch.randn(7, 40)
    optimized = _optimized(model, x)
    first: Any = model[0]  # type: ignore[index]
    changes: list[Callable[[], Any]] = [
        lambda: first.weight.qdata.clamp_(-30, 30),
        lambda: first.weight.scale.mul_(2),
        lambda: first.bias.add_(1),
    ]
    if kind.rows == "given":
        changes.append(lambda: first.weight.act_quant_scale.mul_(0.5))
    with torch.no_grad():
        before = optimized(x)
        for change in changes:
            change()
            after = optimized(x)
            assert not torch.equal(after, before)
            assert torch.equal(after, model(x))
            before = after


def test_scales_of_rows_that_are_given() -> None:
    kind = KINDS["static"]
    model, x = kind.quantized(nn.Sequential(nn.Linear(24, 16))), torch.randn(5, 24)
    weight: Any = model[0].weight  # type: ignore[index]
    kwargs_class = _layers.torchao_module().QuantizeTensorToInt8Kwargs
    weight.act_quant_kwargs = kwargs_class(_layers.PerRow(), _layers.MappingType.ASYMMETRIC)
    weight.act_quant_scale = torch.rand(5, 1) * 0.05 + 0.01
    weight.act_quant_zero_point = torch.randint(-9, 9, (5, 1), dtype=torch.int8)
    optimized = _optimized(model, x)
    assert _steps(optimized, x) == ["quantize rows", "int8_linear"]
    with torch.no_grad():
        assert torch.equal(optimized(x), model(x))


@kinds
def test_bfloat16(kind: Kind) -> None:
    model = kind.quantized(nn.Sequential(nn.Linear(40, 50), nn.ReLU()).bfloat16())
    x = torch.randn(7, 40).bfloat16()
    compiled: Any = torch.compile(model, backend="cpuaccel", fullgraph=True)
    with torch.no_grad():
        compiled(x)
        found = by_cpuaccel(compiled, x, kind=kind)
        assert found.dtype == torch.bfloat16
        assert torch.equal(found, model(x))


@pytest.mark.parametrize("name", ["dynamic", "weight only"])
def test_float16_stays_a_call_of_the_op(name: str) -> None:
    kind = KINDS[name]
    model = kind.quantized(nn.Sequential(nn.Linear(40, 50)).half())
    x = torch.randn(7, 40).half()
    compiled: Any = torch.compile(model, backend="cpuaccel", fullgraph=True)
    with torch.no_grad():
        compiled(x)
        assert torch.equal(by_cpuaccel(compiled, x, kind=kind), model(x))
    reasons = [reason for reason in cpuaccel.stats()["fallbacks"] if "graph" in reason]
    assert not reasons, reasons


def test_zero_points_of_the_weight_fall_back_to_torchs_ops() -> None:
    model, x = _two_layers(KINDS["dynamic"]), torch.randn(7, 40)
    first: Any = model[0]  # type: ignore[index]
    first.weight.zero_point.random_(-20, 20)
    compiled: Any = torch.compile(model, backend="cpuaccel", fullgraph=True)
    with torch.no_grad():
        assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["dynamic", "static", "weight only"])
def test_threads_give_the_same_bits(name: str) -> None:
    kind = KINDS[name]
    model = kind.quantized(nn.Sequential(nn.Linear(256, 300), nn.GELU(), nn.Linear(300, 100)))
    x = torch.randn(33, 256)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        optimized = _optimized(model, x)
        with torch.no_grad():
            results.append(by_cpuaccel(optimized, x, kind=kind))
    assert torch.equal(*results)


@kinds
def test_a_saved_plan_has_the_steps(kind: Kind, tmp_path: Path) -> None:
    model, x = _two_layers(kind), torch.randn(7, 40)
    file = tmp_path / "model.pt2"
    cpuaccel.save(_optimized(model, x), file)
    with torch.no_grad():
        loaded = cpuaccel.load(file)
        assert torch.equal(by_cpuaccel(loaded, x, kind=kind), model(x))
        assert cpuaccel.stats()["calls"]["graph_region.cpuaccel"] == 1


def test_a_file_runs_without_torchao(tmp_path: Path) -> None:
    model, x = _two_layers(KINDS["dynamic"]), torch.linspace(-1, 1, 280).reshape(7, 40)
    file = tmp_path / "model.pt2"
    cpuaccel.save(_optimized(model, x), file)
    code = f"""
import sys, torch, cpuaccel
sys.modules["torchao"] = None
loaded = cpuaccel.load({str(file)!r})
with torch.no_grad():
    print(loaded(torch.linspace(-1, 1, 280).reshape(7, 40)).double().sum().item())
"""
    with torch.no_grad():
        assert float(run_python(code)) == model(x).double().sum().item()
