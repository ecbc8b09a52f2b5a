"""cpuaccel::kept_linear: linear layers of compiled graphs on weights that are packed once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from _settings import setting
from quant._engine import needs_plugin
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

import cpuaccel

pytestmark = [needs_plugin, pytest.mark.usefixtures("empty_caches")]

_op: Any = torch.ops.cpuaccel.kept_linear
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "relu": F.relu,
    "hardswish": F.hardswish,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


def _cache_stats() -> dict[str, int]:
    stats: dict[str, int] = cpuaccel.stats()["kept_weights"]
    return stats


@pytest.mark.parametrize("shape", [(7, 33), (1, 33), (2, 5, 33), (33,), (0, 33)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_linear_and_the_function(
    name: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    input, weight, bias = (torch.randn(size).to(dtype) for size in (shape, (40, 33), (40,)))
    for row in (bias, None):
        exact = F.linear(input.double(), weight.double(), None if row is None else row.double())
        found = _op(input, weight, row, name)
        tolerance = 1e-4 if dtype == torch.float32 else 0.03
        torch.testing.assert_close(
            found, FUNCTIONS[name](exact).to(dtype), atol=tolerance, rtol=tolerance
        )
    assert (_cache_stats()["misses"], _cache_stats()["hits"]) == (1, 1)


def test_a_float32_weight_is_rounded_for_bfloat16() -> None:
    input, weight = torch.randn(5, 16).bfloat16(), torch.randn(24, 16)
    found = _op(input, weight, None, "")
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, F.linear(input, weight.bfloat16()), atol=0.1, rtol=0.02)


def _in_place(weight: Tensor) -> Tensor:
    weight.mul_(2)
    return weight


def _data(weight: Tensor) -> Tensor:
    weight.data.mul_(2)
    return weight


def _numpy(weight: Tensor) -> Tensor:
    weight.numpy()[:] *= 2
    return weight


def _set(weight: Tensor) -> Tensor:
    weight.set_((2 * weight).clone())
    return weight


def _another(weight: Tensor) -> Tensor:
    return 2 * weight


@pytest.mark.parametrize("write", [_in_place, _data, _numpy, _set, _another])
def test_writes_are_followed(write: Callable[[Tensor], Tensor]) -> None:
    input, weight = torch.randn(5, 64), torch.randn(96, 64)
    before = _op(input, weight, None, "")
    weight = write(weight)
    torch.testing.assert_close(_op(input, weight, None, ""), 2 * before)


def test_parts_of_a_tensor_do_not_push_each_other_out() -> None:
    input, whole = torch.randn(5, 16), torch.randn(96, 16)
    for _ in range(3):
        for part in whole.split(32):
            torch.testing.assert_close(_op(input, part, None, ""), F.linear(input, part))
    assert (_cache_stats()["misses"], _cache_stats()["stale"], _cache_stats()["size"]) == (3, 0, 3)


def test_what_is_gone_is_dropped_and_counted_out() -> None:
    input = torch.randn(5, 16)
    for _ in range(10):
        _op(input, torch.randn(32, 16), None, "")
        gc.collect()
    assert _cache_stats()["size"] <= 2
    assert _cache_stats()["bytes"] <= 2 * 32 * 16 * 4


def test_the_capacity_holds() -> None:
    with setting("weight_cache_mib", 1):
        weights = [torch.randn(512, 256) for _ in range(4)]  # half a MiB each
        for weight in weights:
            _op(torch.randn(1, 256), weight, None, "")
        assert _cache_stats()["bytes"] <= 1 << 20
        assert _cache_stats()["evictions"] >= 2


def test_unsupported_calls_fall_back_and_are_counted() -> None:
    input, weight = torch.randn(3, 16), torch.randn(24, 32)[:, ::2]
    torch.testing.assert_close(_op(input, weight, None, "relu"), F.relu(F.linear(input, weight)))
    double = _op(input.double(), weight.double(), None, "")
    torch.testing.assert_close(double, F.linear(input, weight).double(), atol=1e-4, rtol=1e-4)
    reasons = {name for name in cpuaccel.stats()["fallbacks"] if "kept_linear" in str(name)}
    assert reasons


def test_torch_runs_when_cpuaccel_is_off() -> None:
    input, weight = torch.randn(3, 16), torch.randn(24, 16)
    cpuaccel.disable()
    try:
        assert torch.equal(_op(input, weight, None, ""), F.linear(input, weight))
    finally:
        cpuaccel.enable()
    assert _cache_stats()["misses"] == 0


def test_an_unknown_function_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"expected function to be relu.*but got softplus"):
        _op(torch.randn(3, 16), torch.randn(24, 16), None, "softplus")


def test_threads() -> None:
    input, weights = torch.randn(5, 64), [torch.randn(96, 64) for _ in range(4)]
    expected = [F.linear(input, weight) for weight in weights]

    def check(index: int) -> None:
        found = _op(input, weights[index % 4], None, "")
        torch.testing.assert_close(found, expected[index % 4], atol=1e-4, rtol=1e-4)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(check, range(200)))


def test_made_in_inference_mode_it_serves_outside_of_it() -> None:
    input, weight = torch.randn(5, 16), torch.randn(24, 16)
    with torch.inference_mode():
        first = _op(input, weight, None, "")
    assert torch.equal(_op(input, weight, None, ""), first)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tangent_passes(name: str) -> None:
    x, weight, bias = torch.randn(3, 16), torch.randn(24, 16), torch.randn(24)
    direction = torch.randn_like(x)

    def torchs(x: Tensor) -> Tensor:
        return FUNCTIONS[name](F.linear(x, weight, bias))

    def ours(x: Tensor) -> Tensor:
        result: Tensor = _op(x, weight, bias, name)
        return result

    _, expected = torch.func.jvp(torchs, (x,), (direction,))
    torch.testing.assert_close(torch.func.jvp(ours, (x,), (direction,))[1], expected)
    with forward_ad.dual_level():
        result = forward_ad.unpack_dual(ours(forward_ad.make_dual(x, direction)))
        torch.testing.assert_close(result.tangent, expected)
