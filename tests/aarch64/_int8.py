"""Quantized tensors and layers under the engine "onednn", run by cpuaccel and by torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

import cpuaccel

Q = torch.ops.quantized
DTYPES = (torch.quint8, torch.qint8)


def generator(seed: int) -> torch.Generator:
    """Return a separate generator for each tensor, so that a case is the same on every core."""
    return torch.Generator().manual_seed(seed)


def weight(*shape: int, per_channel: bool, zero_point: int = 0) -> Tensor:
    """Return qint8 weights over the whole range of int8."""
    values = torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator(1))
    if per_channel:
        scales = 0.005 + 0.02 * torch.rand(shape[0], dtype=torch.double, generator=generator(2))
        zero_points = torch.full((shape[0],), zero_point)
        return torch._make_per_channel_quantized_tensor(values, scales, zero_points, 0)
    return torch._make_per_tensor_quantized_tensor(values, 0.01, zero_point)


def bias(channels: int) -> Tensor:
    """Return a bias as large as the sums."""
    return 5 * torch.randn(channels, generator=generator(3))


def activation(*shape: int, dtype: torch.dtype = torch.quint8, seed: int = 4) -> Tensor:
    """Return a tensor over the whole range of its dtype, with a zero point off its middle."""
    least, kind = (0, torch.uint8) if dtype == torch.quint8 else (-128, torch.int8)
    integers = torch.randint(least, least + 256, shape, dtype=kind, generator=generator(seed))
    return torch._make_per_tensor_quantized_tensor(integers, 0.02, least + 101)


def output_quantizer(dtype: torch.dtype, scale: float = 0.9) -> tuple[float, int]:
    """Return scale and zero point of a result, with which some values are clamped."""
    return scale, 119 if dtype == torch.quint8 else -9


@contextmanager
def counted(*names: str) -> Iterator[None]:
    """Assert that these calls were counted in the block: "conv2d.cpuaccel"."""
    cpuaccel.reset_stats()
    yield
    stats = cpuaccel.stats()
    missing = [name for name in names if not stats["calls"].get(name)]
    assert not missing, f"not counted: {missing}, but {stats['calls']}, {stats['fallbacks']}"


def both(name: str, run: Callable[..., Tensor], *arguments: object) -> tuple[Tensor, Tensor]:
    """Return the results of `run` on cpuaccel, counted as `name`, and on torch's own engine."""
    with counted(name):
        found = run(*arguments)
    with cpuaccel.enabled(False):
        expected = run(*arguments)
    return found, expected


def assert_quantum(found: Tensor, expected: Tensor) -> None:
    """Assert that two tensors have the same properties and differ rarely, by a quantum at most."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.stride() == expected.stride()
    assert (found.q_scale(), found.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())
    apart = (found.int_repr().int() - expected.int_repr().int()).abs()
    assert int(apart.max()) <= 1
    assert float(apart.float().mean()) <= 0.02
    assert found.int_repr().unique().numel() > 2
