"""Weights are packed once, and the unpacked copy is freed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from _process import run_python

from quant._engine import needs_front_end, running

LAYERS = 12
CHANNELS = 512
INT8_BYTES = LAYERS * CHANNELS * CHANNELS * 9

# Growth of resident memory from just before packing until after the first call. One layer runs
# before, which allocates what a process needs once (generated code, scratch memory).
CHILD = f"""
import ctypes, gc
import torch

torch.set_num_threads(1)
torch.backends.quantized.engine = "x86"
x = torch.quantize_per_tensor(torch.rand(1, {CHANNELS}, 8, 8), 0.01, 0, torch.quint8)

def packed():
    weight = torch._empty_affine_quantized(
        [{CHANNELS}, {CHANNELS}, 3, 3], scale=0.01, zero_point=0, dtype=torch.qint8)
    weight.int_repr().random_(-64, 64)
    params = torch.ops.quantized.conv2d_prepack(weight, None, [1, 1], [1, 1], [1, 1], 1)
    torch.ops.quantized.conv2d(x, params, 0.5, 0)
    return params

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096

first = packed()
before = resident()
layers = [packed() for _ in range({LAYERS})]
print(resident() - before)
"""


@needs_front_end
@pytest.mark.parametrize("provider", ["onednn", "fbgemm"])
def test_a_packed_model_needs_little_more_than_its_weights(provider: str, tmp_path: Path) -> None:
    said = run_python(CHILD, cwd=tmp_path, CPUACCEL_PROVIDER=provider)
    assert int(said) <= 1.15 * INT8_BYTES


@needs_front_end
@pytest.mark.parametrize("provider", ["onednn", "fbgemm"])
def test_the_bytes_held_are_counted(provider: str) -> None:
    import cpuaccel

    def held() -> int:
        return cpuaccel.stats()["memory"]["packed_weight_bytes"]

    before = held()
    weight = torch.quantize_per_tensor(torch.randn(64, 64, 3, 3), 0.1, 0, torch.qint8)
    x = torch.quantize_per_tensor(torch.rand(1, 64, 8, 8), 0.01, 0, torch.quint8)
    with running(provider):
        params = torch.ops.quantized.conv2d_prepack(weight, None, [1, 1], [1, 1], [1, 1], 1)
        assert held() - before == weight.numel()
        torch.ops.quantized.conv2d(x, params, 0.5, 0)
        assert weight.numel() <= held() - before <= 1.15 * weight.numel()
    del params
    assert held() == before
