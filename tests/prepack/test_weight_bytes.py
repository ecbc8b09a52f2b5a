"""Packed weights as bytes of a file: their header, rejected bytes, another CPU's packing."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin
from torch import Tensor
from torch.nn import functional as F

import cpuaccel
from cpuaccel import _native
from cpuaccel._ops import saved_linear as _fakes

pytestmark = needs_plugin

_ops: Any = torch.ops.cpuaccel
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_OTHER = 44
"""A panel width that no kernel has."""


@pytest.fixture(autouse=True)
def _seeded(empty_caches: None) -> None:
    torch.manual_seed(0)


def _panel() -> int:
    return _native.load().gemm_panel()


def _packed(weight: Tensor, panel: int | None = None) -> Tensor:
    packed: Tensor = _ops.weight_to_bytes(weight, _panel() if panel is None else panel)
    return packed


def _linear(x: Tensor, packed: Tensor, weight: Tensor, function: str = "") -> Tensor:
    result: Tensor = _ops.saved_linear(x, packed, *weight.shape, None, function)
    return result


def _repacked() -> int:
    return sum(
        count for name, count in cpuaccel.stats()["fallbacks"].items() if "packed again" in name
    )


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (40, 33), (96, 300), (5, 0)], ids=str)
@pytest.mark.parametrize("panel", [None, _OTHER, 12, 192])
def test_the_weight_comes_back_bit_for_bit(
    panel: int | None, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weight = torch.randn(shape).to(dtype)
    assert torch.equal(_ops.weight_from_bytes(_packed(weight, panel)), weight)
    assert torch.equal(_ops.weight_from_bytes(_packed(weight.t().contiguous().t(), panel)), weight)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("rows", [(), (1,), (7,), (2, 9), (0,)], ids=str)
@pytest.mark.parametrize("panel", [None, _OTHER])
def test_it_is_linear(panel: int | None, rows: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight, bias = (torch.randn(size).to(dtype) for size in ((*rows, 33), (40, 33), (40,)))
    packed = _packed(weight, panel)
    tolerance = 1e-4 if dtype == torch.float32 else 0.03
    for row in (bias, None):
        exact = F.linear(x.double(), weight.double(), None if row is None else row.double())
        for name, function in (("", lambda y: y), ("gelu", F.gelu), ("relu", F.relu)):
            found = _ops.saved_linear(x, packed, 40, 33, row, name)
            expected = function(exact).to(dtype)
            torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def test_another_cpus_panels_are_packed_again_once() -> None:
    x, weight = torch.randn(3, 64), torch.randn(96, 64)
    own, others = _packed(weight), _packed(weight, _OTHER)
    expected = _linear(x, own, weight)
    assert _repacked() == 0
    for _ in range(3):
        assert torch.equal(_linear(x, others, weight), expected)
    assert _repacked() == 1
    kept = cpuaccel.stats()["kept_weights"]
    assert (kept["size"], kept["misses"]) == (2, 2)
    assert kept["bytes"] >= weight.nbytes, "of the one that was packed again"
    assert kept["bytes"] < 1.5 * weight.nbytes, "the other serves as it is"
    del others, own
    _linear(x, _packed(weight), weight)
    assert cpuaccel.stats()["kept_weights"]["size"] == 1, "others are gone with their bytes"


def test_bytes_that_do_not_begin_where_numbers_may() -> None:
    x, weight = torch.randn(3, 64), torch.randn(96, 64)
    packed = _packed(weight)
    shifted = torch.zeros(packed.numel() + 1, dtype=torch.uint8)[1:].copy_(packed)
    assert torch.equal(_linear(x, shifted, weight), _linear(x, packed, weight))


def test_of_a_mapped_file(tmp_path: Any) -> None:
    x, weight = torch.randn(3, 64), torch.randn(96, 64)
    packed = _packed(weight)
    packed.numpy().tofile(tmp_path / "weight")
    size = packed.numel()
    mapped = torch.from_file(str(tmp_path / "weight"), size=size, dtype=torch.uint8)
    assert torch.equal(_linear(x, mapped, weight), _linear(x, packed, weight))


def test_switched_off_it_is_torchs() -> None:
    x, weight = torch.randn(3, 64), torch.randn(96, 64)
    packed = _packed(weight, _OTHER)
    with cpuaccel.enabled(False):
        assert torch.equal(_linear(x, packed, weight, "relu"), F.linear(x, weight).relu())


def test_a_float32_weight_is_rounded_for_bfloat16() -> None:
    x, weight = torch.randn(5, 64).bfloat16(), torch.randn(96, 64)
    found = _linear(x, _packed(weight), weight)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, F.linear(x, weight.bfloat16()), atol=0.2, rtol=0.02)


def _header(packed: Tensor, offset: int, form: str, value: int) -> Tensor:
    changed = packed.clone()
    struct.pack_into(form, changed.numpy(), offset, value)
    return changed


def _flipped(packed: Tensor, at: int) -> Tensor:
    changed = packed.clone()
    changed[at] ^= 1
    return changed


_HEADER = "damaged packed weight: the header does not match its checksum"
_BAD = {
    "no bytes": (lambda p: p[:0], "truncated packed weight: expected at least 64 bytes, but got 0"),
    "half a header": (lambda p: p[:40], "expected at least 64 bytes, but got 40"),
    "half the panels": (lambda p: p[: p.numel() // 2], "truncated packed weight: expected"),
    "more": (lambda p: torch.cat([p, p[:8]]), "truncated packed weight: expected"),
    "something else": (lambda p: torch.zeros_like(p), "begin with"),
    "a later version": (
        lambda p: _header(p, 8, "<I", 3),
        "of format version 3, but this cpuaccel reads version 2",
    ),
    "an earlier version": (
        lambda p: _header(p, 8, "<I", 1),
        "of format version 1, but this cpuaccel reads version 2",
    ),
    "another layout": (lambda p: _header(p, 12, "<I", 7), _HEADER),
    "another type": (lambda p: _header(p, 16, "<I", 9), _HEADER),
    "a panel of nothing": (
        lambda p: _header(p, 20, "<I", 0),
        _HEADER,
    ),
    "too large": (lambda p: _header(p, 24, "<q", 1 << 62), _HEADER),
    "negative": (lambda p: _header(p, 32, "<q", -1), _HEADER),
    "a bit of the first panel": (lambda p: _flipped(p, 64), "do not match their checksum"),
    "a bit of the last": (lambda p: _flipped(p, p.numel() - 1), "do not match their checksum"),
    "a bit of the sum": (lambda p: _flipped(p, 50), _HEADER),
    "another dtype": (lambda p: p.to(torch.int32), "expected bytes to be uint8"),
    "two dimensions": (lambda p: p.view(2, -1), "expected bytes to be uint8"),
}


@pytest.mark.parametrize("case", _BAD)
@pytest.mark.parametrize("panel", [None, _OTHER])
def test_rejected_arguments(case: str, panel: int | None) -> None:
    change, message = _BAD[case]
    x, weight = torch.randn(3, 64), torch.randn(96, 64)
    bad = change(_packed(weight, panel))
    with pytest.raises(RuntimeError, match=f"cpuaccel::saved_linear: .*{message}"):
        _linear(x, bad, weight)
    with pytest.raises(RuntimeError, match=f"cpuaccel::weight_from_bytes: .*{message}"):
        _ops.weight_from_bytes(bad)


def test_every_bit_of_the_header_counts() -> None:
    packed = _packed(torch.randn(8, 16))
    for bit in range(64 * 8):
        bad = packed.clone()
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RuntimeError, match="packed weight"):
            _ops.weight_from_bytes(bad)


def test_bytes_that_are_written_to_are_checked_again() -> None:
    x, weight = torch.randn(3, 64), torch.randn(96, 64)
    packed = _packed(weight)
    _linear(x, packed, weight)
    packed[100] ^= 1
    with pytest.raises(RuntimeError, match="do not match their checksum"):
        _linear(x, packed, weight)
    packed.copy_(_packed(2 * weight))
    assert torch.equal(_linear(x, packed, weight), _linear(x, _packed(2 * weight), weight))


def test_a_weight_of_other_sizes_than_the_call_says() -> None:
    packed = _packed(torch.randn(96, 64))
    with pytest.raises(RuntimeError, match="of a weight of 64 x 96, but got 96 x 64"):
        _ops.saved_linear(torch.randn(3, 96), packed, 64, 96, None, "")


def test_bad_arguments() -> None:
    with pytest.raises(
        RuntimeError, match="expected panel to be the panel width of a kernel, but got 6"
    ):
        _ops.weight_to_bytes(torch.randn(4, 4), 6)
    with pytest.raises(RuntimeError, match="expected weight to be a matrix"):
        _ops.weight_to_bytes(torch.randn(4, 4, 4), 16)
    with pytest.raises(RuntimeError, match="expected weight to be a matrix"):
        _ops.weight_to_bytes(torch.randn(4, 4).double(), 16)


def test_fake_kernels() -> None:
    weight = torch.randn(40, 33)
    packed = _packed(weight)
    assert packed[:8].numpy().tobytes() == b"cpuaccW\n"
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    for op, args in (
        (_ops.weight_to_bytes, (weight, _panel())),
        (_ops.saved_linear, (torch.randn(2, 3, 33), packed, 40, 33, torch.randn(40), "gelu")),
    ):
        torch.library.opcheck(op.default, args, test_utils=checks)
    assert _fakes.HEADER == 64


def test_a_tangent_passes() -> None:
    weight = torch.randn(40, 33)
    packed = _packed(weight)
    x, direction = torch.randn(3, 33), torch.randn(3, 33)

    def torchs(x: Tensor) -> Tensor:
        return F.gelu(F.linear(x, weight))

    def saved(x: Tensor) -> Tensor:
        return _linear(x, packed, weight, "gelu")

    _, expected = torch.func.jvp(torchs, (x,), (direction,))
    torch.testing.assert_close(torch.func.jvp(saved, (x,), (direction,))[1], expected)
