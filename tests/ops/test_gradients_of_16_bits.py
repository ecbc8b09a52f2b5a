"""Gradients of convolutions and attention in bf16 and f16, which are computed in f32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from quant._engine import needs_plugin
from torch import Tensor

from ops._compare import capped, isas

pytestmark = needs_plugin

_EPSILON = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
halves = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def _gradients(run: Callable[..., Tensor], operands: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in operands]
    result = run(*leaves)
    weights = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).view_as(result)
    result.backward(weights.to(result.dtype))
    return [x.grad for x in leaves if x.grad is not None]


def _check(run: Callable[..., Tensor], operands: list[Tensor], dtype: torch.dtype) -> None:
    """Each gradient is that of float64 up to the roundings of the saved result and of itself."""
    found = _gradients(run, operands)
    exact = _gradients(run, [x.double() for x in operands])
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.dtype == dtype
        largest = float(theirs.abs().max())
        torch.testing.assert_close(
            ours.double(), theirs, rtol=2 * _EPSILON[dtype], atol=4 * _EPSILON[dtype] * largest
        )


@halves
@isas
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions(dims: int, transposed: bool, isa: str, dtype: torch.dtype) -> None:
    convolve = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    x = torch.randn(2, 8, *[7] * dims).to(dtype)
    weight = torch.randn(8, 4, *[3] * dims).to(dtype)
    bias = torch.randn(8).to(dtype)  # a group has four input or output channels
    with capped(isa):
        _check(
            lambda *operands: convolve(*operands, stride=2, padding=1, groups=2),
            [x, weight, bias],
            dtype,
        )


@halves
def test_a_gradient_that_was_not_asked_for_stays_undefined(dtype: torch.dtype) -> None:
    x = torch.randn(1, 4, 9, 9).to(dtype)
    weight = torch.randn(6, 4, 3, 3).to(dtype).requires_grad_()
    with capped("ref"):
        F.conv2d(x, weight).sum().backward()
    assert weight.grad is not None
    assert x.grad is None


@halves
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_keep_the_layout_of_torchs(
    layout: torch.memory_format, dtype: torch.dtype
) -> None:
    x = torch.randn(2, 8, 6, 6).to(dtype).contiguous(memory_format=layout).requires_grad_()
    weight = torch.randn(4, 8, 3, 3).to(dtype).contiguous(memory_format=layout).requires_grad_()
    wide = [t.detach().float().requires_grad_() for t in (x, weight)]
    F.conv2d(x, weight).sum().backward()
    F.conv2d(*wide).sum().backward()
    assert x.grad is not None
    assert wide[0].grad is not None
    assert x.grad.stride() == wide[0].grad.stride()


@halves
@isas
@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "bool mask"])
def test_attention(kind: str, isa: str, dtype: torch.dtype) -> None:
    N, H, L, S, E = 2, 3, 41, 53, 16
    if kind == "causal":
        S = L
    q, k, v = (torch.randn(N, H, n, E).to(dtype) for n in (L, S, S))
    # The mask has the same numbers in each dtype.
    mask = torch.randn(L, S).to(dtype) if kind == "mask" else torch.rand(L, S) < 0.7

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if kind == "plain" or kind == "causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=kind == "causal")
        here = mask.to(q.dtype) if kind == "mask" else mask
        return F.scaled_dot_product_attention(q, k, v, attn_mask=here)

    with capped(isa):
        _check(attend, [q, k, v], dtype)
