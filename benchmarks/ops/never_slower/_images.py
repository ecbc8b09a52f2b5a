"""Cases of float convolutions, pooling, silu, attention and isin."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, numbers, sizes

_aten: Any = torch.ops.aten
_LAYOUTS = {"": torch.contiguous_format, " channels last": torch.channels_last}


@dataclass(frozen=True)
class _Conv:
    """A convolution: channels, image size, filters, and its non-default parameters."""

    C: int
    image: tuple[int, ...]
    OC: int
    taps: int
    stride: int = 1
    groups: int = 1
    batch: int = 1

    def __str__(self) -> str:
        text = f"{self.batch}x{self.C}x{sizes(self.image)} -> {self.OC} {self.taps}"
        text += f" s{self.stride}" if self.stride > 1 else ""
        return text + (f" g{self.groups}" if self.groups > 1 else "")

    def make(self, dtype: torch.dtype, layout: torch.memory_format) -> Runner:
        dims = len(self.image)
        function = (torch.conv1d, torch.conv2d, torch.conv3d)[dims - 1]
        x = numbers(self.batch, self.C, *self.image, dtype=dtype)
        weight = numbers(self.OC, self.C // self.groups, *[self.taps] * dims, dtype=dtype, seed=2)
        if dims == 2:
            x, weight = (t.contiguous(memory_format=layout) for t in (x, weight))
        bias = numbers(self.OC, dtype=dtype)
        padding = self.taps // 2
        return partial(function, x, weight, bias, self.stride, padding, 1, self.groups)


_2D = (
    *(_Conv(1, (1, 1), 1, 1), _Conv(4, (5, 5), 4, 3), _Conv(3, (32, 32), 16, 3)),
    *(_Conv(3, (224, 224), 64, 7, 2), _Conv(3, (224, 224), 32, 3, 2)),
    *(_Conv(64, (56, 56), 64, 1), _Conv(64, (56, 56), 256, 1), _Conv(256, (56, 56), 64, 1)),
    *(_Conv(128, (28, 28), 512, 1), _Conv(512, (28, 28), 128, 1), _Conv(256, (14, 14), 1024, 1)),
    *(_Conv(1024, (14, 14), 256, 1), _Conv(512, (7, 7), 2048, 1), _Conv(256, (56, 56), 512, 1, 2)),
    *(_Conv(64, (56, 56), 64, 3), _Conv(128, (28, 28), 128, 3), _Conv(256, (14, 14), 256, 3)),
    *(_Conv(512, (7, 7), 512, 3), _Conv(128, (56, 56), 128, 3, 2), _Conv(960, (1, 1), 240, 1)),
    *(_Conv(16, (112, 112), 96, 1), _Conv(24, (56, 56), 144, 1), _Conv(32, (112, 112), 16, 1)),
    *(_Conv(32, (112, 112), 32, 3, 1, 32), _Conv(144, (56, 56), 144, 3, 1, 144)),
    *(_Conv(96, (112, 112), 96, 3, 2, 96), _Conv(576, (14, 14), 576, 3, 1, 576)),
    *(_Conv(240, (28, 28), 240, 5, 1, 240), _Conv(58, (28, 28), 58, 3, 1, 58)),
    *(_Conv(128, (56, 56), 128, 3, 1, 32), _Conv(256, (28, 28), 256, 3, 2, 32)),
    *(_Conv(64, (28, 28), 64, 3, batch=8), _Conv(64, (28, 28), 128, 1, batch=8)),
)
_1D = (_Conv(1, (10,), 1, 3), _Conv(64, (128,), 64, 3), _Conv(80, (1000,), 256, 5))
_3D = (_Conv(1, (4, 4, 4), 2, 3), _Conv(16, (8, 28, 28), 32, 3), _Conv(32, (4, 14, 14), 32, 1))
_16_BITS = (_2D[2], _2D[5], _2D[14], _2D[23])
_SILU = ((1,), (100,), (64, 64), (32, 1280), (1, 96, 56, 56), (8, 64, 64, 64))
# batch, channels, height, width, window, stride
_POOLS = (
    *((1, 1, 2, 2, 2, 2), (1, 16, 8, 8, 2, 2), (1, 64, 112, 112, 3, 2), (1, 64, 224, 224, 2, 2)),
    *((1, 480, 14, 14, 3, 1), (8, 64, 28, 28, 3, 1), (1, 256, 13, 13, 5, 1)),
)
# batch, heads, queries, keys, columns
_ATTENTION = (
    *((1, 1, 1, 1, 8), (1, 2, 4, 4, 16), (1, 12, 16, 16, 64), (1, 12, 128, 128, 64)),
    *((1, 12, 384, 384, 64), (8, 12, 128, 128, 64), (1, 12, 1, 512, 64), (1, 8, 1024, 77, 40)),
)
# elements, others, the range of both
_ISIN = (
    *((1, 1, 100), (1, 9, 50_000), (32, 4, 50_000), (1000, 1, 1000), (1000, 300, 2**60)),
    *((51_864, 90, 50_000), (51_864, 2, 50_000), (1_000_000, 100_000, 2**60)),
)
_GROUPED_ATTENTION = ((1, 14, 1, 128, 64), (1, 14, 1, 2048, 64), (2, 8, 200, 200, 128))


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for shape in _2D:
        for name, layout in _LAYOUTS.items():
            yield _conv(shape, torch.float32, layout, name)
    for shape in (*_1D, *_3D):
        yield _conv(shape, torch.float32, torch.contiguous_format, "")
    for dtype in (torch.bfloat16, torch.float16):
        for shape in _16_BITS:
            yield _conv(shape, dtype, torch.contiguous_format, "")
    for size in _SILU:
        for dtype in (torch.float32, torch.bfloat16):
            yield _silu(size, dtype)
        yield _silu_in_place(size)
    for case in _ISIN:
        yield _isin(*case)
    for pool in _POOLS:
        for name, layout in _LAYOUTS.items():
            yield _max_pool(pool, torch.float32, layout, name)
        yield _max_pool(pool, torch.bfloat16, torch.contiguous_format, "")
    for heads in _ATTENTION:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            yield _attention(heads, dtype, "")
        if heads[2] == heads[3]:
            yield _attention(heads, torch.float32, " causal")
        yield _attention(heads, torch.float32, " mask")
    for heads in _GROUPED_ATTENTION:
        for dtype in (torch.float32, torch.bfloat16):
            yield _attention(heads, dtype, " causal" if heads[2] > 1 else "", kept=2)


def _conv(shape: _Conv, dtype: torch.dtype, layout: torch.memory_format, name: str) -> Case:
    label = f"{DTYPES[dtype]} {shape}{name}"
    return Case("aten::_convolution", "CPU", label, partial(shape.make, dtype, layout))


def _silu(size: tuple[int, ...], dtype: torch.dtype) -> Case:
    label = f"{DTYPES[dtype]} {sizes(size)}"
    return Case(
        "aten::silu",
        "CPU",
        label,
        lambda: partial(functional.silu, numbers(*size, dtype=dtype)),
    )


def _silu_in_place(size: tuple[int, ...]) -> Case:
    # The op leaves these numbers unchanged. Others would become denormal when the call repeats.
    def make() -> Runner:
        return partial(_aten.silu_, torch.full(size, 50.0))

    return Case("aten::silu_", "CPU", f"f32 {sizes(size)}", make)


def _isin(elements: int, others: int, below: int) -> Case:
    def make() -> Runner:
        generator = torch.Generator().manual_seed(0)
        a, b = (torch.randint(below, (n,), generator=generator) for n in (elements, others))
        return partial(torch.isin, a, b)

    label = f"i64 {elements} among {others}, below {below:.0e}"
    return Case("aten::isin.Tensor_Tensor", "CPU", label, make)


def _max_pool(
    pool: tuple[int, ...], dtype: torch.dtype, layout: torch.memory_format, name: str
) -> Case:
    *size, window, stride = pool

    def make() -> Runner:
        x = numbers(*size, dtype=dtype).contiguous(memory_format=layout)
        return partial(
            _aten.max_pool2d_with_indices, x, [window] * 2, [stride] * 2, [window // 2] * 2
        )

    label = f"{DTYPES[dtype]} {sizes(tuple(size))} {window}x{window} s{stride}{name}"
    return Case("aten::max_pool2d_with_indices", "CPU", label, make)


def _attention(heads: tuple[int, ...], dtype: torch.dtype, kind: str, kept: int = 0) -> Case:
    """`kept`: heads of keys and values; 0: as many as of queries."""
    N, H, L, S, E = heads

    def make() -> Runner:
        q = numbers(N, H, L, E, dtype=dtype)
        k, v = (numbers(N, kept or H, S, E, dtype=dtype) for _ in range(2))
        mask = numbers(1, 1, L, S, dtype=dtype) if kind == " mask" else None
        return partial(
            _aten._scaled_dot_product_flash_attention_for_cpu,
            *(q, k, v, 0.0, kind == " causal"),
            attn_mask=mask,
        )

    label = f"{DTYPES[dtype]} {sizes(heads)}{f' over {kept}' if kept else ''}{kind}"
    return Case("aten::_scaled_dot_product_flash_attention_for_cpu", "CPU", label, make)
