"""The results of packed linear layers, and of the op that they call."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_plugin
from torch import Tensor, nn
from torch.nn import functional as F

import cpuaccel
from cpuaccel import _native
from prepack._models import (
    assert_close,
    fallbacks,
    is_packed,
    mlp,
    packed,
    without_bf16_arithmetic,
)

pytestmark = needs_plugin

_op: Any = torch.ops.cpuaccel


def _pack(weight: Tensor) -> tuple[Tensor, int, int, int]:
    panel = _native.load().gemm_panel()
    return _op.pack_linear(weight, panel), panel, *weight.shape


@given(
    leading=st.lists(st.integers(0, 40), max_size=3),
    rows=st.integers(1, 130),
    columns=st.integers(1, 600),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    bias=st.booleans(),
)
def test_it_is_linear(
    leading: list[int], rows: int, columns: int, dtype: torch.dtype, bias: bool
) -> None:
    weight = torch.randn(rows, columns, dtype=torch.float64).div(columns**0.5).to(dtype)
    input = torch.randn(*leading, columns).to(dtype)
    row = torch.randn(rows).to(dtype) if bias else None
    form = _pack(weight)
    assert torch.equal(_op.unpack_linear(*form), weight)
    result = _op.packed_linear(input, *form, row)
    exact = F.linear(input.double(), weight.double(), None if row is None else row.double())
    assert result.shape == exact.shape
    assert result.dtype == dtype
    assert_close(result, exact.to(dtype))


def _pack_pairs(weight: Tensor) -> tuple[Tensor, int, int, int]:
    """Bfloat16 packed for BF16 arithmetic, or the reference kernel if the CPU has none."""
    panel = _native.load().pairs_panel()
    return _op.pack_linear(weight, panel, True), panel, *weight.shape


@given(
    rows=st.integers(1, 90),
    features=st.integers(1, 130),
    columns=st.integers(1, 300),
    rounded=st.booleans(),
)
def test_pairs_are_linear(rows: int, features: int, columns: int, rounded: bool) -> None:
    weight = torch.randn(features, columns).div(columns**0.5)
    given, half = (weight, weight.bfloat16()) if rounded else (weight.bfloat16(),) * 2
    form = _pack_pairs(given)
    assert form[0].dtype == torch.int32
    assert torch.equal(_op.unpack_linear(*form), half)
    input, bias = torch.randn(rows, columns).bfloat16(), torch.randn(features).bfloat16()
    exact = F.linear(input.double(), half.double(), bias.double())
    assert_close(_op.packed_linear(input, *form, bias), exact.to(torch.bfloat16))


def test_unpacked_pairs_bits() -> None:
    bits = torch.randint(-(2**15), 2**15, (75, 531), dtype=torch.int16)
    back = _op.unpack_linear(*_pack_pairs(bits.view(torch.bfloat16)))
    assert torch.equal(back.view(torch.int16), bits)


def test_pairs_of_half_are_rejected() -> None:
    with pytest.raises(RuntimeError, match="float32 or bfloat16 for pairs"):
        _pack_pairs(torch.zeros(4, 4, dtype=torch.float16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_unpacked_bits(dtype: torch.dtype) -> None:
    """NaN with any payload, infinities, negative zero, subnormal numbers."""
    integers = torch.int32 if dtype == torch.float32 else torch.int16
    info = torch.iinfo(integers)
    bits = torch.randint(info.min, info.max, (75, 531), dtype=integers)
    weight = bits.view(dtype)
    back = _op.unpack_linear(*_pack(weight))
    assert torch.equal(back.view(integers), bits)
    transposed = _op.unpack_linear(*_pack(weight.t()))
    assert torch.equal(transposed.view(integers), bits.t())


def test_inputs_of_any_layout() -> None:
    layer = nn.Linear(64, 96).eval()
    ours = packed(layer)
    base = torch.randn(6, 5, 128)
    with torch.no_grad():
        for input in (
            base[..., ::2],
            base[..., :64],
            base[:, :, 64:].transpose(0, 1),
            base.transpose(1, 2)[:, :64].transpose(1, 2),
            base[:1, :1, :64].expand(4, 3, 64),
            base[0, 0, :64],
            base[:, :0, :64],
            torch.randn(64, 5).t(),
        ):
            assert_close(ours(input), layer(input))


@pytest.mark.parametrize(
    "input",
    [
        torch.randn(3, 63),
        torch.randn(3, 64, dtype=torch.float64),
        torch.randn(3, 64).half(),
        torch.ones(3, 64, dtype=torch.int64),
        torch.tensor(1.0),
        torch.randn(64, 3),
    ],
    ids=lambda x: f"{list(x.shape)} {x.dtype}",
)
def test_errors_are_torch_s(input: Tensor) -> None:
    layer = nn.Linear(64, 96).eval()
    with pytest.raises(Exception) as expected:  # noqa: PT011
        layer(input)
    with pytest.raises(type(expected.value)) as found:
        packed(layer)(input)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("stored", [torch.float32, torch.float16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype, stored: torch.dtype) -> None:
    layer = nn.Linear(300, 96).to(stored).eval()
    ours, input = packed(layer), torch.randn(2, 7, 300)
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
        found, expected = ours(input), layer(input)
    packs = stored == torch.float32 or not _native.load().has_fp16_arithmetic()
    assert is_packed(ours) is packs
    assert found.dtype == expected.dtype == dtype
    assert_close(found, expected)


def test_autocast_leaves_double_to_torch() -> None:
    layer = nn.Linear(64, 96).eval()
    for each in (layer, packed(layer)):
        with (
            torch.autocast("cpu", dtype=torch.bfloat16),
            pytest.raises(RuntimeError, match="dtype"),
        ):
            each(torch.randn(3, 64, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_models(dtype: torch.dtype) -> None:
    model = mlp().to(dtype)
    with without_bf16_arithmetic(), torch.no_grad():
        ours, input = packed(model), torch.randn(5, 64).to(dtype)
        assert is_packed(ours[0])
        assert_close(ours(input), model(input))


def test_bfloat16_is_not_packed_if_the_cpu_multiplies_it() -> None:
    if not _native.load().has_bf16_arithmetic():
        pytest.skip("this CPU has no BF16 arithmetic")
    cpuaccel.reset_stats()
    assert not is_packed(packed(nn.Linear(64, 96).bfloat16()))
    assert any("multiplies bfloat16 faster" in reason for reason in fallbacks())


def test_other_instructions_than_it_was_packed_for() -> None:
    """Weights whose kernel may no longer run are unpacked for torch at each call."""
    model, input = mlp(), torch.randn(4, 64)
    ours = packed(model)
    with without_bf16_arithmetic(), torch.no_grad():
        assert_close(ours(input), model(input))
        assert_close(packed(ours)(input), model(input))


def test_switched_off() -> None:
    model, input = mlp(), torch.randn(4, 64)
    ours = packed(model)
    cpuaccel.reset_stats()
    with cpuaccel.enabled(False), torch.no_grad():
        torch.testing.assert_close(ours(input), model(input), rtol=0, atol=0)
    assert fallbacks() == {"cpuaccel is off": 2}
    with torch.no_grad():
        assert_close(ours(input), model(input))
    assert cpuaccel.stats()["calls"]["packed_linear.cpuaccel"] == 2


def test_switched_off_under_autocast() -> None:
    layer, input = nn.Linear(64, 96).eval(), torch.randn(4, 64)
    ours = packed(layer)
    with (
        cpuaccel.enabled(False),
        torch.no_grad(),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        torch.testing.assert_close(ours(input), layer(input), rtol=0, atol=0)


def test_gradients_of_what_is_not_packed() -> None:
    model = mlp()
    ours = packed(model)
    gradients = []
    for each in (model, ours):
        input = torch.randn(4, 5, 64, generator=torch.Generator().manual_seed(1)).requires_grad_()
        each(input).square().sum().backward()
        gradients.append((input.grad, each[0].bias.grad))
    assert is_packed(ours[0])
    for found, expected in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_gradients_twice() -> None:
    weight = torch.randn(5, 6)
    form = _pack(weight)
    input = torch.randn(3, 6, requires_grad=True)
    row = torch.randn(5, requires_grad=True)
    first = torch.autograd.grad(
        _op.packed_linear(input, *form, row).pow(3).sum(), (input, row), create_graph=True
    )
    found = torch.autograd.grad(sum(g.sum() for g in first), (input, row))
    first = torch.autograd.grad(
        F.linear(input, weight, row).pow(3).sum(), (input, row), create_graph=True
    )
    expected = torch.autograd.grad(sum(g.sum() for g in first), (input, row))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_gradients_under_autocast() -> None:
    layer = nn.Linear(64, 96).eval()
    ours = packed(layer)
    gradients = []
    for each in (layer, ours):
        input = torch.ones(4, 64, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            each(input).float().sum().backward()
        gradients.append((input.grad, each.bias.grad))
    for found, expected in zip(gradients[1], gradients[0], strict=True):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_inference_mode() -> None:
    model, input = mlp(), torch.randn(4, 64)
    ours = copy.deepcopy(model)
    with torch.inference_mode():
        cpuaccel.prepack(ours)
        assert is_packed(ours[0])
        assert_close(ours(input), model(input))
        weight = ours[0].weight
    assert not weight.is_inference()
    ours(input).sum().backward()
    assert ours[0].weight.grad is not None


def test_many_threads_at_once() -> None:
    model, input = mlp(), torch.randn(16, 64)
    ours = packed(model)
    with torch.no_grad():
        expected = model(input)

    def run(_: int) -> Tensor:
        with torch.no_grad():
            result: Tensor = ours(input)
        return result

    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(run, range(40)):
            assert_close(result, expected)


def test_made_plain_while_others_run_it() -> None:
    encoder = nn.TransformerEncoderLayer(64, 4, 96, batch_first=True).eval()
    model, input = nn.Sequential(mlp(), encoder), torch.randn(2, 5, 64)
    with torch.no_grad():
        expected = model(input)
    for _ in range(5):
        ours = packed(model)

        def run(index: int, ours: Any = ours) -> Tensor:
            if index == 20:
                list(ours.parameters())
            with torch.no_grad():
                result: Tensor = ours(input)
            return result

        with ThreadPoolExecutor(4) as pool:
            for result in pool.map(run, range(40)):
                torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        assert not any(map(is_packed, ours.modules()))


def test_the_same_bits_on_any_number_of_threads() -> None:
    ours, input = packed(nn.Linear(512, 1024).eval()), torch.randn(150, 512)
    with torch.no_grad():
        torch.set_num_threads(1)
        one = ours(input)
        torch.set_num_threads(2)
        torch.testing.assert_close(ours(input), one, rtol=0, atol=0)


@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("learns", [False, True])
def test_opcheck(leading: tuple[int, ...], learns: bool) -> None:
    form = _pack(torch.randn(33, 20))
    input = torch.randn(*leading, 20, requires_grad=learns)
    bias = torch.randn(33, requires_grad=learns)
    torch.library.opcheck(_op.packed_linear.default, (input, *form, bias))
    torch.library.opcheck(_op.packed_linear.default, (input, *form, None))
    mixed = (input.detach().bfloat16(), *form, bias.detach(), torch.bfloat16)
    torch.library.opcheck(_op.packed_linear.default, mixed)


def test_opcheck_of_packing() -> None:
    weight = torch.randn(33, 20)
    torch.library.opcheck(_op.pack_linear.default, (weight, 16))
    torch.library.opcheck(_op.unpack_linear.default, _pack(weight))
    torch.library.opcheck(_op.pack_linear.default, (weight, _native.load().pairs_panel(), True))
    torch.library.opcheck(_op.unpack_linear.default, _pack_pairs(weight))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"panel": 7}, "panel"),
        ({"out_features": 999}, "packed"),
        ({"in_features": -1}, "packed"),
        ({"out_features": 2**63 - 1}, "packed"),
        ({"out_features": 0}, "packed"),
        ({"packed": torch.zeros(5)}, "packed"),
        ({"packed": torch.zeros(3, 3)}, "packed"),
        ({"packed": torch.zeros(640, dtype=torch.int64)}, "packed"),
        ({"dtype": torch.bfloat16}, "dtype"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    form = dict(zip(("packed", "panel", "out_features", "in_features"), _pack(torch.randn(33, 20)),
                    strict=True))  # fmt: skip
    with pytest.raises(RuntimeError, match=message):
        _op.packed_linear(**{"input": torch.randn(2, 20), **form, "bias": None, **change})


@pytest.mark.parametrize("weight", [torch.randn(3), torch.randn(3, 4).double()])
def test_packing_rejects(weight: Tensor) -> None:
    with pytest.raises(RuntimeError, match="expected weight to be a matrix"):
        _op.pack_linear(weight, 16)


def test_compiled() -> None:
    model, input = mlp(), torch.randn(4, 64)
    ours = packed(model)
    with torch.no_grad():
        compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
        assert_close(compiled(input), model(input))
