"""Linear layers that torchao quantizes, what they compute in float64, and torchao's own result."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from quant._engine import missing
from torch import Tensor, nn

import cpuaccel

pytest.importorskip("torchao", reason="torchao is not installed")
if missing():
    pytest.skip(missing(), allow_module_level=True)

from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    PerGroup,
    PerRow,
    PerTensor,
    quantize_,
)
from torchao.quantization.quant_primitives import MappingType

_STATIC_SCALE = 0.03


@dataclass(frozen=True)
class Kind:
    """One of torchao's ways to quantize a linear layer."""

    name: str
    config: Callable[[], Any]
    rows: str = "row"
    symmetric: bool = True
    counted: str = "linear_dynamic.cpuaccel"

    def quantized(self, model: nn.Module) -> nn.Module:
        """Quantizes the linear layers of `model` in place and returns it."""
        quantize_(model, self.config())
        return model.eval()


def _dynamic(**options: Any) -> Callable[[], Any]:
    return lambda: Int8DynamicActivationInt8WeightConfig(**options)


def _static() -> Any:
    scale = torch.tensor([[_STATIC_SCALE]])
    return Int8StaticActivationInt8WeightConfig(act_quant_scale=scale, granularity=PerTensor())


_ASYMMETRIC = MappingType.ASYMMETRIC
KINDS = {
    kind.name: kind
    for kind in (
        Kind("dynamic", _dynamic()),
        Kind("asymmetric", _dynamic(act_mapping_type=_ASYMMETRIC), symmetric=False),
        Kind("tensor", _dynamic(granularity=[PerTensor(), PerRow()]), rows="tensor"),
        Kind(
            "tensor asymmetric",
            _dynamic(granularity=PerTensor(), act_mapping_type=_ASYMMETRIC),
            rows="tensor",
            symmetric=False,
        ),
        Kind("static", _static, rows="given", counted="linear.cpuaccel"),
        Kind(
            "weight only",
            lambda: Int8WeightOnlyConfig(set_inductor_config=False),
            rows="none",
            counted="packed_linear.cpuaccel",
        ),
    )
}
GROUPS = Kind(
    "groups",
    lambda: Int8WeightOnlyConfig(granularity=PerGroup(32), set_inductor_config=False),
    rows="none",
    counted="packed_linear.cpuaccel",
)

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
dtypes = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"]
)


def layer(kind: Kind, K: int, N: int, *, bias: bool = True, dtype: Any = torch.float32) -> Any:
    """Returns a quantized nn.Linear of random weights."""
    return kind.quantized(nn.Sequential(nn.Linear(K, N, bias=bias).to(dtype)))[0]


def by_torchao(model: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Returns what torchao computes by its own function."""
    with cpuaccel.enabled(False):
        return model(*inputs)


def by_cpuaccel(model: Callable[..., Tensor], *inputs: Tensor, kind: Kind) -> Tensor:
    """Returns what the model computes, and checks that cpuaccel's kernel computed it."""
    cpuaccel.reset_stats()
    result = model(*inputs)
    stats = cpuaccel.stats()
    assert stats["calls"].get(kind.counted), stats
    assert not stats["fallbacks"], stats["fallbacks"]
    return result


def integers(kind: Kind, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the int8 rows of `x` with their scales and zero points, by torchao's functions."""
    from torchao.quantization.quantize_.workflows.int8 import int8_tensor as module

    weight = module.Int8Tensor.from_hp(
        x,
        PerRow() if kind.rows == "row" else PerTensor(),
        mapping_type=MappingType.SYMMETRIC if kind.symmetric else _ASYMMETRIC,
        scale=torch.full((1,) * x.dim(), _STATIC_SCALE) if kind.rows == "given" else None,
    )
    return weight.qdata, weight.scale, weight.zero_point


def exact(kind: Kind, linear: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the result in float64, and the sum of the absolute values of its terms."""
    weight = linear.weight
    w = weight.qdata.double() * weight.scale.double()
    rows = x.double()
    if kind.rows != "none":
        qdata, scale, zero_point = integers(kind, x)
        rows = (qdata.double() - zero_point.double()) * scale.double()
    bias = torch.zeros(()) if linear.bias is None else linear.bias.double()
    return rows @ w.T + bias, rows.abs() @ w.T.abs() + bias.abs()


def assert_right(kind: Kind, linear: Any, x: Tensor, result: Tensor) -> None:
    """Checks a result: exact integer sums, f32 arithmetic after them, one rounding to the dtype.

    Sums of products of floats (weights only) have the bound of `x.shape[-1]` roundings.
    """
    expected, terms = exact(kind, linear, x)
    assert result.dtype == x.dtype
    assert result.shape == expected.shape
    eps = torch.finfo(torch.float32).eps
    steps = 4 if kind.rows != "none" else 2 * math.sqrt(x.shape[-1]) + 4
    many_bf16 = kind.rows == "none" and x.dtype == torch.bfloat16
    own = torch.finfo(x.dtype).eps * (2 if many_bf16 else 1)
    # Where terms cancel, the f32 error of the terms is larger than the result's own rounding.
    allowed = steps * eps * terms + own * expected.abs() + torch.finfo(x.dtype).tiny
    assert ((result.double() - expected).abs() <= allowed).all()


def torchao_module() -> Any:
    """Returns torchao's module of Int8Tensor."""
    return sys.modules["torchao.quantization.quantize_.workflows.int8.int8_tensor"]
