"""Cases of dense matrix products, linear layers under autocast, and int8 products."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, numbers, sizes

_aten: Any = torch.ops.aten
_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

# M, K, N
_MATRICES = (
    *((1, 1, 1), (4, 4, 4), (7, 13, 31), (16, 16, 16), (64, 64, 64), (1, 768, 768)),
    *((8, 300, 20), (16, 768, 768), (128, 768, 3072), (256, 64, 256), (512, 512, 512)),
    *((1, 4096, 1024), (1000, 3, 64), (5000, 64, 2), (30, 16, 32), (2708, 1433, 16)),
)
_FEW = ((4, 4, 4), (16, 768, 768), (256, 256, 256))
# batch, M, K, N
_BATCHES = (
    *((1, 1, 1, 1), (2, 4, 4, 4), (64, 8, 8, 8), (12, 128, 64, 128), (12, 128, 128, 64)),
    *((8, 1, 64, 512), (1000, 3, 3, 3), (4, 256, 256, 256)),
)
_FEW_BATCHES = ((2, 4, 4, 4), (12, 128, 64, 128))
_INT8 = ((1, 16, 16), (17, 64, 64), (32, 768, 768), (128, 768, 3072), (256, 256, 256))


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for dtype in _FLOATS:
        for shape in _MATRICES:
            yield _mm(shape, dtype, transposed=False)
            if dtype != torch.float64:
                yield _mm(shape, dtype, transposed=True)
                yield _addmm(shape, dtype)
        for shape in _BATCHES:
            yield _bmm(shape, dtype)
        for shape in _FEW if dtype != torch.float16 else ():
            yield from _into(shape, dtype, "addmm", "mm")
        for shape in _FEW_BATCHES if dtype != torch.float16 else ():
            yield from _into(shape, dtype, "baddbmm", "bmm")
            yield _baddbmm(shape, dtype)
    for shape in _MATRICES:
        yield _autocast(shape)
    for shape in _INT8:
        yield from _int_mm(shape)
        for dtype in (torch.float32, torch.bfloat16):
            yield _weight_int8pack_mm(shape, dtype)
            if shape[1] % 32 == 0:
                yield _weight_int4pack_mm(shape, dtype)
                yield from _dyn_quant_4bit(shape, dtype)


def _operands(shape: tuple[int, ...], dtype: torch.dtype, transposed: bool = False) -> Any:
    *batch, M, K, N = shape
    a = numbers(*batch, M, K, dtype=dtype)
    b = numbers(*batch, N, K, dtype=dtype, seed=2).mT if transposed else None
    return a, numbers(*batch, K, N, dtype=dtype, seed=2) if b is None else b


def _mm(shape: tuple[int, ...], dtype: torch.dtype, transposed: bool) -> Case:
    label = f"{DTYPES[dtype]} {sizes(shape)}{' transposed' if transposed else ''}"
    return Case(
        "aten::mm", "CPU", label, lambda: partial(_aten.mm, *_operands(shape, dtype, transposed))
    )


def _addmm(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    def make() -> Runner:
        return partial(
            torch.addmm, numbers(shape[-1], dtype=dtype), *_operands(shape, dtype, transposed=True)
        )

    return Case("aten::addmm", "CPU", f"{DTYPES[dtype]} {sizes(shape)} bias", make)


def _bmm(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    label = f"{DTYPES[dtype]} {sizes(shape)}"
    return Case("aten::bmm", "CPU", label, lambda: partial(_aten.bmm, *_operands(shape, dtype)))


def _baddbmm(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    def make() -> Runner:
        *batch, M, _, N = shape
        return partial(torch.baddbmm, numbers(*batch, M, N, dtype=dtype), *_operands(shape, dtype))

    return Case("aten::baddbmm", "CPU", f"{DTYPES[dtype]} {sizes(shape)}", make)


def _into(shape: tuple[int, ...], dtype: torch.dtype, added: str, plain: str) -> Iterator[Case]:
    """Ops that write into a given tensor."""
    *batch, M, _, N = shape
    label = f"{DTYPES[dtype]} {sizes(shape)}"

    def out() -> Runner:
        result = numbers(*batch, M, N, dtype=dtype)
        return partial(getattr(torch, plain), *_operands(shape, dtype), out=result)

    def sum_out() -> Runner:
        addend, result = (numbers(*batch, M, N, dtype=dtype, seed=seed) for seed in (3, 4))
        return partial(getattr(torch, added), addend, *_operands(shape, dtype), out=result)

    def in_place() -> Runner:
        # beta = 0.5 keeps repeated sums finite.
        result = numbers(*batch, M, N, dtype=dtype)
        return partial(getattr(result, added + "_"), *_operands(shape, dtype), beta=0.5)

    yield Case(f"aten::{plain}.out", "CPU", label, out)
    yield Case(f"aten::{added}.out", "CPU", label, sum_out)
    yield Case(f"aten::{added}_", "CPU", label, in_place)


def _autocast(shape: tuple[int, ...]) -> Case:
    M, K, N = shape

    def make() -> Runner:
        layer = torch.nn.Linear(K, N)
        x = numbers(M, K)

        def run() -> object:
            with torch.autocast("cpu", torch.bfloat16):
                return layer(x)

        return run

    return Case("aten::linear", "AutocastCPU", f"f32 {sizes(shape)}", make)


def _int_mm(shape: tuple[int, ...]) -> Iterator[Case]:
    M, K, N = shape

    def operands() -> Any:
        return tuple(
            (numbers(*size) * 40).clamp(-128, 127).to(torch.int8) for size in ((M, K), (K, N))
        )

    def out() -> Runner:
        return partial(torch._int_mm, *operands(), out=torch.empty(M, N, dtype=torch.int32))

    yield Case("aten::_int_mm", "CPU", sizes(shape), lambda: partial(torch._int_mm, *operands()))
    yield Case("aten::_int_mm.out", "CPU", sizes(shape), out)


def _weight_int8pack_mm(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    M, K, N = shape

    def make() -> Runner:
        weight = (numbers(N, K) * 40).clamp(-128, 127).to(torch.int8)
        scales = numbers(N, dtype=dtype)
        return partial(torch._weight_int8pack_mm, numbers(M, K, dtype=dtype), weight, scales)

    return Case("aten::_weight_int8pack_mm", "CPU", f"{DTYPES[dtype]} {sizes(shape)}", make)


def _weight_int4pack_mm(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    M, K, N = shape
    group = 32

    def make() -> Runner:
        codes = (numbers(N, K) * 4 + 8).clamp(0, 15).to(torch.int32)
        packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
        scales = numbers(K // group, N, 2, dtype=dtype)
        return partial(
            torch._weight_int4pack_mm_for_cpu, numbers(M, K, dtype=dtype), packed, group, scales
        )

    label = f"{DTYPES[dtype]} {sizes(shape)}"
    return Case("aten::_weight_int4pack_mm_for_cpu", "CPU", label, make)


def _dyn_quant_4bit(shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[Case]:
    M, K, N = shape
    group = 32 if dtype == torch.float32 else K

    def weight() -> Any:
        codes = (numbers(N, K // 2) * 40 + 128).clamp(0, 255).to(torch.uint8)
        return codes, numbers(N, K // group), None, group, K, N

    def multiply() -> Runner:
        packed = _aten._dyn_quant_pack_4bit_weight(*weight())
        x = numbers(M, K, dtype=dtype)
        return partial(_aten._dyn_quant_matmul_4bit, x, packed, group, K, N)

    def pack() -> Runner:
        return partial(_aten._dyn_quant_pack_4bit_weight, *weight())

    label = f"{DTYPES[dtype]} {sizes(shape)}"
    yield Case("aten::_dyn_quant_matmul_4bit", "CPU", label, multiply)
    if dtype == torch.float32:
        yield Case("aten::_dyn_quant_pack_4bit_weight", "CPU", label, pack)
