"""Weights and values of the whole int8 range, with and without VNNI: no 16-bit saturation."""

from __future__ import annotations

from pathlib import Path

import pytest
from _process import run_python

from compile._compiled import needs_onednn

pytestmark = needs_onednn

_SCRIPT = """
import torch
import torch.nn.functional as F

import cpuaccel
from cpuaccel import _decomposed_ops
from cpuaccel.compile.common import report

torch.manual_seed(0)
q = torch.ops.quantized_decomposed


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sizes_of = {"a": (16, 16, 3, 3), "b": (16, 16, 1, 1), "c": (24, 16), "d": (16, 1, 3, 3)}
        for name, sizes in sizes_of.items():
            self.register_buffer(name, torch.randint(-128, 128, sizes, dtype=torch.int8))
            self.register_buffer(name + "_scales", torch.rand(sizes[0]) / 1000 + 1e-3)
            self.register_buffer(name + "_zero_points", torch.zeros(sizes[0], dtype=torch.int64))

    def weight(self, name):
        values = (getattr(self, name + end) for end in ("", "_scales", "_zero_points"))
        return q.dequantize_per_channel(*values, 0, -128, 127, torch.int8)

    def forward(self, x):
        x = rounded(x, 0.01)
        y = rounded(F.silu(F.conv2d(x, self.weight("a"), padding=1)), 0.1)
        y = rounded(F.hardswish(F.conv2d(y, self.weight("d"), padding=1, groups=16)), 0.1)
        y = rounded(F.relu(F.conv2d(y, self.weight("b")) + x), 0.5)
        return F.linear(rounded(y.mean((2, 3)), 0.2), self.weight("c"))


def rounded(x, scale):
    codes = q.quantize_per_tensor(x, scale, 128, 0, 255, torch.uint8)
    return q.dequantize_per_tensor(codes, scale, 128, 0, 255, torch.uint8)


model, x = Layers().eval(), torch.randn(2, 16, 9, 9)
with torch.no_grad():
    expected = model(x)
    found = cpuaccel.optimize(model, (x,))(x)
error = float((found - expected).norm() / expected.norm())
kinds = [kind for one in report.reports() for part in one.kinds() for kind in part]
assert error < 0.02, error
assert kinds.count("q_conv") >= 2 and "q_linear" in kinds and "HardSwish" not in kinds, kinds
print("fine")
"""


@pytest.mark.parametrize("isa", ["auto", "avx2", "ref"])
def test_it_is_exact(isa: str, tmp_path: Path) -> None:
    said = run_python(_SCRIPT, cwd=tmp_path, CPUACCEL_MAX_ISA=isa, CPUACCEL_DETERMINISTIC="1")
    assert said == "fine"
