"""Calls of `torch.ops.quantized_decomposed`, and a program that makes them without torch.ao."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch
from torch import Tensor

_DEFINING = "torch.ao.quantization.fx._decomposed"


def results() -> list[Tensor]:
    """Return the results of all ops, for ties, ends of ranges and each kind of quantizer."""
    q: Any = torch.ops.quantized_decomposed
    x = torch.cat([torch.arange(-300, 300) / 2, torch.randn(500) * 40]).view(11, 100)
    scales, zeros = torch.rand(11) + 0.5, torch.randint(-5, 5, (11,))
    found = []
    for low, high, dtype in (
        (0, 255, torch.uint8),
        (0, 127, torch.uint8),
        (-128, 127, torch.int8),
        (-64, 63, torch.int8),
    ):
        numbers = (0.5, 3, low, high, dtype)
        tensors = (torch.tensor(0.5), torch.tensor(3), low, high, dtype)
        channels = (scales, zeros, 0, low, high, dtype)
        codes = q.quantize_per_tensor(x, *numbers)
        found += [codes, q.dequantize_per_tensor(codes, *numbers)]
        found += [q.dequantize_per_tensor(codes, *numbers, out_dtype=torch.bfloat16)]
        codes = q.quantize_per_tensor.tensor(x, *tensors)
        found += [codes, q.dequantize_per_tensor.tensor(codes, *tensors)]
        codes = q.quantize_per_channel(x, *channels)
        found += [codes, q.dequantize_per_channel(codes, *channels)]
        found += [q.dequantize_per_channel(codes, scales, None, 0, low, high, dtype)]
        found += q.choose_qparams.tensor(x, low, high, 2**-12, dtype)
    found += [q.quantize_per_tensor(x.bfloat16(), 0.5, 3, 0, 255, torch.uint8)]
    meta = q.quantize_per_tensor(x.to("meta"), 0.5, 3, 0, 255, torch.uint8)
    return [*found, torch.tensor(meta.shape)]


class Layer(torch.nn.Module):
    """A linear layer between quantizers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(-50, 50, (64, 64), dtype=torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        q: Any = torch.ops.quantized_decomposed
        numbers = (0.05, 128, 0, 255, torch.uint8)
        weight = q.dequantize_per_tensor(self.codes, 0.01, 0, -128, 127, torch.int8)
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, *numbers), *numbers)
        return torch.nn.functional.linear(x, weight)


def _main(path: str) -> None:
    for name in (_DEFINING, "torchao"):
        sys.modules[name] = None  # type: ignore[assignment]
    import cpuaccel
    from cpuaccel import _decomposed_ops

    assert _decomposed_ops._libraries
    # Inductor of these versions of torch imports the module for its ops.
    sys.modules[_DEFINING] = types.ModuleType(_DEFINING)
    torch.manual_seed(0)
    torch.save(results(), path)
    layer, x = Layer().eval(), torch.randn(8, 64)
    with torch.no_grad():
        optimized = cpuaccel.optimize(layer, (x,), time_budget=0, sizes_budget=0)
        assert (optimized(x) - layer(x)).abs().max() < 1e-3
        (plan,) = cpuaccel.explain(optimized, (x,)).plans
    print([step.kinds for step in plan.steps])


if __name__ == "__main__":
    _main(sys.argv[1])
