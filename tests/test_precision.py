"""BF16 fast math: what enables it, what it computes, and what it does not change."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from _process import run_python
from _settings import setting
from quant._engine import counted

import cpuaccel
from cpuaccel import _native, precision

_mkldnn: Any = torch.backends.mkldnn


@pytest.fixture
def emulated() -> Iterator[None]:
    with setting("fastmath", "emulate"):
        yield


def _native_module() -> _native.Native:
    return _native.load()


def _rounded(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().double()


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("op", ["mm", "addmm", "linear", "bmm", "baddbmm"])
def test_operands_are_rounded_and_sums_are_not(op: str) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(9, 300), torch.randn(300, 11), torch.randn(11)
    batches = (torch.randn(2, 15, 64), torch.randn(2, 64, 17))
    with torch.no_grad(), cpuaccel.fastmath(), counted() as counts:
        result, expected = {
            "mm": lambda: (torch.mm(a, b), _rounded(a) @ _rounded(b)),
            "addmm": lambda: (torch.addmm(c, a, b), c + _rounded(a) @ _rounded(b)),
            "linear": lambda: (
                torch.nn.functional.linear(a, b.t().contiguous(), c),
                c + _rounded(a) @ _rounded(b),
            ),
            "bmm": lambda: (torch.bmm(*batches), _rounded(batches[0]) @ _rounded(batches[1])),
            "baddbmm": lambda: (
                torch.baddbmm(torch.ones(1), *batches),
                1 + _rounded(batches[0]) @ _rounded(batches[1]),
            ),
        }[op]()
    if any(why.endswith("oneDNN has no kernel for this product") for why in counts.fallbacks):
        pytest.skip("oneDNN keeps the cap that a test before set first: the product is torch's")
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.usefixtures("emulated")
def test_each_way_of_asking_is_understood() -> None:
    native = _native_module()
    assert not native.fastmath_on()
    with cpuaccel.fastmath():
        assert native.fastmath_on()
        with cpuaccel.fastmath(False):
            assert not native.fastmath_on()
        assert native.fastmath_on()
    assert not native.fastmath_on()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    assert native.fastmath_on()
    torch.set_float32_matmul_precision(before)
    assert not native.fastmath_on()


@pytest.mark.long
def test_the_environment_asks_too() -> None:
    code = "import torch, cpuaccel; print(cpuaccel._native.load().fastmath_asked())"
    for value, asked in (("BF16", "True"), ("bf16", "True"), ("STRICT", "False")):
        assert run_python(code, DNNL_DEFAULT_FPMATH_MODE=value) == asked


def test_settings_are_as_before_after_an_error() -> None:
    before = _mkldnn.matmul.fp32_precision, _mkldnn.conv.fp32_precision
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(KeyError), cpuaccel.fastmath():
            raise KeyError
    assert (_mkldnn.matmul.fp32_precision, _mkldnn.conv.fp32_precision) == before


def test_a_cpu_without_it_says_so_once_and_stays_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    if _native_module().has_bf16_arithmetic():
        pytest.skip("this CPU has BF16 arithmetic")
    monkeypatch.setattr(precision, "_warned", False)
    a, b = torch.randn(8, 200), torch.randn(200, 8)
    expected = torch.mm(a, b)
    with pytest.warns(RuntimeWarning, match="this CPU has no BF16 arithmetic"), cpuaccel.fastmath():
        result = torch.mm(a, b)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cpuaccel.fastmath():
            pass


@pytest.mark.usefixtures("emulated")
def test_a_weight_is_rounded_once_and_never_stale() -> None:
    if _native_module().rounds_while_packing():
        pytest.skip("this CPU's kernels round operands on the way: no weight is kept")
    cpuaccel.clear_caches()
    cpuaccel.reset_stats()
    layer, x = torch.nn.Linear(32, 8, bias=False), torch.ones(2, 32)
    with torch.no_grad(), cpuaccel.fastmath():
        layer(x)
        layer(x)
        assert cpuaccel.stats()["weight_cache"]["hits"] == 1
        layer.weight.data.fill_(2.0)
        assert layer(x).tolist() == [[64.0] * 8] * 2
    assert cpuaccel.stats()["weight_cache"]["stale"] == 1


@pytest.mark.filterwarnings("ignore:cpuaccel.fastmath")
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_floats_under_fast_math(masked: bool) -> None:
    torch.manual_seed(2)
    q, k, v = (torch.randn(2, 4, 40, 32) for _ in range(3))
    mask = torch.zeros(2, 1, 40, 40)
    mask[..., 30:] = torch.finfo(torch.float32).min
    mask[0, 0, 3] = torch.finfo(torch.float32).min  # nothing allowed: all keys count equally
    chosen = mask if masked else None
    exact = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), None if chosen is None else chosen.double()
    )
    with torch.no_grad(), cpuaccel.fastmath():
        result = torch.nn.functional.scaled_dot_product_attention(q, k, v, chosen)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), exact, rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("ignore:cpuaccel.fastmath")
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("groups", "bias"), [(1, True), (1, False), (2, True)])
def test_convolutions_under_fast_math(last: bool, groups: int, bias: bool) -> None:
    """Operands and results are rounded if the CPU has BF16 arithmetic; the bias is not."""
    torch.manual_seed(3)
    layer = torch.nn.Conv2d(32, 64, 3, padding=1, groups=groups, bias=bias)
    x = torch.randn(2, 32, 14, 14)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    exact = layer.double()(x.double())
    layer.float()
    with cpuaccel.fastmath():
        plain = layer(x)
        plain.sum().backward()
        packed = cpuaccel.prepack(torch.nn.Sequential(layer))(x)
    assert plain.dtype == packed.dtype == torch.float32
    assert plain.stride() == packed.stride() == exact.stride()
    torch.testing.assert_close(plain.double(), exact, rtol=2e-2, atol=2e-2)
    assert torch.equal(packed, plain)
    assert layer.weight.grad is not None


@pytest.mark.usefixtures("emulated")
def test_gradients_flow_and_doubles_stay() -> None:
    a, b = torch.randn(4, 50, requires_grad=True), torch.randn(50, 3, requires_grad=True)
    with cpuaccel.fastmath():
        torch.mm(a, b).sum().backward()
        doubles = torch.mm(a.double(), b.double())
    assert a.grad is not None
    torch.testing.assert_close(a.grad, b.detach().sum(1).expand(4, 50), rtol=2e-2, atol=5e-2)
    torch.testing.assert_close(doubles, a.double() @ b.double())
