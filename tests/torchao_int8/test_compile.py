"""torchao's layers under torch.compile, torch.export, optimize, save and aot_compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from compile._compiled import needs_onednn
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from torchao_int8._layers import KINDS, Kind, by_cpuaccel

pytestmark = needs_onednn

some = pytest.mark.parametrize(
    "kind",
    [KINDS[name] for name in ("dynamic", "tensor asymmetric", "static", "weight only")],
    ids=lambda kind: kind.name,
)


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(24, 48), nn.LayerNorm(48), nn.Linear(48, 24)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.norm(nn.functional.gelu(self.up(x))))


def _block(kind: Kind) -> nn.Module:
    return kind.quantized(_Block())


def _ops(graph: Any) -> list[str]:
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


def _assert_as_eager(compiled: Any, model: nn.Module, kind: Kind, *inputs: Tensor) -> None:
    with torch.no_grad():
        for x in inputs:
            actual = by_cpuaccel(compiled, x, kind=kind)
            assert_close(actual, model(x), rtol=1e-3, atol=2e-2 if kind.rows != "none" else 1e-4)


@some
def test_backend_cpuaccel(kind: Kind) -> None:
    model = _block(kind)
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    x = torch.randn(6, 24)
    with torch.no_grad():
        compiled(x)
    _assert_as_eager(compiled, model, kind, x, torch.randn(6, 24))


def test_inductor() -> None:
    kind = KINDS["dynamic"]
    model = _block(kind)
    compiled = torch.compile(model, fullgraph=True)
    with torch.no_grad():
        compiled(torch.randn(6, 24))
    _assert_as_eager(compiled, model, kind, torch.randn(6, 24))


@some
def test_export_has_one_op_for_a_layer(kind: Kind) -> None:
    model, x = _block(kind), torch.randn(6, 24)
    program = torch.export.export(model, (x,))
    assert _ops(program.graph).count("cpuaccel.int8_linear.default") == 2
    assert torch.equal(program.module()(x), model(x))


def test_export_of_any_number_of_rows() -> None:
    kind = KINDS["dynamic"]
    model = _block(kind)
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(model, (torch.randn(6, 24),), dynamic_shapes=({0: rows},))
    for count in (2, 9):
        x = torch.randn(count, 24)
        assert torch.equal(program.module()(x), model(x))


def _assert_optimized_as_eager(optimized: Any, model: nn.Module, kind: Kind, x: Tensor) -> None:
    """A small model may run as it is, where its plan is not faster: on the same kernels."""
    cpuaccel.reset_stats()
    with torch.no_grad():
        assert_close(optimized(x), model(x), rtol=1e-3, atol=2e-2 if kind.rows != "none" else 1e-4)
    assert cpuaccel.stats()["calls"].get(kind.counted, 0) >= 4


@some
def test_optimize_and_save(kind: Kind, tmp_path: Path) -> None:
    model, x = _block(kind), torch.randn(6, 24)
    optimized = cpuaccel.optimize(model, (x,))
    _assert_optimized_as_eager(optimized, model, kind, x)
    file = tmp_path / "model.pt2"
    cpuaccel.save(optimized, file)
    _assert_optimized_as_eager(cpuaccel.load(file), model, kind, x)


def test_optimize_notices_changed_weights() -> None:
    kind = KINDS["dynamic"]
    model, x = _block(kind), torch.randn(6, 24)
    optimized: Any = cpuaccel.optimize(model, (x,))
    optimized(x)
    layer: Any = model.up
    with torch.no_grad():
        layer.weight.qdata.clamp_(-30, 30)
        layer.weight.scale.mul_(2)
    _assert_optimized_as_eager(optimized, model, kind, x)


def test_gradients_under_compile() -> None:
    kind = KINDS["dynamic"]
    model = _block(kind)
    gradients = []
    for run in (model, torch.compile(model, backend="aot_eager", fullgraph=True)):
        x = torch.linspace(-1, 1, 96).reshape(4, 24).requires_grad_()
        run(x).square().sum().backward()
        assert x.grad is not None
        gradients.append(x.grad)
    assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
