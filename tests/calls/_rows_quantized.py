"""Rows of ops on quantized tensors without weights: activations, sums, pools, quantizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from calls._row import FLOATS, QUANTIZED, Row, Sample
from calls._values import values

Samples = Callable[[torch.dtype], Sequence[Sample]]
_KEY = ("QuantizedCPU",)
_TO = (0.04, 90)
"""Scale and zero point of a result."""


def _image(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    x = values(2, 16, 9, 9, dtype=dtype, seed=seed)
    return x.contiguous(memory_format=torch.channels_last)


def _of_one(*more: Any, **named: Any) -> Samples:
    """Samples of an op of one image and other arguments."""

    def samples(dtype: torch.dtype) -> list[Sample]:
        return [
            Sample((_image(dtype), *more), named),
            Sample((values(1, 5, 7, 7, dtype=dtype), *more), named),
            Sample((values(0, 5, 7, 7, dtype=dtype), *more), named, "empty"),
        ]

    return samples


def _of_two(*more: Any) -> Samples:
    """Samples of an op of two images and other arguments."""

    def samples(dtype: torch.dtype) -> list[Sample]:
        small, empty = values(3, 5, dtype=dtype, seed=1), values(0, 5, dtype=dtype)
        return [
            Sample((_image(dtype), _image(dtype, seed=1), *more)),
            Sample((values(3, 5, dtype=dtype), small, *more)),
            Sample((empty, empty, *more), kind="empty"),
            Sample((values(3, 4, dtype=dtype), small, *more), kind="bad"),
        ]

    return samples


def _batch_norm(dtype: torch.dtype) -> list[Sample]:
    def of(x: torch.Tensor, channels: int, kind: str = "plain") -> Sample:
        weight, bias, mean = (values(channels, dtype=torch.float32, seed=s) for s in range(3))
        return Sample((x, weight, bias, mean, weight.abs() + 0.5, 1e-5, *_TO), kind=kind)

    return [
        of(_image(dtype), 16),
        of(values(1, 5, 7, 7, dtype=dtype), 5),
        of(values(0, 5, 7, 7, dtype=dtype), 5, "empty"),
        of(values(1, 5, 7, 7, dtype=dtype), 6, "bad"),
    ]


def _cat(*more: Any) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        images = [_image(dtype, seed) for seed in range(3)]
        empty = values(0, 5, dtype=dtype)
        return [
            Sample((images, 1, *more)),
            Sample(([values(3, 5, dtype=dtype), values(2, 5, dtype=dtype, seed=1)], 0, *more)),
            Sample(([empty, empty], 0, *more), kind="empty"),
            Sample(([values(3, 5, dtype=dtype), values(2, 4, dtype=dtype)], 0, *more), kind="bad"),
        ]

    return samples


def _quantize(dtype: torch.dtype) -> list[Sample]:
    more = (*_TO, torch.quint8)
    return [
        Sample((values(33, 40, dtype=dtype), *more)),
        Sample((values(33, 40, dtype=dtype), 0.1, 2, torch.qint8)),
        Sample((values(0, 40, dtype=dtype), *more), kind="empty"),
        Sample((values(3, 4, dtype=dtype), 0.1, 300, torch.quint8), kind="bad"),
    ]


def _quantize_by_tensors(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample(
            (x.args[0], torch.tensor(x.args[1]), torch.tensor(x.args[2]), x.args[3]), kind=x.kind
        )
        for x in _quantize(dtype)
    ]


def _row(name: str, samples: Samples, op: str, **more: Any) -> Row:
    return Row(f"quantized_{name}", samples, op, keys=_KEY, dtypes=QUANTIZED, **more)


_ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    "relu": (),
    "clamp": (-1.0, 1.5),
    "hardtanh": (-1.0, 1.5),
    "sigmoid": (),
    "tanh": (),
    "hardsigmoid": (),
    "gelu": (),
    "leaky_relu": (0.1,),
    "channel_shuffle": (1,),
    "clone": (),
}
_OTHERS: dict[str, tuple[Any, ...]] = {
    "clamp": (-1.0, 1.5),
    "relu6": (),
    "sigmoid": _TO,
    "hardswish": _TO,
    "leaky_relu": (0.1, False, *_TO),
    "elu": (*_TO, 1.0, 1.0, 1.0),
    "celu": (*_TO, 1.0),
}
"""Ops of the namespace `quantized`."""

ROWS = (
    *(_row(name, _of_one(*more), f"aten::{name}") for name, more in _ACTIVATIONS.items()),
    *(_row(f"q_{name}", _of_one(*more), f"quantized::{name}") for name, more in _OTHERS.items()),
    *(
        _row(name, _of_two(*_TO), f"quantized::{name}")
        for name in ("add", "add_relu", "mul", "mul_relu")
    ),
    _row("legacy_add", _of_two(*_TO), "_quantized::add"),
    _row("batch_norm2d", _batch_norm, "quantized::batch_norm2d"),
    _row("batch_norm2d_relu", _batch_norm, "quantized::batch_norm2d_relu"),
    _row("cat", _cat(), "aten::cat"),
    _row("q_cat", _cat(*_TO), "quantized::cat"),
    _row("q_cat_relu", _cat(*_TO), "quantized::cat_relu"),
    _row("max_pool2d", _of_one([3, 3], [2, 2], [1, 1]), "aten::quantized_max_pool2d"),
    _row("avg_pool2d", _of_one([3, 3], [2, 2], [1, 1]), "aten::avg_pool2d"),
    _row("adaptive_avg_pool2d", _of_one([1, 1]), "aten::_adaptive_avg_pool2d"),
    _row("mean", _of_one([2, 3], True), "aten::mean.dim"),
    _row("upsample_nearest2d", _of_one([18, 14]), "aten::upsample_nearest2d"),
    _row("upsample_nearest_exact2d", _of_one([18, 14]), "aten::_upsample_nearest_exact2d"),
    _row("upsample_bilinear2d", _of_one([18, 14], False), "aten::upsample_bilinear2d"),
    _row("dequantize", _of_one(), "aten::dequantize.self"),
    Row("quantize", _quantize, "aten::quantize_per_tensor", dtypes=FLOATS),
    Row(
        "quantize_by_tensors",
        _quantize_by_tensors,
        "aten::quantize_per_tensor.tensor_qparams",
        dtypes=FLOATS,
    ),
)
