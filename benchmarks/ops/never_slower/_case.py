"""A call of an overridden op to be timed, and the random operands of such calls."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks._quantize import quantized_engine
from benchmarks._timing import Runner

Make = Callable[[], Runner]

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.quint8: "u8",
    torch.qint8: "s8",
    torch.int32: "i32",
    torch.int64: "i64",
}


@dataclass(frozen=True)
class Case:
    """A call that is timed with cpuaccel disabled and enabled.

    `make` builds the operands and returns the call. It runs once with cpuaccel disabled and once
    with it enabled, because packed weights belong to the engine that packed them. `fast` replaces
    `make` on cpuaccel's side, for example to build an accelerated layer. `off_engine` is the
    quantized engine of torch's side: some fused ops exist for the onednn engine only.
    """

    op: str
    """The op as registered, such as "aten::mm.out", or the name of a layer."""
    key: str
    """The dispatch key of the override; "" if the call is not a single override."""
    label: str
    make: Make
    fast: Make | None = None
    off_engine: str = "x86"

    @property
    def name(self) -> str:
        """The op, its key and its label: unique among the cases."""
        return " ".join(part for part in (self.op, self.key, self.label) if part)

    def runner(self, plugin: bool) -> Runner:
        """Builds the call for one side; the caller has already enabled or disabled cpuaccel."""
        make = self.fast if plugin and self.fast is not None else self.make
        return make()

    def engine(self, plugin: bool) -> AbstractContextManager[None]:
        """Context that sets the quantized engine of one side."""
        return quantized_engine("x86" if plugin else self.off_engine)


def numbers(*size: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    """Normally distributed numbers, the same in each call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=generator).to(dtype)


def integers(count: int, below: int, dtype: torch.dtype = torch.int64, seed: int = 2) -> Tensor:
    """Indices in [0, below)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, below, (count,), generator=generator).to(dtype)


def quantized(*size: int, dtype: torch.dtype = torch.quint8, seed: int = 1) -> Tensor:
    """Normally distributed numbers in 8 bits, with one scale and zero point."""
    zero = 60 if dtype == torch.quint8 else 3
    return torch.quantize_per_tensor(numbers(*size, seed=seed), 0.05, zero, dtype)


def sizes(values: tuple[int, ...]) -> str:
    """Such as "1x64x56x56"."""
    return "x".join(map(str, values))
