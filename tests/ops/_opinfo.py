"""torch's own database of ops and sample inputs (OpInfo), restricted to matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from ops._floats import DTYPES, PROVIDERS, exactly, sizes, tensors_of

T = TypeVar("T")

_MATMULS = (
    *("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "addbmm", "dot", "matmul", "__rmatmul__"),
    *("inner", "einsum", "tensordot", "linalg.multi_dot", "nn.functional.linear"),
)
_CONVOLUTIONS = tuple(
    f"nn.functional.conv{kind}{dims}d" for kind in ("", "_transpose") for dims in (1, 2, 3)
)
# The same op, named for a test of another device.
_VARIANTS_LEFT_OUT = ("triton_optimized",)


def name_of(op: OpInfo) -> str:
    """For example "addmm" or "addmm.decomposed"."""
    return ".".join(part for part in (op.name, op.variant_test_name) if part)


OPS: tuple[OpInfo, ...] = tuple(
    op
    for op in op_db
    if op.name in _MATMULS + _CONVOLUTIONS and op.variant_test_name not in _VARIANTS_LEFT_OUT
)
MISSING = set(_MATMULS + _CONVOLUTIONS) - {op.name for op in OPS}
"""Names that OpInfo lacks."""


@dataclass(frozen=True)
class Case:
    """An op and a type of its tensors."""

    op: OpInfo
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{name_of(self.op)}-{str(self.dtype)[6:]}"

    def samples(self, *, requires_grad: bool = False) -> Iterator[Any]:
        """Arguments of a call (positional, by name) for each sample of OpInfo."""
        torch.manual_seed(7)
        # Not by sample_inputs(), which searches the stack for the running test at each sample.
        made = self.op.sample_inputs_func(self.op, "cpu", self.dtype, requires_grad)
        return map(arguments, made)

    def call(self, sample: Any) -> Any:
        """The op's result for `sample`."""
        positional, named = sample
        return self.op.op(*positional, **named)

    def exact(self, sample: Any) -> tuple[Any, Any]:
        """The result in float64, and the same of all absolute values."""
        return self.call(exactly(sample)), self.call(sizes(sample))


def arguments(sample: SampleInput) -> Any:
    """An OpInfo sample as the arguments of a call."""
    return (sample.input, *sample.args), dict(sample.kwargs)


CASES = tuple(Case(op, dtype) for op in OPS for dtype in DTYPES)


def with_providers(cases: Iterable[T], of: Callable[[T], OpInfo]) -> list[tuple[T, str]]:
    """Each case with each provider of matrix products; convolutions do not depend on it."""
    return [
        (case, provider)
        for case in cases
        for provider in (PROVIDERS[:1] if of(case).name in _CONVOLUTIONS else PROVIDERS)
    ]


def longest_sum(sample: Any) -> int:
    """An upper bound on the number of products in a value of the result or of a gradient."""
    return max((tensor.numel() for tensor in tensors_of(sample)), default=0)


def bound(size: Tensor, dtype: torch.dtype, terms: int) -> Tensor:
    """The largest allowed error if the absolute values of the terms sum up to `size`.

    Each sum is in float32, so its error is at most (terms + 8) eps of float32. A result of another
    type is rounded to it, several times if an op consists of several.
    """
    roundings = 4 * torch.finfo(dtype).eps if dtype != torch.float32 else 0.0
    smallest = torch.finfo(dtype).smallest_normal
    return size * ((terms + 8) * torch.finfo(torch.float32).eps + roundings) + smallest
