"""Rows of float matrix products, convolutions, pools, activations and attention; and of isin."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from calls._row import FLOATS, INTEGERS, PLAIN, Row, Sample
from calls._values import values


def _mm(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample((values(5, 5, dtype=dtype), values(5, 5, dtype=dtype, seed=1))),
        Sample((values(33, 40, dtype=dtype), values(40, 24, dtype=dtype, seed=1))),
        Sample((values(3, 0, dtype=dtype), values(0, 2, dtype=dtype)), kind="empty"),
        Sample((values(0, 3, dtype=dtype), values(3, 2, dtype=dtype)), kind="empty"),
        Sample((values(3, 4, dtype=dtype), values(3, 2, dtype=dtype)), kind="bad"),
    ]


def _addmm(dtype: torch.dtype) -> list[Sample]:
    scaled = {"beta": 2, "alpha": 3}
    return [
        Sample(tuple(values(5, 5, dtype=dtype, seed=seed) for seed in range(3)), scaled),
        Sample((values(24, dtype=dtype, seed=3), *_mm(dtype)[1].args)),
        Sample((values(2, dtype=dtype), *_mm(dtype)[2].args), scaled, "empty"),
        Sample((values(0, 2, dtype=dtype), *_mm(dtype)[3].args), kind="empty"),
        Sample((values(3, dtype=dtype), *_mm(dtype)[0].args), kind="bad"),
    ]


def _bmm(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample((values(3, 5, 5, dtype=dtype), values(3, 5, 5, dtype=dtype, seed=1))),
        Sample((values(2, 17, 40, dtype=dtype), values(2, 40, 24, dtype=dtype, seed=1))),
        Sample((values(2, 3, 0, dtype=dtype), values(2, 0, 4, dtype=dtype)), kind="empty"),
        Sample((values(0, 3, 5, dtype=dtype), values(0, 5, 4, dtype=dtype)), kind="empty"),
        Sample((values(2, 3, 5, dtype=dtype), values(3, 5, 4, dtype=dtype)), kind="bad"),
    ]


def _baddbmm(dtype: torch.dtype) -> list[Sample]:
    scaled = {"beta": 2, "alpha": 3}
    return [
        Sample(tuple(values(3, 5, 5, dtype=dtype, seed=seed) for seed in range(3)), scaled),
        Sample((values(2, 17, 24, dtype=dtype, seed=3), *_bmm(dtype)[1].args)),
        Sample((values(2, 3, 4, dtype=dtype), *_bmm(dtype)[2].args), scaled, "empty"),
        Sample((values(0, 3, 4, dtype=dtype), *_bmm(dtype)[3].args), kind="empty"),
        Sample((values(2, 2, 2, dtype=dtype), *_bmm(dtype)[0].args), kind="bad"),
    ]


def _int_mm(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample((values(18, 16, dtype=dtype), values(16, 24, dtype=dtype, seed=1))),
        Sample((values(40, 64, dtype=dtype), values(64, 32, dtype=dtype, seed=1))),
        Sample((values(0, 16, dtype=dtype), values(16, 24, dtype=dtype)), kind="empty"),
        Sample((values(18, 16, dtype=dtype), values(17, 24, dtype=dtype)), kind="bad"),
    ]


def _weight_int8pack_mm(dtype: torch.dtype) -> list[Sample]:
    weight = values(32, 64, dtype=torch.int8, seed=1)
    scales = values(32, dtype=dtype, seed=2)
    return [
        Sample((values(1, 64, dtype=dtype), weight, scales)),
        Sample((values(17, 64, dtype=dtype), weight, scales)),
        Sample((values(0, 64, dtype=dtype), weight, scales), kind="empty"),
        Sample((values(17, 64, dtype=dtype), weight, scales[:5]), kind="bad"),
    ]


def _exact_weight_int8pack_mm(sample: Sample) -> Tensor:
    rows, weight, scales = (each.double() for each in sample.args)
    return rows @ weight.T * scales


def _weight_int4pack_mm(dtype: torch.dtype) -> list[Sample]:
    codes = torch.arange(48 * 64, dtype=torch.int32).reshape(48, 64) * 7 % 16
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
    scales = values(2, 48, 2, dtype=dtype, seed=2)
    return [
        Sample((values(1, 64, dtype=dtype), packed, 32, scales)),
        Sample((values(17, 64, dtype=dtype), packed, 32, scales)),
        Sample((values(0, 64, dtype=dtype), packed, 32, scales), kind="empty"),
        Sample((values(17, 60, dtype=dtype), packed, 32, scales), kind="bad"),
    ]


def _exact_weight_int4pack_mm(sample: Sample) -> Tensor:
    rows, packed, group, scales = sample.args
    codes = torch.arange(packed.numel() * 2).reshape(len(packed), -1) * 7 % 16 - 8.0
    scale, zero = (each.T.double().repeat_interleave(group, 1) for each in scales.unbind(-1))
    return rows.double() @ (codes.double() * scale + zero).T


def _dyn_quant_4bit(dtype: torch.dtype) -> list[Sample]:
    """Rows, codes, scales, a bias and the group size."""
    N, K = 48, 64
    group = 32 if dtype == torch.float32 else K
    codes = (torch.arange(N * K // 2) * 77 % 256).to(torch.uint8).reshape(N, -1)
    scales = values(N, K // group, dtype=torch.float32, seed=2)
    # torch drops the bias of bfloat16.
    bias = values(N, dtype=torch.float32, seed=3) if dtype == torch.float32 else None
    weight = (codes, scales, bias)
    return [
        Sample((values(1, K, dtype=dtype), *weight, group)),
        Sample((values(17, K, dtype=dtype), *weight, group)),
        Sample((values(0, K, dtype=dtype), *weight, group), kind="empty"),
        Sample((values(17, K, dtype=dtype), *weight, 48), kind="bad"),
    ]


def _run_dyn_quant_4bit(
    rows: Tensor, codes: Tensor, scales: Tensor, bias: Tensor | None, group: int
) -> Tensor:
    N, K = codes.shape[-2], codes.shape[-1] * 2
    aten: Any = torch.ops.aten
    packed = aten._dyn_quant_pack_4bit_weight(codes, scales, bias, group, K, N)
    result: Tensor = aten._dyn_quant_matmul_4bit(rows, packed, group, K, N)
    return result


def _exact_dyn_quant_4bit(sample: Sample) -> Tensor:
    rows, codes, scales, bias, group = sample.args
    weight = torch.stack([codes & 15, codes >> 4], -1).flatten(1).double() - 8
    weight = weight * scales.double().repeat_interleave(group, 1)
    x = rows.float()
    least, most = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    scale = (most - least) / 255
    zero_point = (-128 - (least / scale).round()).clamp(-128, 127)
    rounded = ((x / scale).round() + zero_point).clamp(-128, 127) - zero_point
    result = (rounded.double() * scale.double()) @ weight.T
    return result if bias is None else result + bias.double()


def _linear(dtype: torch.dtype) -> list[Sample]:
    weight, bias = values(24, 40, dtype=dtype, seed=1), values(24, dtype=dtype, seed=2)
    return [
        Sample((values(17, 40, dtype=dtype), weight, bias)),
        Sample((values(2, 3, 40, dtype=dtype), weight)),
        Sample((values(0, 40, dtype=dtype), weight, bias), kind="empty"),
        Sample((values(17, 41, dtype=dtype), weight, bias), kind="bad"),
    ]


def _convolution(dims: int, transposed: bool, groups: int = 1):
    def samples(dtype: torch.dtype) -> list[Sample]:
        ones, zeros = [1] * dims, [0] * dims
        rest = (ones, ones, ones, transposed, zeros, groups)
        weight = values(8, 8 // groups, *[3] * dims, dtype=dtype, seed=1)
        bias = values(8, dtype=dtype, seed=2)
        return [
            Sample((values(2, 8, *[7] * dims, dtype=dtype), weight, bias, *rest)),
            Sample((values(1, 8, *[6] * dims, dtype=dtype), weight, None, *rest)),
            Sample((values(0, 8, *[6] * dims, dtype=dtype), weight, bias, *rest), kind="empty"),
            Sample((values(1, 7, *[6] * dims, dtype=dtype), weight, bias, *rest), kind="bad"),
        ]

    return samples


def _max_pool(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample((values(2, 16, 9, 9, dtype=dtype), [3, 3], [2, 2], [1, 1])),
        Sample((values(2, 16, 8, 8, dtype=dtype), [2, 2])),
        Sample((values(0, 16, 8, 8, dtype=dtype), [2, 2]), kind="empty"),
        Sample((values(2, 16, 8, 8, dtype=dtype), [2, 2], [2, 2], [2, 2]), kind="bad"),
    ]


def _silu(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample((values(7, 33, dtype=dtype),)),
        Sample((values(1, 8, 40, 40, dtype=dtype),)),
        Sample((values(0, 3, dtype=dtype),), kind="empty"),
    ]


def _isin(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample((values(7, 33, dtype=dtype), values(5, dtype=dtype, seed=1))),
        Sample((values(40, dtype=dtype), values(2, dtype=dtype, seed=1)), {"invert": True}),
        Sample((values(0, 3, dtype=dtype), values(4, dtype=dtype)), kind="empty"),
    ]


def _attention(dtype: torch.dtype) -> list[Sample]:
    q, k, v = (values(2, 3, 12, 16, dtype=dtype, seed=seed) for seed in range(3))
    mask = values(2, 1, 12, 12, dtype=dtype, seed=3)
    empty = values(0, 3, 12, 16, dtype=dtype)
    return [
        Sample((q, k, v)),
        Sample((q, k, v), {"is_causal": True}),
        Sample((q, k, v), {"attn_mask": mask}),
        Sample((empty, empty, empty), kind="empty"),
        Sample((q, k[..., :8], v), kind="bad"),
    ]


def _encoder_attention(dtype: torch.dtype) -> list[Sample]:
    """Arguments of nn.TransformerEncoderLayer's fast path: no mask, and one of 0 and -inf."""
    size, heads = 16, 2

    def sample(batch: int, width: int, mask: bool, kind: str) -> Sample:
        x = values(batch, 5, width, dtype=dtype)
        weights = [
            values(*shape, dtype=dtype, seed=seed)
            for seed, shape in enumerate([(3 * size, size), (3 * size,), (size, size), (size,)])
        ]
        blocked = torch.ones(5, 5, dtype=torch.bool).triu(1)
        masks = (torch.zeros(5, 5, dtype=dtype).masked_fill(blocked, -torch.inf), True, True, 0)
        return Sample((x, x, x, size, heads, *weights, *(masks if mask else ())), kind=kind)

    return [
        sample(3, size, False, "plain"),
        sample(3, size, True, "plain"),
        sample(0, size, False, "empty"),
        sample(3, size + 1, False, "bad"),
    ]


