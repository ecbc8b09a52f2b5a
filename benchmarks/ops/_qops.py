"""Single quantized ops, packed for one provider or another."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks import _plugin
from benchmarks._quantize import quantized_engine, quiet
from benchmarks._timing import Runner
from benchmarks.shapes import ConvShape, LinearShape

# Typical scales of real models; activations use 7 bits, as x86's qconfig has it.
_X_SCALE, _X_ZERO = 0.03, 57
_OUT_SCALE, _OUT_ZERO = 0.1, 64
_ACTIVATION_LEVELS = 128


@dataclass(frozen=True)
class Provider:
    """A way to pack an op: by torch under `engine`, or by cpuaccel's provider `forced`."""

    name: str
    engine: str
    forced: str = ""

    def missing(self) -> str:
        """Why it cannot be measured here, or ""."""
        if self.forced:
            return _plugin.missing()
        supported = torch.backends.quantized.supported_engines
        return "" if self.engine in supported else f"torch has no engine {self.engine}"

    @property
    def packing(self) -> AbstractContextManager[Any]:
        """Context in which weights are packed for this provider."""
        return _packing(self)

    def ran(self, calls: dict[str, int]) -> bool:
        """Whether `calls`, which cpuaccel counted, ran on this provider."""
        layers = [key for key in calls if not key.startswith("clone.")]  # packing copies weights
        if not self.forced:
            return not layers
        libraries = {key.rpartition(".")[2] for key in layers}
        return bool(layers) and (self.forced == "auto" or libraries == {self.forced})


# torch's own providers come first: they are known to be available.
PROVIDERS: tuple[Provider, ...] = (
    Provider("intree.fbgemm", "fbgemm"),
    Provider("intree.onednn", "onednn"),
    Provider("intree.x86", "x86"),
    Provider("cpuaccel.fbgemm", "x86", "fbgemm"),
    Provider("cpuaccel.onednn", "x86", "onednn"),
    Provider("cpuaccel.own", "x86", "cpuaccel"),
    Provider("cpuaccel.auto", "x86", "auto"),
)


@contextmanager
def _packing(provider: Provider) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(quiet())
        stack.enter_context(quantized_engine(provider.engine))
        stack.enter_context(_plugin.enabled(bool(provider.forced)))
        if provider.forced:
            stack.enter_context(_plugin.setting("provider", provider.forced))
        yield


@dataclass(frozen=True)
class Operation:
    """One shape of one op. `pack` packs it under the current engine and returns its call."""

    name: str
    text: str
    kind: str
    channels: int
    area: int
    """Pixels of one output image; rows for a linear."""
    macs: int
    pack: Callable[[], Runner]


def convolution(shape: ConvShape, batch: int) -> Operation:
    """`quantized::conv2d` of `shape` at `batch` images, channels last, per-channel weights."""
    height, width = shape.out_size
    return Operation(
        shape.name,
        str(shape),
        shape.kind,
        shape.channels,
        height * width,
        shape.macs // shape.N * batch,
        partial(_pack_convolution, shape, batch),
    )


def linear(shape: LinearShape, *, dynamic: bool) -> Operation:
    """`quantized::linear` of `shape`, per-channel weights; `dynamic`: `linear_dynamic`."""
    return Operation(
        shape.name,
        str(shape),
        "linear_dynamic" if dynamic else "linear",
        min(shape.K, shape.N),
        shape.M,
        shape.macs,
        partial(_pack_linear, shape, dynamic),
    )


def _pack_convolution(shape: ConvShape, batch: int) -> Runner:
    weight = _weight(shape.OC, shape.IC // shape.groups, shape.KH, shape.KW)
    packed = torch.ops.quantized.conv2d_prepack(
        weight,
        torch.zeros(shape.OC),
        [shape.SH, shape.SW],
        [shape.PH, shape.PW],
        [shape.DH, shape.DW],
        shape.groups,
    )
    x = _activations(batch, shape.IC, shape.H, shape.W)
    x = x.contiguous(memory_format=torch.channels_last)
    return partial(torch.ops.quantized.conv2d, x, packed, _OUT_SCALE, _OUT_ZERO)


def _pack_linear(shape: LinearShape, dynamic: bool) -> Runner:
    packed = torch.ops.quantized.linear_prepack(_weight(shape.N, shape.K), torch.zeros(shape.N))
    x = _activations(shape.M, shape.K)
    if dynamic:
        return partial(torch.ops.quantized.linear_dynamic, x.dequantize(), packed, True)
    return partial(torch.ops.quantized.linear, x, packed, _OUT_SCALE, _OUT_ZERO)


def _weight(*size: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    values = torch.randint(-127, 128, size, dtype=torch.int8, generator=generator)
    scales = torch.linspace(0.005, 0.02, size[0], dtype=torch.float64)
    zeros = torch.zeros(size[0], dtype=torch.int64)
    return torch._make_per_channel_quantized_tensor(values, scales, zeros, 0)


def _activations(*size: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    values = torch.randint(0, _ACTIVATION_LEVELS, size, dtype=torch.uint8, generator=generator)
    return torch._make_per_tensor_quantized_tensor(values, _X_SCALE, _X_ZERO)
