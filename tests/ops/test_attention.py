"""scaled_dot_product_attention by cpuaccel's flash kernel, against float64 and torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, needs_plugin, off, running
from torch import Tensor

from ops._compare import capped, isas

pytestmark = needs_plugin

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_NONE = -float("inf")
_NOT_AMD = "cpu_vendor() is not AuthenticAMD: torch runs attention of one query"
_NOT_X86 = "cpu_features() has no avx2: torch runs attention, for all that was measured"
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def _amd() -> bool:
    from cpuaccel._native import load

    return str(load().cpu_vendor()) == "AuthenticAMD"


def _has_tiles() -> bool:
    # The system may deny AMX tiles to a process.
    found: bool = torch.cpu._is_amx_tile_supported() and torch.cpu._init_amx()
    return found


def _is_x86() -> bool:
    from cpuaccel._native import load

    return "avx2" in load().cpu_features()


def _operands(
    sizes: tuple[int, int, int, int, int], dtype: torch.dtype, layout: str
) -> tuple[Tensor, Tensor, Tensor]:
    N, H, L, S, E = sizes
    if layout == "heads of a linear layer":
        made = [torch.randn(N, n, H, E).transpose(1, 2) for n in (L, S, S)]
    elif layout == "strided":
        made = [torch.randn(N, H, n, 2 * E)[..., ::2] for n in (L, S, S)]
        made[0] = made[0].contiguous()
    else:
        made = [torch.randn(N, H, n, E) for n in (L, S, S)]
    q, k, v = (x.to(dtype) for x in made)
    return q, k, v


def _exact(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    scores = q.double() @ k.double().transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + mask.double()
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), _NONE)
    # A query that may see no key gives 0, as in torch.
    return scores.softmax(-1).nan_to_num(0.0) @ v.double()


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False):
    with counted() as counts:
        ours, logsumexp = _FLASH(q, k, v, 0.0, causal, attn_mask=mask)
    with off():
        theirs, other = _FLASH(q, k.contiguous(), v.contiguous(), 0.0, causal, attn_mask=mask)
    tolerance = 2e-2 if q.dtype == torch.bfloat16 else 2e-5
    expected = _exact(q, k, v, mask, causal)
    torch.testing.assert_close(ours.double(), expected, rtol=tolerance, atol=tolerance)
    # torch's logsumexp is less accurate for bfloat16.
    tolerance = 2e-4 if q.dtype == torch.bfloat16 else 2e-5
    torch.testing.assert_close(logsumexp, other, rtol=tolerance, atol=tolerance)
    assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
    assert (logsumexp.dtype, logsumexp.stride()) == (other.dtype, other.stride())
    return counts


@dtypes
@given(data=st.data())
def test_matches_float64(dtype: torch.dtype, data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.integers(1, most)) for most in (2, 3, 40, 300, 70))
    layouts = ["contiguous", "heads of a linear layer"]
    least = 8 if _amd() else 16
    if _is_x86() and sizes[2] >= least:
        layouts.append("strided")  # torch's kernel, a fallback here, requires contiguous elements
    q, k, v = _operands(sizes, dtype, data.draw(st.sampled_from(layouts)))
    shapes = st.sampled_from([None, *_mask_shapes(sizes)])
    shape, mask = data.draw(shapes), None
    if shape is not None:
        mask = torch.randn(shape).masked_fill(torch.rand(shape) < 0.3, _NONE)
        mask = mask.to(data.draw(st.sampled_from([dtype, torch.float32])))
    _check(q, k, v, mask, causal=mask is None and data.draw(st.booleans()))


def _mask_shapes(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    N, H, L, S, _ = sizes
    return [(L, S), (1, S), (N, 1, 1, S), (N, H, L, S), (1, H, L, S), (N, 1, L, 1)]


@dtypes
@pytest.mark.parametrize("queries", [1, 2, 20, 450])
def test_heads_that_share_keys(dtype: torch.dtype, queries: int) -> None:
    q = torch.randn(2, 6, queries, 32).to(dtype)
    k, v = (torch.randn(2, 2, 470, 32).to(dtype) for _ in range(2))
    tolerance = 2e-2 if dtype == torch.bfloat16 else 2e-5
    expected = _exact(q, *(x.repeat_interleave(3, dim=1) for x in (k, v)), None, False)
    with counted() as counts:
        found = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    if _amd():
        assert counts.calls.get("attention.cpuaccel", 0) == 1


def test_gradients_of_shared_keys_are_torchs() -> None:
    made = [torch.randn(1, heads, 12, 16) for heads in (4, 2, 2)]
    grads = []
    for block in (running("auto"), off()):
        operands = [x.detach().requires_grad_() for x in made]
        with block:
            F.scaled_dot_product_attention(*operands, enable_gqa=True).pow(2).sum().backward()
        grads.append([x.grad for x in operands])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@dtypes
@isas
def test_each_instruction_set(isa: str, dtype: torch.dtype) -> None:
    q, k, v = _operands((2, 3, 270, 290, 64), dtype, "contiguous")
    with running("auto"), capped(isa):
        counts = _check(q, k, v, causal=True)
    assert counts.ours("") == 0  # no layer with weights ran
    assert counts.calls.get("attention.cpuaccel", 0) == int(_is_x86() and isa != "ref")


@dtypes
def test_a_query_that_sees_nothing_is_0(dtype: torch.dtype) -> None:
    q, k, v = _operands((1, 2, 12, 300, 16), dtype, "contiguous")
    mask = torch.zeros(12, 300)
    mask[3], mask[4, :280] = _NONE, _NONE
    _check(q, k, v, mask)


def test_gradients_are_torchs() -> None:
    """torch's backward kernel uses the returned logsumexp."""
    made = _operands((2, 3, 33, 40, 16), torch.float32, "heads of a linear layer")
    grads = []
    for block in (running("auto"), off()):
        operands = [x.detach().requires_grad_() for x in made]
        with block:
            F.scaled_dot_product_attention(*operands).pow(2).sum().backward()
        grads.append([x.grad for x in operands])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_the_same_bits_on_any_number_of_threads() -> None:
    if not _is_x86():
        pytest.skip(_NOT_X86)
    q, k, v = _operands((3, 5, 520, 600, 32), torch.float32, "contiguous")
    results = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        results.append(F.scaled_dot_product_attention(q, k, v))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_in_its_row(special: float) -> None:
    if not _is_x86():
        pytest.skip(f"{_NOT_X86}, and its row of NaN is 0")
    q, k, v = _operands((1, 1, 16, 20, 8), torch.float32, "contiguous")
    q[0, 0, 2, 3] = special
    result = F.scaled_dot_product_attention(q, k, v)[0, 0]
    assert result[2].isnan().all()
    assert result[[0, 1, *range(3, 16)]].isfinite().all()


