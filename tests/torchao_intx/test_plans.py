"""Plan steps of linear layers with groups: what they compute and fuse, in every way to run them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from compile._compiled import needs_onednn
from quant._engine import counted, needs_plugin
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from torchao_intx._layers import config, counted_op, packed, quantization

pytestmark = [needs_plugin, needs_onednn]

_ASYMMETRIC = quantization.MappingType.ASYMMETRIC
_CONFIGS = {
    "4 bits": config(4, quantization.PerGroup(32)),
    "4 bits, zero points": config(4, quantization.PerGroup(16), mapping_type=_ASYMMETRIC),
    "8 bits": config(8, quantization.PerGroup(32)),
    "4 bits, int8 rows": config(4, quantization.PerGroup(32), int8_rows=True),
    "8 bits, int8 rows": config(8, quantization.PerAxis(0), int8_rows=True),
}
_FORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "torchao": lambda model: model,
    "packed": packed,
}
some = pytest.mark.parametrize("name", _CONFIGS)
forms = pytest.mark.parametrize("form", _FORMS)


def _quantized(model: nn.Module, name: str, form: str) -> nn.Module:
    quantization.quantize_(model.eval(), _CONFIGS[name])
    return _FORMS[form](model)


@pytest.fixture(autouse=True)
def _no_recompilations() -> None:
    """Dynamo counts the graphs of all models under one limit, which fullgraph makes an error."""
    torch._dynamo.reset()


def _two_layers(name: str, form: str) -> nn.Module:
    torch.manual_seed(3)
    return _quantized(nn.Sequential(nn.Linear(64, 96), nn.Linear(96, 40, bias=False)), name, form)


def _rows(name: str) -> list[str]:
    return ["quantize rows"] if "int8 rows" in name else []


def _steps(optimized: Any, *inputs: Tensor) -> list[str]:
    plans = cpuaccel.explain(optimized, inputs).plans
    return [step.kinds for plan in plans for step in plan.steps]


def _check(run: Any, x: Tensor, expected: Tensor, name: str) -> None:
    """`run` gives the bits of eager mode, by two steps of one plan."""
    calls = _calls_of(run, x, expected, name)
    assert calls["graph_region.cpuaccel"] == 1


def _calls_of(run: Any, x: Tensor, expected: Tensor, name: str) -> dict[str, int]:
    """`run` gives the bits of eager mode by the two layers' kernels; return what was called."""
    with counted() as counts:
        result = run(x)
    assert torch.equal(result, expected)
    assert counts.calls[counted_op("int8 rows" in name)] == 2
    assert not counts.fallbacks
    return counts.calls


@some
@forms
@torch.no_grad()
def test_every_way_runs_the_kernel(name: str, form: str, tmp_path: Path) -> None:
    model, x = _two_layers(name, form), torch.randn(7, 64)
    expected = model(x)
    _calls_of(torch.compile(model, fullgraph=True), x, expected, name)
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    compiled(x)
    _check(compiled, x, expected, name)
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    layer = [*_rows(name), "intx_linear"]
    assert _steps(optimized, x) == [*layer, *layer]
    _check(optimized, x, expected, name)
    more = torch.randn(33, 64)
    optimized(more)
    _check(optimized, more, model(more), name)
    cpuaccel.save(optimized, tmp_path / "model.pt2")
    _check(cpuaccel.load(tmp_path / "model.pt2"), x, expected, name)
    _calls_of(cpuaccel.prepack(model), x, expected, name)


class _Gated(nn.Module):
    """The feed-forward block of Llama, with its residual."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(64, 96), nn.Linear(64, 96, bias=False)
        self.down = nn.Linear(96, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


@some
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.no_grad()
def test_gates_and_residuals_are_part_of_the_layers(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    model = _quantized(_Gated().to(dtype), name, "packed")
    optimized = cpuaccel.optimize(model, (torch.randn(2, 3, 64).to(dtype),), time_budget=0)
    rounding = _rows(name)
    layers = [*rounding, "intx_linear", "intx_linear", *rounding, "intx_linear"]
    for rows in (3, 40):
        x = torch.randn(2, rows, 64).to(dtype)
        assert _steps(optimized, x) == layers
        expected = model(x).float()
        # One integer of a row may be rounded to the other of two.
        share = 8 * torch.finfo(dtype).eps + (0.01 if rounding else 0.0)
        atol = share * float(expected.abs().max())
        assert_close(optimized(x).float(), expected, rtol=0, atol=atol)


class _OtherOrder(nn.Module):
    """Sums and products that no step of the layer can have."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)
        z = self.second(x)
        later = torch.sin(z)
        return y + later, z * x[:1], torch.add(self.first(x), x, alpha=2), z.square()


@pytest.mark.parametrize("name", ["4 bits", "4 bits, int8 rows"])
@forms
@torch.no_grad()
def test_other_sums_and_products_stay(name: str, form: str) -> None:
    model, x = _quantized(_OtherOrder(), name, form), torch.randn(5, 64)
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    for found, expected in zip(optimized(x), model(x), strict=True):
        assert_close(found, expected, rtol=1e-5, atol=1e-5)


@some
@torch.no_grad()
def test_changed_weights(name: str) -> None:
    x = torch.randn(7, 64)
    changes: dict[str, list[Callable[[Any], Any]]] = {
        "torchao": [
            lambda layer: layer.weight.qdata.clamp_(-3, 3),
            lambda layer: layer.weight.scale.mul_(2),
            lambda layer: layer.bias.add_(1),
        ],
        "packed": [
            lambda layer: layer.packed.copy_(_other_packed(layer)),
            lambda layer: layer.bias.add_(1),
        ],
    }
    for form in _FORMS:
        model = _two_layers(name, form)
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        before = optimized(x)
        for change in changes[form]:
            change(model[0])  # type: ignore[index]
            after = optimized(x)
            assert not torch.equal(after, before)
            assert torch.equal(after, model(x))
            before = after


def _other_packed(layer: Any) -> Tensor:
    """Packed weights of the same format: those of the layer with some other codes."""
    other: Tensor = layer.packed.clone()
    other[64:68] = 0x11
    return other


@torch.no_grad()
def test_a_code_out_of_range_falls_back() -> None:
    model, x = _two_layers("4 bits", "torchao"), torch.randn(7, 64)
    model[0].weight.qdata[3, 5] = 9  # type: ignore[index]
    compiled: Any = torch.compile(model, backend="cpuaccel", fullgraph=True)
    assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


@some
@torch.no_grad()
def test_explain_has_the_rate_of_each_layer(name: str) -> None:
    torch.manual_seed(3)
    model, x = _quantized(nn.Sequential(nn.Linear(512, 512)), name, "torchao"), torch.randn(1, 512)
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    (row,) = cpuaccel.explain(model, (x,)).rows
    bits = 8 if name.startswith("8") else 4
    codes = 512 * 512 * bits // 8
    assert codes < row.packed_bytes < 1.7 * codes  # groups of 16 with scales and zero points
    assert row.microseconds > 0
    (plan,) = cpuaccel.explain(optimized, (x,)).plans
    step = next(each for each in plan.steps if each.kinds == "intx_linear")
    for gigabytes, microseconds in (
        (row.gigabytes, row.microseconds),
        (step.gigabytes, step.microseconds),
    ):
        assert gigabytes * 1e3 * microseconds == pytest.approx(row.packed_bytes + 4096, rel=0.05)
    assert 0 < row.of_bound < 2
    assert 0 < step.of_bound < 2
