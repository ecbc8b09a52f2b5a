"""torch._dyn_quant_pack_4bit_weight and torch._dyn_quant_matmul_4bit on cpuaccel's kernels."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from _settings import setting
from quant._engine import counted, needs_plugin, off
from torch import Tensor

pytestmark = [
    needs_plugin,
    pytest.mark.skipif(torch.backends.kleidiai.is_available(), reason="torch packs for KleidiAI"),
]

_pack: Any = torch.ops.aten._dyn_quant_pack_4bit_weight
_matmul: Any = torch.ops.aten._dyn_quant_matmul_4bit


def _operands(M: int, N: int, K: int, group: int, dtype: torch.dtype = torch.float32) -> Any:
    """Rows, codes (0 to 15), scales and a bias."""
    torch.manual_seed(N + K)
    codes = torch.randint(0, 16, (N, K), dtype=torch.uint8)
    scales = torch.rand(N, K // group) + 0.1
    return torch.randn(M, K).to(dtype), codes, scales, torch.randn(N)


def _bytes(codes: Tensor) -> Tensor:
    even, odd = codes[:, ::2], codes[:, 1::2]
    return even | torch.nn.functional.pad(odd, (0, even.shape[1] - odd.shape[1])) << 4


def _weight(codes: Tensor, scales: Tensor) -> Tensor:
    return (codes.double() - 8) * scales.double().repeat_interleave(
        codes.shape[1] // scales.shape[1], 1
    )


def _assert_right(
    x: Tensor, codes: Tensor, scales: Tensor, bias: Tensor | None, result: Tensor
) -> None:
    """Compares with float64 of the unrounded rows, of which each element is off by half a step."""
    weight = _weight(codes, scales)
    added = torch.zeros(len(codes)) if bias is None else bias
    expected = x.double() @ weight.T + added.double()
    step = (x.double().amax(1).clamp(min=0) - x.double().amin(1).clamp(max=0)) / 255
    # Of the zero point in f32, too: it may lie between two integers.
    rounding = (step * (0.5 + 1e-4)).unsqueeze(1) * weight.abs().sum(1)
    terms = x.double().abs() @ weight.abs().T + step.unsqueeze(1) * 255 * weight.abs().sum(1)
    allowed = rounding + 2e-6 * terms + torch.finfo(result.dtype).eps * expected.abs()
    assert result.dtype == x.dtype
    assert ((result.double() - expected).abs() <= allowed).all()


def _run(x: Tensor, codes: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    N, K = codes.shape
    group = K // scales.shape[1]
    packed = _pack(_bytes(codes), scales, bias, group, K, N)
    with counted() as counts:
        result: Tensor = _matmul(x, packed, group, K, N)
    assert counts.calls == {"linear_dynamic.cpuaccel": 1}
    assert not counts.fallbacks
    return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sizes_groups_and_biases(dtype: torch.dtype) -> None:
    for K, group in ((64, 32), (96, 96), (256, 128), (7, 7), (50, 50), (1, 1)):
        if dtype == torch.bfloat16 and group != K:
            continue
        for M, N in ((1, 1), (3, 33), (17, 64)):
            x, codes, scales, bias = _operands(M, N, K, group, dtype)
            for added in (None, bias):
                result = _run(x, codes, scales, added)
                _assert_right(x, codes, scales, added, result)


@pytest.mark.parametrize("isa", ["avx2", "ref"])
def test_lesser_isas(isa: str) -> None:
    with setting("max_isa", isa):
        x, codes, scales, bias = _operands(9, 40, 128, 32)
        _assert_right(x, codes, scales, bias, _run(x, codes, scales, bias))


@pytest.mark.parametrize("types", [(torch.bfloat16, torch.float32), (torch.float64, torch.half)])
def test_types_of_scales_and_bias(types: tuple[torch.dtype, torch.dtype]) -> None:
    x, codes, scales, bias = _operands(4, 32, 64, 32)
    scales, bias = scales.to(types[0]), bias.to(types[1])
    _assert_right(x, codes, scales, bias, _run(x, codes, scales, bias))


def test_packed_is_torchs_and_each_reads_it() -> None:
    for biased in (False, True):
        x, codes, scales, bias = _operands(5, 48, 128, 32)
        arguments = (_bytes(codes), scales, bias if biased else None, 32, 128, 48)
        packed = _pack(*arguments)
        with off():
            by_torch = _pack(*arguments)
            torchs = _matmul(x, packed, 32, 128, 48)
        assert torch.equal(packed, by_torch)
        # Halves are rounded in other ways, but no row here has any.
        torch.testing.assert_close(_matmul(x, by_torch, 32, 128, 48), torchs, rtol=1e-5, atol=1e-4)


def test_rows_and_weights_of_any_strides() -> None:
    """torch reads the rows as if they were contiguous."""
    _, codes, scales, bias = _operands(6, 32, 64, 32)
    spread = torch.randn(6, 80)[:, 5:69]
    for x in (torch.randn(64, 6).t(), spread, spread[::2], spread[:1].expand(4, 64)):
        _assert_right(x, codes, scales, bias, _run(x, codes, scales, bias))
    x = spread.contiguous()
    packed = _pack(
        _bytes(codes).t().contiguous().t(),
        scales.t().contiguous().t(),
        bias.flip(0).flip(0),
        32,
        64,
        32,
    )
    wide = torch.stack([packed, packed], 1)[:, 0]
    for each in (packed, wide, packed.double(), packed.bfloat16()):
        result = _matmul(x, each, 32, 64, 32)
        rounded = scales.to(each.dtype).float(), bias.to(each.dtype).float()
        _assert_right(x, codes, *rounded, result)


def test_no_rows_and_no_columns() -> None:
    x, codes, scales, bias = _operands(0, 32, 64, 32)
    assert _run(x, codes, scales, bias).shape == (0, 32)
    empty = _pack(_bytes(codes)[:0], scales[:0], None, 32, 64, 0)
    assert _matmul(torch.randn(3, 64), empty, 32, 64, 0).shape == (3, 0)


def test_rows_of_extreme_values() -> None:
    _, codes, scales, bias = _operands(1, 32, 64, 32)
    for x in (
        torch.randn(3, 64) * 1e-12,
        torch.rand(3, 64) + 5,
        -torch.rand(3, 64) - 5,
        torch.zeros(2, 64),
        torch.linspace(-1, 1, 64).reshape(1, 64) * 1e33,
    ):
        _assert_right(x, codes, scales, bias, _run(x, codes, scales, bias))
    # The difference of a row's ends exceeds float32.
    result = _run(torch.linspace(-1, 1, 64).expand(1, 64) * 3e38, codes, scales * 1e-6, None)
    assert result.isfinite().all()
    for bad in (torch.nan, torch.inf):
        x = torch.randn(3, 64)
        x[1, 5] = bad
        result = _run(x, codes, scales, bias)
        assert result[1].isnan().all()
        assert result[[0, 2]].isfinite().all()


def test_a_changed_weight_is_noticed() -> None:
    x, codes, scales, _ = _operands(2, 32, 64, 32)
    packed = _pack(_bytes(codes), scales, None, 32, 64, 32)
    before = _matmul(x, packed, 32, 64, 32)
    packed[32 * 32 :].mul_(2)
    assert torch.equal(_matmul(x, packed, 32, 64, 32), before * 2)


def test_one_tensor_read_with_other_sizes() -> None:
    """Its floats are two groups and no bias, or one group and a bias, of 64 columns or 63."""
    _, codes, scales, _ = _operands(2, 32, 64, 32)
    packed = _pack(_bytes(codes), scales, None, 32, 64, 32)
    x = torch.randn(2, 64)
    values = scales.flatten()
    for _ in range(2):
        _assert_right(x, codes, scales, None, _matmul(x, packed, 32, 64, 32))
        for K in (64, 63):
            result = _matmul(x[:, :K], packed, K, K, 32)
            parts = values[:32].reshape(32, 1), values[32:]
            _assert_right(x[:, :K], codes[:, :K], *parts, result)


def test_compiled_and_other_ways() -> None:
    x, codes, scales, bias = _operands(4, 32, 64, 32)

    def function(x: Tensor) -> Tensor:
        packed = _pack(_bytes(codes), scales, bias, 32, 64, 32)
        result: Tensor = _matmul(x, packed, 32, 64, 32)
        return result

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    _assert_right(x, codes, scales, bias, compiled(x))
    packed = _pack(_bytes(codes), scales, bias, 32, 64, 32)
    batched = torch.vmap(lambda x: _matmul(x, packed, 32, 64, 32))(x.reshape(2, 2, 64))
    _assert_right(x, codes, scales, bias, batched.flatten(0, 1))
    with torch.inference_mode():
        _assert_right(x, codes, scales, bias, function(x))
    result = _matmul(x.requires_grad_(), packed, 32, 64, 32)
    with pytest.raises(
        RuntimeError, match="derivative for aten::_dyn_quant_matmul_4bit is not impl"
    ):
        result.sum().backward()


_GOOD = {"group": 32, "K": 64, "N": 32}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group": 0}, "expected block_size to be in_features, or a multiple of 32 .* got block_"),
        ({"group": -32}, "block_size -32 and in_features 64"),
        ({"group": 48}, "block_size 48 and in_features 64"),
        ({"K": 0, "group": 0}, "expected in_features to be positive and below 2^31, but got 0"),
        ({"N": -1}, "expected out_features to be from 0 to 2^31 - 1, but got -1"),
        ({"N": 31}, "vector of 1054 floats, or 1085 with a bias, .* got Float of shape [1088]"),
        ({"K": 128}, "expected inp to be a matrix with 128 columns (in_features), but got shape"),
        ({"x": torch.ones(2, 3, 64)}, "expected inp to be a matrix .* shape [2, 3, 64]"),
        ({"x": torch.ones(64)}, "expected inp to be a matrix .* shape [64]"),
        ({"x": torch.ones(2, 64).half()}, "float32, or bfloat16 .* but got Half, block_size 32"),
        ({"x": torch.ones(2, 64).bfloat16()}, "but got BFloat16, block_size 32 and in_features 64"),
        (
            {"packed": torch.ones(1088).byte()},
            "packed_weights to be .* but got Byte of shape [1088]",
        ),
        ({"packed": torch.ones(2, 544)}, "packed_weights to be a vector .* of shape [2, 544]"),
        ({"packed": torch.full((1088,), -1.0)}, "begin with 1024 bytes, .* but element .* is -1"),
        ({"packed": torch.full((1088,), torch.nan)}, "begin with 1024 bytes, .* is nan"),
    ],
    ids=str,
)
def test_wrong_arguments_of_the_product(changed: dict[str, Any], message: str) -> None:
    x, codes, scales, _ = _operands(2, 32, 64, 32)
    given = {**_GOOD, "x": x, "packed": _pack(_bytes(codes), scales, None, 32, 64, 32), **changed}
    pattern = ".*".join(re.escape(part) for part in message.split(" .* "))
    with pytest.raises(RuntimeError, match=f"_dyn_quant_matmul_4bit: .*{pattern}"):
        _matmul(given["x"], given["packed"], given["group"], given["K"], given["N"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group": 0}, "got block_size 0 and in_features 64"),
        (
            {"weights": torch.ones(32, 31).byte()},
            "32 rows (out_features) of 32 bytes, but got Byte",
        ),
        ({"weights": torch.ones(32, 32)}, "expected weights to be uint8 .* but got Float of shape"),
        ({"scales": torch.ones(32, 2, 2)}, "expected scales_zeros to be 64 floats, .* [32, 2, 2]"),
        ({"scales": torch.ones(64).int()}, "expected scales_zeros to be 64 floats, .* got Int"),
        ({"bias": torch.ones(31)}, "expected bias to be 32 floats (out_features), but got Float"),
    ],
    ids=str,
)
def test_wrong_arguments_of_packing(changed: dict[str, Any], message: str) -> None:
    """torch takes the scales' zeros for a bias, and reads past the end of other parts."""
    _, codes, scales, bias = _operands(2, 32, 64, 32)
    given = {**_GOOD, "weights": _bytes(codes), "scales": scales, "bias": bias, **changed}
    pattern = ".*".join(re.escape(part) for part in message.split(" .* "))
    with pytest.raises(RuntimeError, match=f"_dyn_quant_pack_4bit_weight: .*{pattern}"):
        _pack(*(given[name] for name in ("weights", "scales", "bias", "group", "K", "N")))