@pytest.mark.parametrize(
    ("reason", "sizes", "dtype"),
    [
        ("dtype is neither float32 nor bfloat16", (1, 2, 16, 16, 8), torch.float64),
    ],
)
def test_unsupported_dtypes_fall_back(
    reason: str, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    q, k, v = _operands(sizes, dtype, "contiguous")
    with counted() as counts:
        ours = _FLASH(q, k, v)[0]
    with off():
        assert torch.equal(ours, _FLASH(q, k, v)[0])
    assert counts.fallbacks == {f"attention: {reason}": 1}


@dtypes
@pytest.mark.parametrize("queries", range(1, 9))
def test_few_queries_of_wide_heads(dtype: torch.dtype, queries: int) -> None:
    for width in (64, 70, 128):
        _check(*_operands((2, 3, queries, 40, width), dtype, "heads of a linear layer"))


def test_few_queries_with_strided_keys_fall_back() -> None:
    if not _amd():
        pytest.skip(_NOT_AMD)
    q, k, v = _operands((1, 2, 1, 16, 8), torch.float32, "contiguous")
    k = k.transpose(2, 3).contiguous().transpose(2, 3)
    with counted() as counts:
        ours = _FLASH(q, k, v)[0]
    with off():
        assert torch.equal(ours, _FLASH(q, k, v)[0])
    reason = "last dimension of keys or values is strided, with fewer than 8 queries"
    assert counts.fallbacks == {f"attention: {reason}": 1}


def test_few_queries_fall_back_with_amx() -> None:
    if _amd() or not _has_tiles():
        pytest.skip("cpu_vendor() is AuthenticAMD or torch.cpu._init_amx() gives no tiles here")
    for queries, dtype in ((7, torch.bfloat16), (15, torch.float32)):
        q, k, v = _operands((1, 2, queries, 16, 8), dtype, "contiguous")
        with counted() as counts:
            _FLASH(q, k, v)
        reason = "torch's kernel is faster with so few queries"
        assert counts.fallbacks == {f"attention: {reason}": 1}


@pytest.mark.parametrize("wrong", ["a mask of other sizes", "dropout", "values of other heads"])
def test_errors_are_torchs(wrong: str) -> None:
    q, k, v = _operands((1, 2, 16, 16, 8), torch.float32, "contiguous")
    mask = torch.zeros(3, 5) if wrong == "a mask of other sizes" else None
    dropout = 0.5 if wrong == "dropout" else 0.0
    if wrong == "values of other heads":
        v = v[..., :4]
    messages = []
    for block in (running("auto"), off()):
        with block, pytest.raises(RuntimeError) as error:
            _FLASH(q, k, v, dropout, False, attn_mask=mask)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
