"""Models and comparisons that the prepack tests share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from _settings import setting
from torch import Tensor, nn

import cpuaccel


def mlp() -> nn.Sequential:
    """Two linear layers, one of them without bias."""
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64, bias=False)).eval()


def packed(model: Any) -> Any:
    """A packed copy of `model`; the model itself stays plain."""
    return cpuaccel.prepack(copy.deepcopy(model))


def is_packed(module: nn.Module) -> bool:
    return bool(module.__dict__.get("_packed_weights"))


def values(model: nn.Module) -> dict[str, Tensor]:
    """Copies of all tensors in the state dict."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(actual: Any, expected: Any) -> None:
    """Equal bit for bit, including names and order."""
    assert list(actual) == list(expected)
    for name, value in actual.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    """Equal up to the rounding of sums, for inputs and weights of around 1."""
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}[actual.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@contextmanager
def without_bf16_arithmetic() -> Iterator[None]:
    """A CPU without bfloat16 arithmetic, for which bf16 layers are packed."""
    with setting("max_isa", "avx2"):
        yield


def fallbacks() -> dict[str, int]:
    """The reasons of fallbacks, without the op's name."""
    found: dict[str, int] = {}
    for name, count in cpuaccel.stats()["fallbacks"].items():
        op, _, reason = name.partition(": ")
        if op in ("prepack", "packed_linear", "packed_lstm", "packed_convolution"):
            found[reason] = found.get(reason, 0) + count
    return found


Change = Callable[[Any], object]
