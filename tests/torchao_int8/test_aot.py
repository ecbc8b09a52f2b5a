"""torchao's layers compiled ahead of time, by cpuaccel and by torch's own AOTInductor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from compile._compiled import needs_onednn
from torch import nn
from torch.testing import assert_close

import cpuaccel
from torchao_int8._layers import KINDS, Kind, by_cpuaccel

pytestmark = needs_onednn

some = pytest.mark.parametrize(
    "kind",
    [KINDS[name] for name in ("dynamic", "static", "weight only")],
    ids=lambda kind: kind.name,
)


def _mlp(kind: Kind) -> nn.Module:
    return kind.quantized(nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 16)))


@some
def test_aot_compile(kind: Kind, tmp_path: Path) -> None:
    model, x = _mlp(kind), torch.randn(5, 24)
    file = tmp_path / "model.pt2"
    with torch.no_grad():
        cpuaccel.aot_compile(model, (x,), file)
        loaded = cpuaccel.load(file)
        found = by_cpuaccel(loaded, x, kind=kind)
        assert cpuaccel.stats()["calls"]["graph_region.cpuaccel"] == 1
        assert torch.equal(found, model(x))


def test_aot_compile_for_any_number_of_rows(tmp_path: Path) -> None:
    kind = KINDS["dynamic"]
    model, rows = _mlp(kind), torch.export.Dim("rows", min=2, max=64)
    file = tmp_path / "model.pt2"
    with torch.no_grad():
        cpuaccel.aot_compile(model, (torch.randn(5, 24),), file, dynamic_shapes=({0: rows},))
        loaded = cpuaccel.load(file)
        for count in (2, 9, 33):
            x = torch.randn(count, 24)
            assert torch.equal(by_cpuaccel(loaded, x, kind=kind), model(x))


def test_torchs_own_package(tmp_path: Path) -> None:
    """aoti_compile_and_package: the package calls the op, which a process that loads it has."""
    kind = KINDS["dynamic"]
    model, x = _mlp(kind), torch.randn(5, 24)
    inductor: Any = torch._inductor
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        file = inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "own.pt2"))
        loaded = inductor.aoti_load_package(file)
        assert_close(by_cpuaccel(loaded, x, kind=kind), model(x), rtol=1e-5, atol=1e-5)
