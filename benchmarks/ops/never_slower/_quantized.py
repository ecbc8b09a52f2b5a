"""Cases of quantized ops: ops between layers, weight packing, and the layers themselves."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, numbers, quantized, sizes

_aten: Any = torch.ops.aten
_quantized: Any = torch.ops.quantized
_KEY = "QuantizedCPU"
_OUT = (0.1, 64)
_LAST = torch.channels_last

_IMAGES = ((1, 16, 1, 1), (1, 58, 7, 7), (1, 64, 56, 56), (8, 128, 28, 28))
_ROWS = ((8,), (1, 1000), (128, 768), (4, 12, 128, 128))
_TYPES = (torch.quint8, torch.qint8)

_Op = Callable[[Tensor], object]

# Ops of one tensor of any shape.
_UNARY: dict[str, _Op] = {
    "aten::relu": torch.relu,
    "aten::relu_": torch.relu_,
    "aten::clamp": lambda x: torch.clamp(x, -1.0, 2.0),
    "aten::hardtanh": lambda x: _aten.hardtanh(x, -1.0, 2.0),
    "aten::hardtanh_": lambda x: _aten.hardtanh_(x, -1.0, 2.0),
    "aten::sigmoid": torch.sigmoid,
    "aten::tanh": torch.tanh,
    "aten::hardsigmoid": _aten.hardsigmoid,
    "aten::gelu": _aten.gelu,
    "aten::leaky_relu": lambda x: _aten.leaky_relu(x, 0.1),
    "aten::leaky_relu_": lambda x: _aten.leaky_relu_(x, 0.1),
    "aten::clone": torch.clone,
    "aten::dequantize.self": torch.dequantize,
    "aten::cat": lambda x: torch.cat([x, x], -1),
    "quantized::clamp": lambda x: _quantized.clamp(x, -1.0, 2.0),
    "quantized::relu6": lambda x: _quantized.relu6(x, False),
    "quantized::sigmoid": lambda x: _quantized.sigmoid(x, *_OUT),
    "quantized::hardswish": lambda x: _quantized.hardswish(x, *_OUT),
    "quantized::leaky_relu": lambda x: _quantized.leaky_relu(x, 0.1, False, *_OUT),
    "quantized::elu": lambda x: _quantized.elu(x, *_OUT),
    "quantized::celu": lambda x: _quantized.celu(x, *_OUT),
    "quantized::add": lambda x: _quantized.add(x, x, *_OUT),
    "_quantized::add": lambda x: torch.ops._quantized.add(x, x, *_OUT),
    "quantized::add_relu": lambda x: _quantized.add_relu(x, x, *_OUT),
    "quantized::mul": lambda x: _quantized.mul(x, x, *_OUT),
    "quantized::mul_relu": lambda x: _quantized.mul_relu(x, x, *_OUT),
}
# Ops of images only.
_OF_IMAGES: dict[str, _Op] = {
    "aten::_adaptive_avg_pool2d": lambda x: _aten._adaptive_avg_pool2d(x, [1, 1]),
    "aten::avg_pool2d": lambda x: torch.nn.functional.avg_pool2d(x, 3, 1, 1),
    "aten::mean.dim": lambda x: torch.mean(x, [2, 3]),
    "aten::quantized_max_pool2d": lambda x: torch.quantized_max_pool2d(x, [3, 3], [2, 2], [1, 1]),
    "aten::upsample_nearest2d": lambda x: _aten.upsample_nearest2d(x, [28, 28]),
    "aten::_upsample_nearest_exact2d": lambda x: _aten._upsample_nearest_exact2d(x, [28, 28]),
    "aten::upsample_bilinear2d": lambda x: _aten.upsample_bilinear2d(x, [28, 28], False),
    "aten::channel_shuffle": lambda x: torch.channel_shuffle(x, 2),
    "quantized::cat": lambda x: _quantized.cat([x, x], 1, *_OUT),
    "quantized::cat_relu": lambda x: _quantized.cat_relu([x, x], 1, *_OUT),
    "quantized::batch_norm2d": lambda x: _batch_norm(_quantized.batch_norm2d, x),
    "quantized::batch_norm2d_relu": lambda x: _batch_norm(_quantized.batch_norm2d_relu, x),
}
# Ops whose torch kernel supports only quint8, or supports another dtype only in one layout.
_QUINT8_ONLY = {"quantized::relu6", "aten::hardsigmoid", "aten::upsample_bilinear2d"}

# Filters: output and input channels, kernel size.
_FILTERS = ((16, 16, 1), (64, 64, 3), (256, 512, 1))
_LINEARS = ((16, 16), (1000, 512), (3072, 768))


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for name, op in _UNARY.items():
        for size in (*_ROWS, *_IMAGES):
            yield _unary(name, op, size, torch.quint8, last=len(size) == 4 and size in _IMAGES)
        if name not in _QUINT8_ONLY:
            yield _unary(name, op, _ROWS[2], torch.qint8, last=False)
    for name, op in _OF_IMAGES.items():
        for size in _IMAGES:
            yield _unary(name, op, size, torch.quint8, last=True)
        yield _unary(name, op, _IMAGES[2], torch.quint8, last=False)
    for size in (*_ROWS, *_IMAGES):
        yield from _quantize(size)
    yield from _packing()
    yield from _fused()
    yield from _layers()


def _batch_norm(op: Any, x: Tensor) -> object:
    ones = torch.ones(x.shape[1])
    return op(x, ones, ones, ones, ones, 1e-5, *_OUT)


def _input(size: tuple[int, ...], dtype: torch.dtype, last: bool) -> Tensor:
    x = quantized(*size, dtype=dtype)
    return x.contiguous(memory_format=_LAST) if last else x


def _unary(name: str, op: _Op, size: tuple[int, ...], dtype: torch.dtype, last: bool) -> Case:
    label = f"{DTYPES[dtype]} {sizes(size)}{' channels last' if last else ''}"
    return Case(name, _KEY, label, lambda: partial(op, _input(size, dtype, last)))


def _quantize(size: tuple[int, ...]) -> Iterator[Case]:
    ways: dict[str, tuple[Any, ...]] = {
        "aten::quantize_per_tensor": _OUT,
        "aten::quantize_per_tensor.tensor_qparams": tuple(map(torch.tensor, _OUT)),
    }
    for dtype in _TYPES:
        for name, scaling in ways.items():
            make = partial(_quantize_call, size, scaling, dtype)
            yield Case(name, "CPU", f"{DTYPES[dtype]} {sizes(size)}", make)


def _quantize_call(size: tuple[int, ...], scaling: tuple[Any, ...], dtype: torch.dtype) -> Runner:
    return partial(torch.quantize_per_tensor, numbers(*size), *scaling, dtype)


def _weight(*size: int) -> Tensor:
    scales = torch.linspace(0.01, 0.02, size[0], dtype=torch.float64)
    zeros = torch.zeros(size[0], dtype=torch.int64)
    return torch.quantize_per_channel(numbers(*size), scales, zeros, 0, torch.qint8)


def _whole_weight(*size: int) -> Tensor:
    return torch.quantize_per_tensor(numbers(*size), 0.02, 0, torch.qint8)


def _conv_arguments(dims: int, taps: int) -> tuple[Any, ...]:
    return [1] * dims, [taps // 2] * dims, [1] * dims, 1


def _conv_packed(dims: int, OC: int, C: int, taps: int) -> Any:
    pack = getattr(_quantized, f"conv{dims}d_prepack")
    weight = _weight(OC, C, *[taps] * dims)
    return pack(weight, torch.zeros(OC), *_conv_arguments(dims, taps))


def _packing() -> Iterator[Case]:
    for N, K in _LINEARS:
        for space in ("quantized", "_quantized"):
            op = getattr(torch.ops, space).linear_prepack
            make = partial(_pack_linear, op, N, K)
            yield Case(f"{space}::linear_prepack", _KEY, f"{N}x{K}", make)
    convs = [("quantized", "conv_prepack", 2), ("quantized", "conv1d_prepack", 1)]
    convs += [
        (space, f"conv{d}d_prepack", d) for space in ("quantized", "_quantized") for d in (2, 3)
    ]
    for space, name, dims in convs:
        op = getattr(getattr(torch.ops, space), name)
        for OC, C, taps in _FILTERS:
            make = partial(_pack_conv, op, dims, OC, C, taps)
            yield Case(f"{space}::{name}", _KEY, f"{OC}x{C} {taps}", make)
    for space in ("quantized", "_quantized"):
        for dims in (1, 2, 3):
            name = f"conv_transpose{dims}d_prepack"
            op = getattr(getattr(torch.ops, space), name)
            for OC, C, taps in _FILTERS[:2]:
                make = partial(_pack_transposed, op, dims, OC, C, taps)
                yield Case(f"{space}::{name}", _KEY, f"{OC}x{C} {taps}", make)


def _pack_linear(op: Any, N: int, K: int) -> Runner:
    return partial(op, _weight(N, K), torch.zeros(N))


def _pack_conv(op: Any, dims: int, OC: int, C: int, taps: int) -> Runner:
    weight = _weight(OC, C, *[taps] * dims)
    return partial(op, weight, torch.zeros(OC), *_conv_arguments(dims, taps))


def _pack_transposed(op: Any, dims: int, OC: int, C: int, taps: int) -> Runner:
    stride, padding, dilation, groups = _conv_arguments(dims, taps)
    weight = _whole_weight(C, OC, *[taps] * dims)
    return partial(op, weight, torch.zeros(OC), stride, padding, [0] * dims, dilation, groups)


# Channels, image.
_CONVS = ((16, 1, 1), (64, 56, 3), (256, 14, 1))
# Rows, out, in.
_PRODUCTS = ((1, 16, 16), (1, 1000, 512), (128, 768, 768))


def _fused() -> Iterator[Case]:
    """Ops that torch supports only with the onednn engine."""
    for name in ("conv2d_add", "conv2d_add_relu"):
        for C, image, taps in _CONVS:
            make = partial(_conv_add, getattr(_quantized, name), C, image, taps)
            label = f"{C}x{image}x{image} {taps}"
            yield Case(f"quantized::{name}", _KEY, label, make, off_engine="onednn")
    for name, extra in (("linear_leaky_relu", (0.1,)), ("linear_tanh", ())):
        for M, N, K in _PRODUCTS:
            make = partial(_linear, getattr(_quantized, name), M, N, K, *_OUT, *extra)
            yield Case(f"quantized::{name}", _KEY, f"{M}x{K}x{N}", make, off_engine="onednn")


def _conv_add(op: Any, C: int, image: int, taps: int) -> Runner:
    x = _input((1, C, image, image), torch.quint8, last=True)
    return partial(op, x, x.clone(), _conv_packed(2, C, C, taps), *_OUT)


def _layers() -> Iterator[Case]:
    """Calls of layers whose op is not overridden: the packed weights are cpuaccel's objects."""
    for name in ("conv2d", "conv2d_relu"):
        for C, image, taps in _CONVS:
            make = partial(_conv, getattr(_quantized, name), C, image, taps)
            yield Case(f"quantized::{name}", "", f"{C}x{image}x{image} {taps}", make)
    for name in ("linear", "linear_relu"):
        for M, N, K in _PRODUCTS:
            make = partial(_linear, getattr(_quantized, name), M, N, K, *_OUT)
            yield Case(f"quantized::{name}", "", f"{M}x{K}x{N}", make)
    for M, N, K in _PRODUCTS:
        yield Case("quantized::linear_dynamic", "", f"{M}x{K}x{N}", partial(_dynamic, M, N, K))


def _conv(op: Any, C: int, image: int, taps: int) -> Runner:
    x = _input((1, C, image, image), torch.quint8, last=True)
    return partial(op, x, _conv_packed(2, C, C, taps), *_OUT)


def _linear(op: Any, M: int, N: int, K: int, *arguments: float) -> Runner:
    packed = _quantized.linear_prepack(_weight(N, K), torch.zeros(N))
    return partial(op, quantized(M, K), packed, *arguments)


def _dynamic(M: int, N: int, K: int) -> Runner:
    packed = _quantized.linear_prepack(_weight(N, K), torch.zeros(N))
    return partial(_quantized.linear_dynamic, numbers(M, K), packed, True)
