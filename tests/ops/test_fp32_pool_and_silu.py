"""max_pool2d and silu of floats: against torch's own kernels, and silu against float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, needs_plugin, off
from torch import Tensor

from ops._compare import capped, isas

pytestmark = needs_plugin


def _pooled(x: Tensor, arguments: tuple, isa: str = "auto") -> None:
    import cpuaccel

    with cpuaccel.enabled(True), capped(isa), counted() as counts:
        ours = F.max_pool2d(x, *arguments, return_indices=True)
    with off():
        theirs = F.max_pool2d(x, *arguments, return_indices=True)
    assert counts.calls in ({}, {"max_pool2d.cpuaccel": 1})
    for a, b in zip(ours, theirs, strict=True):
        assert a.stride() == b.stride()
        assert torch.equal(a.nan_to_num(7.5), b.nan_to_num(7.5))


@isas
@given(data=st.data())
def test_pool_gives_torchs_values_and_indices(isa: str, data: st.DataObject) -> None:
    def pair(low: int, high: int) -> tuple[int, int]:
        return data.draw(st.integers(low, high)), data.draw(st.integers(low, high))

    torch.manual_seed(data.draw(st.integers(0, 1000)))
    kernel, dilation = pair(1, 4), pair(1, 3)
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [data.draw(st.integers(span, 30)) for span in spans]
    # Few distinct values: indices may differ only between equal ones.
    x = torch.randint(-3, 3, (data.draw(st.integers(1, 2)), 3, *size)).float()
    x[torch.rand(x.shape) < 0.05] = float("nan")
    x[torch.rand(x.shape) < 0.05] = -float("inf")
    layout = data.draw(st.sampled_from([torch.contiguous_format, torch.channels_last]))
    x = x.contiguous(memory_format=layout)
    _pooled(x, (kernel, pair(1, 3), padding, dilation, data.draw(st.booleans())), isa)


def test_pool_of_a_real_network() -> None:
    x = torch.randn(2, 64, 112, 112)
    with counted() as counts:
        F.max_pool2d(x, 3, 2, 1)
    assert counts.calls == {"max_pool2d.cpuaccel": 1}
    _pooled(x, (3, 2, 1))
    _pooled(x[0], (2, 2))


def test_pool_learns() -> None:
    x = torch.randn(2, 3, 9, 11, requires_grad=True)
    ours = torch.autograd.grad(F.max_pool2d(x, 3, 2, 1).square().sum(), x)[0]
    with off():
        theirs = torch.autograd.grad(F.max_pool2d(x, 3, 2, 1).square().sum(), x)[0]
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.max_pool2d(torch.randn(1, 2, 4, 4), 5),
        lambda: F.max_pool2d(torch.randn(1, 2, 4, 4), 2, padding=2),
        lambda: F.max_pool2d(torch.randn(1, 2, 4, 4), 2, stride=0),
        lambda: F.max_pool2d(torch.randn(1, 2, 4, 4), 0),
        lambda: F.max_pool2d(torch.randn(1, 2, 0, 4), 2),
        lambda: F.max_pool2d(torch.randn(4, 4), 2),
        lambda: F.max_pool2d(torch.randn(1, 2, 4, 4), (2, 2, 2)),
    ],
)
def test_torch_says_what_is_wrong(call: Callable[[], Tensor]) -> None:
    messages = []
    for _ in range(2):
        with pytest.raises(RuntimeError) as raised:
            call()
        messages.append(str(raised.value).splitlines()[0])
        with off(), pytest.raises(RuntimeError) as raised:
            call()
        messages.append(str(raised.value).splitlines()[0])
    assert len(set(messages)) == 1


@isas
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 8, 8), (100003,)])
def test_silu_against_float64(isa: str, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) * 10
    with capped(isa), counted() as counts:
        result, in_place = F.silu(x), F.silu(x.clone(), inplace=True)
    assert counts.calls == {"silu.cpuaccel": 2}
    exact = F.silu(x.double())
    assert torch.all((result - exact).abs() <= 4 * 2.0**-24 * exact.abs() + 1e-36)
    assert torch.equal(result, in_place)


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(4, 6).t(),
        torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        torch.randn(8, 8)[:, ::2],
        torch.randn(1, 5).expand(3, 5),
        torch.randn(0, 3),
        torch.randn(5).double(),
        torch.randn(5).bfloat16(),
    ],
    ids=["transposed", "channels_last", "strided", "expanded", "empty", "double", "bf16"],
)
def test_silu_of_any_tensor(x: Tensor) -> None:
    ours = F.silu(x)
    with off():
        theirs = F.silu(x)
    assert ours.dtype == theirs.dtype
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (2, 1, 4, 5), (1, 3, 1, 1), (1, 6)])
def test_silu_of_a_stride_of_zero(shape: tuple[int, ...]) -> None:
    """The strides are torch's where the input is expanded along dimensions of one element."""
    x = torch.randn(shape)
    strides = [0 if size == 1 else stride for size, stride in zip(shape, x.stride(), strict=True)]
    expanded = x.as_strided(shape, strides)
    with off():
        theirs = F.silu(expanded)
    ours = F.silu(expanded)
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours, theirs)


def test_silu_of_what_is_not_finite() -> None:
    x = torch.tensor([float("inf"), -float("inf"), float("nan"), -1e30, 1e30, -0.0])
    ours = F.silu(x)
    with off():
        theirs = F.silu(x)
    assert torch.equal(ours.nan_to_num(3.0), theirs.nan_to_num(3.0))


def test_silu_learns() -> None:
    x = torch.randn(50, requires_grad=True)
    ours = torch.autograd.grad(F.silu(x).sum(), x)[0]
    with off():
        theirs = torch.autograd.grad(F.silu(x).sum(), x)[0]
    torch.testing.assert_close(ours, theirs)