def _lstm(dtype: torch.dtype) -> list[Sample]:
    size, hidden = 12, 16
    state = [values(1, 3, hidden, dtype=dtype, seed=seed) for seed in (1, 2)]
    shapes = [(4 * hidden, size), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)]
    weights = [values(*shape, dtype=dtype, seed=seed) * 0.3 for seed, shape in enumerate(shapes)]
    # There is no bad sample: torch.lstm reads past inputs of a wrong size, which only nn.LSTM
    # checks.
    return [Sample((values(5, 3, size, dtype=dtype), *state, *weights))]


def _run_lstm(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    return torch.lstm(x, (h, c), weights, True, 1, 0.0, False, False, False)


ROWS = (
    Row("mm", _mm, "aten::mm", provider="cpuaccel"),
    Row("addmm", _addmm, "aten::addmm", provider="cpuaccel"),
    Row("bmm", _bmm, "aten::bmm", provider="cpuaccel"),
    Row("baddbmm", _baddbmm, "aten::baddbmm", provider="cpuaccel"),
    Row("int_mm", _int_mm, "aten::_int_mm", dtypes=(torch.int8, torch.uint8, torch.int32)),
    Row(
        "weight_int8pack_mm",
        _weight_int8pack_mm,
        "aten::_weight_int8pack_mm",
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        exact=_exact_weight_int8pack_mm,
    ),
    Row(
        "weight_int4pack_mm",
        _weight_int4pack_mm,
        "aten::_weight_int4pack_mm_for_cpu",
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        exact=_exact_weight_int4pack_mm,
    ),
    Row(
        "dyn_quant_4bit",
        _dyn_quant_4bit,
        call=_run_dyn_quant_4bit,
        covers=("aten::_dyn_quant_pack_4bit_weight", "aten::_dyn_quant_matmul_4bit"),
        dtypes=(torch.float32, torch.bfloat16),
        exact=_exact_dyn_quant_4bit,
    ),
    Row("linear", _linear, "aten::linear", keys=("AutocastCPU",), provider="cpuaccel"),
    *(
        Row(
            f"conv{'_transpose' if transposed else ''}{dims}d",
            _convolution(dims, transposed),
            "aten::convolution",
            covers=("aten::_convolution", "aten::convolution_backward"),
        )
        for transposed in (False, True)
        for dims in (1, 2, 3)
    ),
    Row("conv2d_depthwise", _convolution(2, False, groups=8), "aten::convolution"),
    Row("max_pool2d", _max_pool, "aten::max_pool2d_with_indices", dtypes=(*FLOATS, torch.int64)),
    Row("silu", _silu, "aten::silu", dtypes=PLAIN),
    Row("isin", _isin, "aten::isin.Tensor_Tensor", dtypes=(*INTEGERS, torch.float64)),
    Row(
        "attention",
        _attention,
        call=F.scaled_dot_product_attention,
        covers=(
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        ),
        dtypes=FLOATS,
    ),
    Row(
        "encoder_attention",
        _encoder_attention,
        "aten::_native_multi_head_attention",
        dtypes=FLOATS,
    ),
    Row(
        "lstm",
        _lstm,
        call=_run_lstm,
        covers=("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"),
        dtypes=FLOATS,
    ),
)
