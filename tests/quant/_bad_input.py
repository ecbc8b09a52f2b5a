"""Building blocks of the cases of bad input. See _bad_cases.py and test_bad_input.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from _reference import Geometry, assert_quantum, conv_real, linear_real, requantize
from torch import Tensor

from quant._engine import engine
from quant._layers import Q, pack_conv_tensors

BIG = 2**31


@dataclass(frozen=True)
class Case:
    run: Callable[[], object]
    pattern: str
    """What the message must contain (regular expression, case and line breaks ignored)."""
    torch_too: bool = True
    """Whether torch rejects it in those words too; otherwise torch computes nonsense or crashes."""
    may_return: bool = False
    """Whether a correct result is accepted too; `run` raises AssertionError for a wrong one."""


def qx(*shape: int, dtype: torch.dtype = torch.quint8) -> Tensor:
    return torch.quantize_per_tensor(torch.rand(shape), 0.05, 3, dtype)


def qw(*shape: int, dtype: torch.dtype = torch.qint8, zero_point: int = 0) -> Tensor:
    return torch.quantize_per_tensor(torch.randn(*shape), 0.05, zero_point, dtype)


def qw_channels(*shape: int, axis: int) -> Tensor:
    count = shape[axis]
    scales, zeros = torch.rand(count) * 0.05 + 0.01, torch.zeros(count, dtype=torch.int64)
    return torch.quantize_per_channel(torch.randn(*shape), scales, zeros, axis, torch.qint8)


def qx_channels(*shape: int, axis: int) -> Tensor:
    count = shape[axis]
    zeros = torch.zeros(count, dtype=torch.int64)
    return torch.quantize_per_channel(
        torch.rand(*shape), torch.ones(count), zeros, axis, torch.quint8
    )


def expanded(*shape: int) -> Tensor:
    """A quint8 tensor of one byte, expanded: huge sizes without the memory."""
    one = torch._empty_affine_quantized(
        [1] * len(shape), scale=0.1, zero_point=0, dtype=torch.quint8
    )
    return one.expand(*shape)


def linear(weight: Tensor | None = None, bias: Tensor | None = None):
    return Q.linear_prepack(qw(8, 16) if weight is None else weight, bias)


def conv(
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    op: str = "conv2d_prepack",
):
    weight = qw(8, 4, 3, 3) if weight is None else weight
    lists = [list(stride), list(padding), list(dilation)]
    return getattr(Q, op)(weight, bias, *lists, groups)


def conv1d(weight: Tensor | None = None, **lists: Sequence[int]):
    defaults = {"stride": (1,), "padding": (0,), "dilation": (1,), "op": "conv1d_prepack"}
    return conv(qw(8, 4, 3) if weight is None else weight, **{**defaults, **lists})


def conv3d(weight: Tensor | None = None, **lists: Sequence[int]):
    defaults = {"stride": (1,) * 3, "padding": (0,) * 3, "dilation": (1,) * 3}
    weight = qw(8, 4, 3, 3, 3) if weight is None else weight
    return conv(weight, op="conv3d_prepack", **{**defaults, **lists})


def transposed(
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    output_padding: Sequence[int] = (0, 0),
    groups: int = 1,
):
    weight = qw(4, 8, 3, 3) if weight is None else weight
    lists = [list(stride), list(padding), list(output_padding), [1, 1]]
    return Q.conv_transpose2d_prepack(weight, bias, *lists, groups)


def packed_by(name: str, pack: Callable[[], object]) -> object:
    """An object packed by another engine."""
    with engine(name):
        return pack()


def run_linear(packed, x: Tensor | None = None, scale: float = 0.1, zero_point: int = 0):
    return Q.linear(qx(2, 16) if x is None else x, packed, scale, zero_point)


def run_conv(packed, x: Tensor | None = None, scale: float = 0.1, zero_point: int = 0):
    return Q.conv2d(qx(1, 4, 8, 8) if x is None else x, packed, scale, zero_point)


def run_transposed(packed, x: Tensor | None = None):
    return Q.conv_transpose2d(qx(1, 4, 8, 8) if x is None else x, packed, 0.1, 0)


def run_add(packed, accum: Tensor):
    return Q.conv2d_add(qx(1, 4, 8, 8), accum, packed, 0.1, 0)


def right_linear(weight: Tensor, x: Tensor) -> None:
    assert_quantum(
        run_linear(linear(weight), x, 0.1), requantize(linear_real(x, weight, None), 0.1, 0)
    )


def right_conv(weight: Tensor, x: Tensor, geometry: Geometry) -> None:
    actual = run_conv(pack_conv_tensors(weight, None, geometry), x)
    assert_quantum(actual, requantize(conv_real(x, weight, None, geometry), 0.1, 0))


def foreign(
    of: str, pack: Callable[[], object], op: Callable, while_engine: str = "x86"
) -> Callable[[], object]:
    """Runs `op` under one engine with an object that another has packed."""

    def run() -> object:
        packed = packed_by(of, pack)
        with engine(while_engine):
            return op(packed)

    return run


def quantizer_cases(run: Callable[[float, int], object]) -> dict[str, Case]:
    """Quantizers that are invalid for a quint8 result, passed to `run`."""
    cases = {}
    for scale in (0.0, -0.1, float("nan"), float("inf")):
        cases[f"output scale {scale}"] = Case(
            lambda scale=scale: run(scale, 0), rf"scale.*{scale:g}", torch_too=False
        )
    for zero_point in (-1, 256, BIG, 2**40):
        cases[f"output zero point {zero_point}"] = Case(
            lambda zero_point=zero_point: run(0.1, zero_point),
            rf"zero.?point.*{zero_point}",
            torch_too=False,
        )
    return cases
