"""torchao's weights of 1 to 8 bits by groups (IntxUnpackedToInt8Tensor) on cpuaccel's kernels."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from compile._compiled import needs_onednn
from quant._engine import counted, needs_plugin
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from torchao_intx._layers import config, counted_op, quantization

pytestmark = needs_plugin

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _configs() -> Iterator[tuple[str, Any]]:
    groups = {"group 32": quantization.PerGroup(32), "row": quantization.PerAxis(0)}
    for bits in (4, 8, 3):
        for name, granularity in groups.items():
            yield f"{bits} bits, {name}", config(bits, granularity)
            yield f"{bits} bits, {name}, int8 rows", config(bits, granularity, int8_rows=True)
    asymmetric = quantization.MappingType.ASYMMETRIC
    yield (
        "4 bits, zero points",
        config(4, quantization.PerGroup(32), mapping_type=asymmetric),
    )


_CONFIGS = dict(_configs())
some = pytest.mark.parametrize("name", list(_CONFIGS))


def _model(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 40, bias=False)).to(dtype)
    quantization.quantize_(model.eval(), _CONFIGS[name])
    return model


def _by_torchao(model: nn.Module, x: Tensor) -> Tensor:
    cpuaccel.disable()
    try:
        result: Tensor = model(x)
        return result
    finally:
        cpuaccel.enable()


def _counted_op(name: str) -> str:
    return counted_op("int8 rows" in name)


@some
@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@torch.no_grad()
def test_results_are_torchaos_within_rounding(name: str, dtype: torch.dtype) -> None:
    model = _model(name, dtype)
    for shape in ((1, 64), (7, 64), (2, 20, 64), (64,)):
        x = torch.randn(shape).to(dtype)
        with counted() as counts:
            result = model(x)
        assert counts.calls[_counted_op(name)] == 2
        assert not counts.fallbacks
        expected = _by_torchao(model, x)
        assert result.dtype == dtype
        tolerance = 64 * torch.finfo(dtype).eps * float(expected.abs().max())
        # One integer of a row that lies between two may be rounded to the other.
        tolerance += 0.02 if "int8 rows" in name else 0.0
        assert_close(result.float(), expected.float(), rtol=0, atol=tolerance)


@some
@torch.no_grad()
def test_copies_and_state_dicts(name: str) -> None:
    model, x = _model(name), torch.randn(3, 64)
    expected = model(x)
    assert torch.equal(copy.deepcopy(model)(x), expected)
    other = _model(name)
    other.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(other(x), expected)


@needs_onednn
@pytest.mark.parametrize("name", ["4 bits, group 32", "4 bits, group 32, int8 rows"])
@pytest.mark.parametrize("backend", ["inductor", "cpuaccel"])
@torch.no_grad()
def test_compiled(name: str, backend: str) -> None:
    model, x = _model(name), torch.randn(6, 64)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    compiled(x)
    with counted() as counts:
        result = compiled(x)
    assert counts.calls[_counted_op(name)] == 2
    assert_close(result, model(x), rtol=1e-4, atol=2e-2 if "int8 rows" in name else 1e-4)


@some
def test_explained(name: str) -> None:
    first, last = (
        row for row in cpuaccel.explain(_model(name)).rows if row.kernel in ("gemm_wq", "qgemm_wq")
    )
    assert (first.kernel == "qgemm_wq") == ("int8 rows" in name)
    bits = 8 if name.startswith("8") else 4
    group = 64 if "row" in name.split(", ") else 32
    assert first.problem == f"w{bits} 96x64 g{group}"
    assert "torchao's int" in last.reason


@torch.no_grad()
def test_exported() -> None:
    model, x = _model("4 bits, group 32"), torch.randn(6, 64)
    program = torch.export.export(model, (x,))
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count("cpuaccel.intx_linear.default") == 2
    assert_close(program.module()(x), model(x))


def test_lora_on_top_learns() -> None:
    """torchao's gradient of the input is that of the dequantized weight here too."""
    model, x = _model("4 bits, group 32, int8 rows"), torch.randn(5, 64, requires_grad=True)
    model(x).sum().backward()
    assert x.grad is not None
    assert float(x.grad.abs().max()) > 0


@torch.no_grad()
def test_switched_off_it_is_torchaos() -> None:
    model, x = _model("4 bits, group 32"), torch.randn(3, 64)
    cpuaccel.disable()
    try:
        with counted() as counts:
            model(x)
        assert _counted_op("") not in counts.calls
    finally:
        cpuaccel.enable()
