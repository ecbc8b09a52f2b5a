"""Checks of models that `cpuaccel.quant.lower` returned."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class NothingQuantized(TorchDispatchMode):
    """Fails if an op reads or returns a quantized tensor."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            assert not (isinstance(value, Tensor) and value.is_quantized), func
        return result


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Most values are equal; the others differ by one quantum of 256."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    off = (found - expected).abs() > 1e-5 * expected.abs().max()
    assert off.float().mean() <= 0.02, f"{int(off.sum())} of {off.numel()} values differ"
    assert (found - expected).abs().max() <= (expected.max() - expected.min()) / 32
