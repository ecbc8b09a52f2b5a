"""linear under autocast: the cast of a weight is kept from one block to the next, never stale."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from cpuaccel import config


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    cpuaccel.clear_caches()
    cpuaccel.reset_stats()
    yield
    cpuaccel.clear_caches()


def _run(layer: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        result: Tensor = layer(x)
    return result


def _counts() -> dict[str, int]:
    found: dict[str, int] = cpuaccel.stats()["weight_cache"]
    return found


def test_the_second_block_finds_the_cast() -> None:
    layer, x = nn.Linear(24, 16), torch.randn(3, 24)
    first, second = _run(layer, x), _run(layer, x)
    assert first.dtype == torch.bfloat16
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert (_counts()["misses"], _counts()["hits"]) == (1, 1)
    assert _counts()["bytes"] == 24 * 16 * 2


def test_it_is_torch_s_result() -> None:
    layer, x = nn.Linear(70, 33), torch.randn(2, 5, 70)
    ours = _run(layer, x)
    with cpuaccel.enabled(False):
        torch.testing.assert_close(ours, _run(layer, x), rtol=1e-2, atol=1e-2)


def test_a_changed_weight_is_cast_anew() -> None:
    layer, x = nn.Linear(8, 8, bias=False), torch.ones(1, 8)
    _run(layer, x)
    layer.weight.data.fill_(1.0)  # leaves the version alone
    assert _run(layer, x).tolist() == [[8.0] * 8]
    assert _counts()["stale"] == 1


def test_training_goes_through_torch_s_cast() -> None:
    layer, x = nn.Linear(8, 4), torch.randn(2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x).float().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
    assert _counts()["misses"] == 0


def test_a_cast_made_in_inference_mode_serves_gradients_of_the_input() -> None:
    layer = nn.Linear(8, 4).requires_grad_(False)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        layer(torch.randn(2, 8))
    x = torch.randn(2, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x).float().sum().backward()
    assert x.grad is not None
    expected = layer.weight.bfloat16().float().sum(0).expand(2, 8)
    torch.testing.assert_close(x.grad, expected, rtol=2e-2, atol=2e-2)


def test_the_switch_of_autocast_s_cache_is_obeyed() -> None:
    layer = nn.Linear(8, 4)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        layer(torch.randn(2, 8))
    assert _counts()["misses"] == 0


def test_the_cache_is_bounded_and_can_be_emptied() -> None:
    layers = [nn.Linear(512, 512, bias=False) for _ in range(4)]  # half a MiB each, cast
    before = config.get("weight_cache_mib")
    config.set("weight_cache_mib", 1)
    try:
        for layer in layers:
            _run(layer, torch.randn(1, 512))
        assert (_counts()["size"], _counts()["evictions"]) == (2, 2)
        cpuaccel.clear_caches()
        assert (_counts()["size"], _counts()["bytes"]) == (0, 0)
    finally:
        config.set("weight_cache_mib", before)


def test_what_is_gone_is_dropped() -> None:
    layer = nn.Linear(64, 64)
    _run(layer, torch.randn(1, 64))
    del layer
    _run(nn.Linear(8, 8), torch.randn(1, 8))
    assert _counts()["size"] == 1


def test_other_types_and_float16() -> None:
    x = torch.randn(2, 8)
    layer = nn.Linear(8, 4)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        assert layer(x).dtype == torch.float16
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
        assert layer.double()(x.double()).dtype in (torch.float64, torch.bfloat16)
