"""linear under autocast: the kernel rounds the weight, or caches its cast, and is never stale.

The kernel rounds where the CPU has BF16 arithmetic; the tests of the cached cast cap the ISA below
it.
"""

from collections.abc import Iterator

import pytest
import torch
from _settings import setting
from torch import Tensor, nn
from torch.autograd import forward_ad

import cpuaccel
from cpuaccel import _native
from ops._compare import ISAS, capped

pytestmark = pytest.mark.usefixtures("empty_caches")


@pytest.fixture
def keeping() -> Iterator[None]:
    """A CPU on which casts are cached."""
    with capped("avx2" if "avx2" in ISAS else "ref"):
        yield


def _run(layer: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        result: Tensor = layer(x)
    return result


def _counts() -> dict[str, int]:
    found: dict[str, int] = cpuaccel.stats()["weight_cache"]
    return found


@pytest.mark.usefixtures("keeping")
def test_the_second_block_finds_the_cast() -> None:
    layer, x = nn.Linear(24, 16), torch.randn(3, 24)
    first, second = _run(layer, x), _run(layer, x)
    assert first.dtype == torch.bfloat16
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert (_counts()["misses"], _counts()["hits"]) == (1, 1)
    assert _counts()["bytes"] == 24 * 16 * 2


@pytest.mark.parametrize("shape", [(2, 5, 70), (70,), (3, 70), (0, 70), (40, 70)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("biased", [True, False])
def test_it_is_torch_s_result(shape: tuple[int, ...], dtype: torch.dtype, biased: bool) -> None:
    layer, x = nn.Linear(70, 33, bias=biased), torch.randn(shape).to(dtype)
    ours = _run(layer, x)
    with cpuaccel.enabled(False):
        theirs = _run(layer, x)
    assert ours.dtype == theirs.dtype
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


def test_views_of_all_kinds_are_taken() -> None:
    layer = nn.Linear(64, 24)
    for x in (
        torch.randn(64, 20).t(),
        torch.randn(20, 128)[:, ::2],
        torch.randn(64).expand(20, 64),
        torch.randn(4, 64, 5).transpose(1, 2),
    ):
        with cpuaccel.enabled(False):
            theirs = _run(layer, x)
        torch.testing.assert_close(_run(layer, x), theirs, rtol=1e-2, atol=1e-2)


def test_wrong_sizes_are_torch_s_error() -> None:
    layer = nn.Linear(8, 4)
    with pytest.raises(RuntimeError) as ours:
        _run(layer, torch.randn(2, 9))
    with cpuaccel.enabled(False), pytest.raises(RuntimeError) as theirs:
        _run(layer, torch.randn(2, 9))
    assert str(ours.value) == str(theirs.value)


def test_nothing_is_cached_where_packing_rounds_operands() -> None:
    if not _native.load().rounds_while_packing():
        pytest.skip("this CPU has no AVX512-BF16, or has AMX: there the cast is cached")
    layer, x = nn.Linear(64, 32), torch.randn(20, 64)
    _run(layer, x)
    layer.weight.data.fill_(1.0)
    layer.bias.data.zero_()
    expected = x.bfloat16().double().sum(1, keepdim=True).expand(20, 32)
    torch.testing.assert_close(_run(layer, x).double(), expected, rtol=1e-2, atol=1e-2)
    assert _counts()["misses"] == 0
    assert cpuaccel.stats()["calls"]["addmm.cpuaccel"] == 2


def test_long_rows_from_memory_times_few_outputs_are_cast() -> None:
    if not _native.load().rounds_while_packing():
        pytest.skip("this CPU has no AVX512-BF16, or has AMX: there the cast is cached")
    layer, x = nn.Linear(700, 16), torch.randn(1500, 700)
    with cpuaccel.enabled(False):
        theirs = _run(layer, x)
    torch.testing.assert_close(_run(layer, x), theirs, rtol=1e-2, atol=1e-2)
    assert _counts()["misses"] == 1


def test_a_traced_module_still_has_its_linear() -> None:
    layer, x = nn.Linear(16, 12).eval(), torch.randn(20, 16)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        traced = torch.jit.trace(layer, x, check_trace=False)
    assert "linear" in str(traced.inlined_graph)
    other = torch.randn(9, 16)
    torch.testing.assert_close(
        traced(other).float(), _run(layer, other).float(), rtol=1e-2, atol=1e-2
    )


@pytest.mark.usefixtures("keeping")
def test_a_changed_weight_is_cast_anew() -> None:
    layer, x = nn.Linear(8, 8, bias=False), torch.ones(1, 8)
    _run(layer, x)
    layer.weight.data.fill_(1.0)  # does not change the version counter
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


@pytest.mark.usefixtures("keeping")
def test_the_cache_is_bounded_and_can_be_emptied() -> None:
    layers = [nn.Linear(512, 512, bias=False) for _ in range(4)]  # half a MiB each when cast
    with setting("weight_cache_mib", 1):
        for layer in layers:
            _run(layer, torch.randn(1, 512))
        assert (_counts()["size"], _counts()["evictions"]) == (2, 2)
        cpuaccel.clear_caches()
        assert (_counts()["size"], _counts()["bytes"]) == (0, 0)


@pytest.mark.usefixtures("keeping")
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


@pytest.mark.usefixtures("keeping")
def test_a_transform_s_cast_is_not_cached() -> None:
    layer, x = nn.Linear(24, 16).requires_grad_(False), torch.randn(3, 24)
    expected = _run(layer, x)
    cpuaccel.clear_caches()

    def loss(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result: Tensor = layer(x).float().sum()
        return result

    assert torch.func.grad(loss)(x).shape == x.shape
    torch.testing.assert_close(_run(layer, x), expected, rtol=0, atol=0)


@pytest.mark.parametrize("of", ["input", "weight"])
def test_a_tangent_passes(of: str) -> None:
    layer, x = nn.Linear(24, 16, bias=False).requires_grad_(False), torch.randn(3, 24)

    def tangent() -> Tensor:
        with forward_ad.dual_level(), torch.autocast("cpu", dtype=torch.bfloat16):
            given, weight = x, layer.weight.detach()
            if of == "input":
                given = forward_ad.make_dual(x, torch.ones_like(x))
            else:
                weight = forward_ad.make_dual(weight, torch.ones_like(weight))
            result = forward_ad.unpack_dual(nn.functional.linear(given, weight)).tangent
            assert result is not None
            return result.clone()

    ours = tangent()
    with cpuaccel.enabled(False):
        torch.testing.assert_close(ours, tangent(), rtol=2e-2, atol=2e-2)
