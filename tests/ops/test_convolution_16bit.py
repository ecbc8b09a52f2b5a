"""bf16 and fp16 convolutions on a CPU without such arithmetic: one rounding, torch's layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from quant._engine import needs_plugin
from torch import Tensor

import cpuaccel

pytestmark = needs_plugin

_KINDS: dict[str, tuple[Callable[..., Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "conv1d": (F.conv1d, (2, 6, 17), (8, 6, 3)),
    "conv2d": (F.conv2d, (2, 6, 9, 11), (8, 6, 3, 3)),
    "conv3d": (F.conv3d, (1, 4, 5, 6, 7), (3, 4, 2, 3, 2)),
    "conv_transpose2d": (F.conv_transpose2d, (2, 6, 5, 7), (6, 4, 3, 3)),
}
_TYPES = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_the_result_is_rounded_once(dtype: torch.dtype, kind: str, biased: bool) -> None:
    torch.manual_seed(3)
    function, src, weights = _KINDS[kind]
    x, weight = torch.randn(src).to(dtype), torch.randn(weights).to(dtype)
    channels = weights[1] if "transpose" in kind else weights[0]
    bias = torch.randn(channels).to(dtype) if biased else None
    result = function(x, weight, bias)
    exact = function(x.double(), weight.double(), None if bias is None else bias.double())
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), exact, rtol=_TYPES[dtype] * 1.01, atol=1e-4)
    with cpuaccel.enabled(False):
        theirs = function(x, weight, bias)
    assert result.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("groups", [1, 8])
def test_outputs_that_see_padding_only(dtype: torch.dtype, groups: int) -> None:
    """torch's oneDNN crashes for some of these on CPUs with AVX512-BF16."""
    torch.manual_seed(4)
    x, weight = torch.randn(2, 16, 9, 1), torch.randn(16, 16 // groups, 5, 1)
    stride, padding, dilation = (3, 3), (0, 2), (1, 3)
    x, weight = x.to(dtype), weight.to(dtype)
    result = F.conv2d(x, weight, None, stride, padding, dilation, groups)
    exact = F.conv2d(x.double(), weight.double(), None, stride, padding, dilation, groups)
    torch.testing.assert_close(result.double(), exact, rtol=_TYPES[dtype] * 1.01, atol=1e-4)


def test_channels_last_stays() -> None:
    x = torch.randn(2, 16, 9, 9).bfloat16().contiguous(memory_format=torch.channels_last)
    weight = torch.randn(8, 16, 3, 3).bfloat16()
    assert F.conv2d(x, weight).is_contiguous(memory_format=torch.channels_last)


def test_mixed_types_are_torch_s_error() -> None:
    x, weight = torch.randn(1, 4, 5, 5).bfloat16(), torch.randn(2, 4, 3, 3)
    with pytest.raises(RuntimeError) as ours:
        F.conv2d(x, weight)
    with cpuaccel.enabled(False), pytest.raises(RuntimeError) as theirs:
        F.conv2d(x, weight)
    assert str(ours.value) == str(theirs.value)


def test_training_under_autocast() -> None:
    layer, x = torch.nn.Conv2d(4, 6, 3), torch.randn(2, 4, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x).float().square().mean().backward()
    ours = layer.weight.grad
    layer.weight.grad = None
    layer(x).square().mean().backward()
    assert ours is not None
    assert layer.weight.grad is not None
    torch.testing.assert_close(ours, layer.weight.grad, rtol=5e-2, atol=5e-3)
