"""Matrix products on any operands: how to draw them, call them, and bound their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from quant._engine import missing
from torch import Tensor

from ops._floats import DTYPES, assert_near, eps

LAYOUTS = ("dense", "transposed", "sliced", "strided", "expanded rows", "expanded columns", "apart")
ADDENDS = ("full", "row", "one row", "column", "scalar", "transposed")
FACTORS = (1, 0, 2, -1, 0.5, 1.7)


def matrix(shape: tuple[int, ...], layout: str, dtype: torch.dtype, seed: int) -> Tensor:
    """Random values of about 1; the last two dimensions are laid out as `layout` says."""
    generator = torch.Generator().manual_seed(seed)

    def fresh(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(dtype)

    *lead, rows, columns = shape
    if layout == "transposed":
        return fresh(*lead, columns, rows).mT
    if layout == "sliced":
        return fresh(*lead, rows + 3, columns + 5)[..., 2 : 2 + rows, 1 : 1 + columns]
    if layout == "strided":
        return fresh(*lead, 2 * rows, 3 * columns)[..., ::2, ::3]
    if layout == "expanded rows":
        return fresh(*lead, 1, columns).expand(*lead, rows, columns)
    if layout == "expanded columns":
        return fresh(*lead, rows, 1).expand(*lead, rows, columns)
    if layout == "apart":
        # Rows of a much wider matrix, whose leading stride is not a multiple of any block size.
        return fresh(*lead, rows, columns + 1027)[..., :columns]
    return fresh(*lead, rows, columns)


def addend(shape: tuple[int, ...], form: str, dtype: torch.dtype, seed: int) -> Tensor:
    """The addend of a product of that shape, in a form that broadcasts to it."""
    *lead, rows, columns = shape
    if form == "transposed":
        return matrix(shape, "transposed", dtype, seed)
    sizes: dict[str, tuple[int, ...]] = {
        "full": shape,
        "row": (columns,),
        "one row": (1, columns),
        "column": (*lead, rows, 1),
        "scalar": (),
    }
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes[form], generator=generator).to(dtype)


@dataclass(frozen=True)
class Product:
    """beta * added + alpha * (a @ b), or a @ b without an addend."""

    a: Tensor
    b: Tensor
    added: Tensor | None = None
    alpha: float = 1
    beta: float = 1

    @property
    def name(self) -> str:
        """torch's name of the op."""
        kind = ("b" if self.a.dim() == 3 else "") + "mm"
        if self.added is None:
            return kind
        return {"mm": "addmm", "bmm": "baddbmm"}[kind]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (*self.a.shape[:-1], self.b.shape[-1])

    def call(self, **named: Any) -> Tensor:
        """As torch computes it."""
        op: Callable[..., Tensor] = getattr(torch, self.name)
        if self.added is None:
            return op(self.a, self.b, **named)
        return op(self.added, self.a, self.b, beta=self.beta, alpha=self.alpha, **named)

    def call_in_place(self) -> Tensor:
        """In place on a copy of the addend, which has the shape of the result."""
        assert self.added is not None
        target = self.added.clone()
        getattr(target, f"{self.name}_")(self.a, self.b, beta=self.beta, alpha=self.alpha)
        return target

    def exact(self) -> Tensor:
        """The product in float64. If beta is 0, the addend is not read."""
        result = self.alpha * (self.a.double() @ self.b.double())
        if self.added is not None and self.beta != 0:
            result = result + self.beta * self.added.double()
        return result

    def bound(self) -> Tensor:
        """The largest error of float32 sums, (K + 8) eps |a||b|, and one rounding to the type."""
        K = self.a.shape[-1]
        size = abs(self.alpha) * (self.a.double().abs() @ self.b.double().abs())
        if self.added is not None and self.beta != 0:
            size = size + abs(self.beta) * self.added.double().abs()
        sums = (K + 8) * eps(torch.float32) * size
        if self.a.dtype == torch.float32:
            return sums
        info = torch.finfo(self.a.dtype)
        return sums + 0.5 * info.eps * (self.exact().abs() + sums) + info.smallest_normal * info.eps

    def torch_is_wrong(self) -> bool:
        """torch 2.13 skips baddbmm of fp16 if alpha is 0, on CPUs with FP16 arithmetic."""
        if missing() or self.name != "baddbmm" or self.a.dtype != torch.float16 or self.alpha != 0:
            return False
        from cpuaccel._native import load

        return bool(load().has_fp16_arithmetic())

    def check(self, result: Tensor) -> None:
        """`result` has the right shape, type and values, or is torch's known wrong one."""
        assert result.dtype == self.a.dtype
        if self.torch_is_wrong():
            return
        assert_near(result, self.exact(), self.bound())


@st.composite
def products(draw: st.DrawFn, *, batched: bool = False, added: bool = False) -> Product:
    """Operands in any layout; sizes are mostly small, with tails of any length."""
    size = st.one_of(st.integers(1, 9), st.integers(1, 70), st.sampled_from((64, 96, 128)))
    M, K, N = draw(size), draw(size), draw(size)
    lead = (draw(st.integers(1, 4)),) if batched else ()
    dtype = draw(st.sampled_from(DTYPES))
    seed = draw(st.integers(0, 2**20))
    layout = st.sampled_from(LAYOUTS)
    a = matrix((*lead, M, K), draw(layout), dtype, seed)
    b = matrix((*lead, K, N), draw(layout), dtype, seed + 1)
    if not added:
        return Product(a, b)
    c = addend((*lead, M, N), draw(st.sampled_from(ADDENDS)), dtype, seed + 2)
    factor = st.sampled_from(FACTORS)
    return Product(a, b, c, alpha=draw(factor), beta=draw(factor))
