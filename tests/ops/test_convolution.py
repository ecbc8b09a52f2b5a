"""fp32 convolutions: against float64, against torch's own kernels, and their fallbacks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, missing, needs_plugin, off
from torch import Tensor

from ops._compare import capped, isas

pytestmark = needs_plugin

_CALLS = "fp32_convolution.cpuaccel"
_MEMORY = {"first": torch.contiguous_format, "last": torch.channels_last}


@contextmanager
def ours(isa: str = "auto") -> Iterator[None]:
    """Forces cpuaccel's kernels even where torch's were measured to be faster."""
    import cpuaccel
    from cpuaccel._native import load

    with cpuaccel.enabled(True), capped(isa):
        load().set_cpuaccel_convolutions_only(True)
        try:
            yield
        finally:
            load().set_cpuaccel_convolutions_only(False)


@dataclass(frozen=True)
class Case:
    """Operands and arguments of one convolution."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    def __str__(self) -> str:
        """Only the shapes, so that a test's name is the same in every process."""
        sizes = [tuple(self.x.shape), tuple(self.weight.shape), self.stride, self.dilation]
        return "-".join("x".join(map(str, size)) for size in sizes)

    def run(self, dtype: torch.dtype | None = None) -> Tensor:
        conv = F.conv1d if self.weight.dim() == 3 else F.conv2d
        tensors = [self.x, self.weight, self.bias]
        if dtype is not None:
            tensors = [None if t is None else t.to(dtype) for t in tensors]
        return conv(*tensors, self.stride, self.padding, self.dilation, self.groups)

    def fits(self) -> bool:
        sizes = zip(
            self.x.shape[-len(self.stride) :],
            self.weight.shape[2:],
            self.padding,
            self.dilation,
            strict=True,
        )
        return all(size + 2 * p >= d * (k - 1) + 1 for size, k, p, d in sizes)


def _bound(case: Case) -> Tensor:
    """The allowed error of each element: every term rounded once, and their sums."""
    magnitude = Case(
        case.x.abs(),
        case.weight.abs(),
        None if case.bias is None else case.bias.abs(),
        case.stride,
        case.padding,
        case.dilation,
        case.groups,
    ).run(torch.float64)
    terms = case.weight[0].numel() + 4
    return magnitude * terms * 2.0**-24 * 1.01


def _check(case: Case, isa: str = "auto") -> None:
    with ours(isa), torch.no_grad(), counted() as counts:
        result = case.run()
    assert counts.calls == {_CALLS: 1}
    with off(), torch.no_grad():
        theirs = case.run()
        exact, bound = case.run(torch.float64), _bound(case)
    assert result.shape == theirs.shape
    assert result.stride() == theirs.stride()
    assert result.dtype == theirs.dtype
    assert torch.all((result.double() - exact).abs() <= bound)


def _case(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
) -> Case:
    spatial = len(weight) - 2
    return Case(
        torch.randn(x),
        torch.randn(weight),
        torch.randn(weight[0]) if bias else None,
        (stride,) * spatial,
        (padding,) * spatial,
        (dilation,) * spatial,
        groups,
    )


def _laid_out(x: Tensor, layout: str) -> Tensor:
    """`x` with the same values in another layout."""
    if layout == "sliced":
        return torch.cat([x, x], dim=-1)[..., : x.shape[-1]]
    if layout == "offset":
        return torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)
    if layout == "permuted":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    return x.contiguous(memory_format=_MEMORY[layout])


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    ic, oc = groups * draw(st.integers(1, 9)), groups * draw(st.integers(1, 20))
    if draw(st.booleans()):
        ic = oc = groups = draw(st.integers(2, 20))

    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    torch.manual_seed(draw(st.integers(0, 2**20)))
    layouts = st.sampled_from(["first", "last", "sliced", "offset", "permuted"])
    return Case(
        _laid_out(torch.randn(draw(st.integers(1, 3)), ic, *pair(1, 20)), draw(layouts)),
        _laid_out(torch.randn(oc, ic // groups, *pair(1, 5)), draw(layouts)),
        torch.randn(oc) if draw(st.booleans()) else None,
        pair(1, 3),
        pair(0, 4),
        pair(1, 2),
        groups,
    )


@isas
@given(case=_cases())
def test_against_float64(isa: str, case: Case) -> None:
    if case.fits():
        _check(case, isa)
    else:
        _same_error(case.run)


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize(
    "case",
    [
        _case((1, 3, 64, 64), (16, 3, 7, 7), stride=2, padding=3),
        _case((2, 64, 14, 14), (64, 64, 3, 3), padding=1),
        _case((1, 300, 7, 7), (150, 300, 3, 3), padding=1),
        _case((1, 64, 28, 28), (32, 64, 1, 1), stride=2),
        _case((1, 16, 30, 30), (8, 16, 3, 3), padding=2, dilation=2, bias=False),
        _case((1, 72, 28, 28), (72, 1, 5, 5), stride=2, padding=2, groups=72),
        _case((2, 58, 28, 28), (58, 1, 3, 3), padding=1, groups=58),
        _case((1, 24, 20, 20), (24, 1, 7, 7), padding=3, groups=24),
        _case((1, 32, 14, 14), (64, 4, 3, 3), padding=1, groups=8),
        _case((1, 6, 9, 9), (12, 1, 3, 3), padding=1, groups=6),
    ],
    ids=str,
)
def test_layers_of_real_networks(case: Case, layout: str) -> None:
    memory = _MEMORY[layout]
    operands = case.x.to(memory_format=memory), case.weight.to(memory_format=memory)
    rest = case.stride, case.padding, case.dilation, case.groups
    _check(Case(*operands, case.bias, *rest))


@pytest.mark.parametrize(
    "case",
    [
        _case((2, 5, 40), (7, 5, 3), padding=1),
        _case((1, 8, 33), (8, 1, 5), stride=2, padding=2, groups=8),
        _case((1, 1, 30), (4, 1, 7), dilation=3),
        _case((3, 6, 1), (4, 6, 1)),
    ],
    ids=["plain", "depthwise", "dilated", "one column"],
)
def test_one_dimension(case: Case) -> None:
    _check(case)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [(1, 1, 1), (2, 1, 2)])
@pytest.mark.parametrize("padding", [(0, 0, 0), (2, 1, 0)])
@pytest.mark.parametrize("dilation", [(1, 1, 1), (2, 1, 1)])
def test_three_dimensions(
    groups: int, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    torch.manual_seed(5)
    x, weight, bias = (
        torch.randn(2, 8, 6, 9, 10),
        torch.randn(12, 8 // groups, 3, 3, 2),
        torch.randn(12),
    )
    exact = F.conv3d(x.double(), weight.double(), bias.double(), stride, padding, dilation, groups)
    with ours(), counted() as counts:
        actual = F.conv3d(x, weight, bias, stride, padding, dilation, groups)
    assert counts.calls.get(_CALLS, 0) > 0
    assert actual.is_contiguous()
    torch.testing.assert_close(actual.double(), exact, rtol=1e-4, atol=1e-4)
    with ours():
        last = x.contiguous(memory_format=torch.channels_last_3d)
        left = F.conv3d(last, weight, bias, stride, padding, dilation, groups)
    assert left.is_contiguous(memory_format=torch.channels_last_3d)


def test_gradients_in_three_dimensions() -> None:
    layer, x = torch.nn.Conv3d(4, 6, 3, padding=1), torch.randn(1, 4, 5, 6, 7)
    grads = []
    for on in (True, False):
        layer.zero_grad()
        src = x.clone().requires_grad_()
        with ours() if on else off():
            layer(src).square().sum().backward()
        grads.append((src.grad, layer.weight.grad.clone()))
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3)


def test_without_a_batch() -> None:
    case = _case((3, 8, 9), (4, 3, 3, 3), padding=1)
    _check(case)


@pytest.mark.parametrize("transposed", [False, True])
def test_more_than_three_spatial_dimensions_are_an_error(transposed: bool) -> None:
    """pytorch #142209: torch 2.13 aborts, or creates a vector of negative size."""
    input, weight = torch.ones(3, 10, 6, 1, 1, 9, 1), torch.zeros(10, 2, 8, 1, 1, 7, 8)
    arguments = (None, [1], [1], [1], transposed, [0], 2)
    with pytest.raises(RuntimeError, match="expected input of at most 5 dimensions"):
        torch.ops.aten.convolution(input, weight, *arguments)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("groups", [1, 4])
def test_what_is_not_finite_reaches_its_results_only(value: float, groups: int) -> None:
    case = _case((1, 4, 9, 9), (4, 4 // groups, 3, 3), padding=1, groups=groups)
    case.x[0, 1, 4, 4] = value
    with ours():
        result = case.run()
    with off():
        theirs = case.run(torch.float64)
    assert torch.equal(result.isnan(), theirs.isnan())
    assert torch.equal(result.isinf(), theirs.isinf())
    assert result.isfinite().any()


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("groups", [1, 48])
def test_threads_give_the_same_bits(threads: int, groups: int) -> None:
    case = _case((3, 48, 33, 33), (96, 48 // groups, 3, 3), padding=1, groups=groups)
    with ours():
        torch.set_num_threads(1)
        one = case.run()
        torch.set_num_threads(threads)
        assert torch.equal(case.run(), one)


def _same_error(call: Callable[[], Tensor]) -> None:
    messages = []
    for context in (ours(), off()):
        with context, pytest.raises((RuntimeError, ValueError)) as raised:
            call()
        messages.append(str(raised.value).splitlines()[0])
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 2, 3, 3)),
        lambda: F.conv2d(torch.randn(1, 3, 2, 2), torch.randn(4, 3, 3, 3)),
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), padding=-1),
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), stride=0),
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), dilation=0),
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(5)),
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3).double()),
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), groups=2),
        lambda: F.conv2d(torch.randn(1, 3, 0, 8), torch.randn(4, 3, 3, 3)),
        lambda: F.conv2d(torch.randn(8, 8), torch.randn(4, 3, 3, 3)),
        lambda: F.conv2d(torch.randn(1, 3, 8, 8), torch.randn(0, 3, 3, 3)),
    ],
)
def test_torch_says_what_is_wrong(call: Callable[[], Tensor]) -> None:
    _same_error(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.conv2d(torch.randn(1, 3, 8, 8).double(), torch.randn(4, 3, 3, 3).double()),
        lambda: F.conv3d(
            torch.randn(1, 3, 5, 8, 8).contiguous(memory_format=torch.channels_last_3d),
            torch.randn(4, 3, 3, 3, 3),
        ),
        lambda: F.conv_transpose2d(torch.randn(1, 3, 8, 8), torch.randn(3, 4, 3, 3)),
        lambda: F.conv2d(torch.randn(0, 3, 8, 8), torch.randn(4, 3, 3, 3)),
    ],
    ids=["double", "3d, channels last", "transposed", "no images"],
)
def test_fallbacks_have_torchs_bits(call: Callable[[], Tensor]) -> None:
    torch.manual_seed(5)
    with ours(), counted() as counts:
        result = call()
    torch.manual_seed(5)
    with off():
        theirs = call()
    assert _CALLS not in counts.calls
    assert result.stride() == theirs.stride()
    assert torch.equal(result, theirs)


def _gradients(case: Case) -> list[Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in (case.x, case.weight)]
    result = F.conv2d(*leaves, None, case.stride, case.padding, case.dilation, case.groups)
    return list(torch.autograd.grad((result * result).sum(), leaves))


@pytest.mark.parametrize("groups", [1, 8])
def test_training_goes_through_it(groups: int) -> None:
    case = _case((2, 8, 9, 9), (16, 8 // groups, 3, 3), stride=2, padding=1, groups=groups)
    with ours(), counted() as counts:
        gradients = _gradients(case)
    assert counts.calls == {_CALLS: 1}
    with off():
        theirs = _gradients(case)
    for a, b in zip(gradients, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_gradients_of_gradients() -> None:
    x = torch.randn(1, 2, 5, 5, dtype=torch.double, requires_grad=True)
    weight = torch.randn(3, 2, 3, 3, dtype=torch.double, requires_grad=True)
    with ours():
        assert torch.autograd.gradcheck(F.conv2d, (x, weight))
        assert torch.autograd.gradgradcheck(F.conv2d, (x, weight))


def _model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
        torch.nn.Conv2d(8, 5, 1),
    ).eval()


def _ways(model: torch.nn.Module, x: Tensor) -> dict[str, Callable[[], Tensor]]:
    state = dict(model.named_parameters())
    return {
        "module": lambda: model(x),
        "inference_mode": lambda: torch.inference_mode()(model)(x).clone(),
        "trace": lambda: torch.jit.trace(model, x)(x),
        "script": lambda: torch.jit.freeze(torch.jit.script(model))(x),
        "functional_call": lambda: torch.func.functional_call(model, state, (x,)),
        "vmap": lambda: torch.func.vmap(lambda one: model(one[None])[0])(x),
        "export": lambda: torch.export.export(model, (x,)).module()(x),
        "compile": lambda: torch.compile(model, backend="aot_eager")(x),
    }


@pytest.mark.parametrize("way", list(_ways(torch.nn.Identity(), torch.zeros(1))))
def test_every_way_to_it(way: str) -> None:
    model, x = _model(), torch.randn(2, 3, 8, 8)
    with off(), torch.no_grad():
        expected = model(x)
    with ours(), torch.no_grad(), counted() as counts:
        result = _ways(model, x)[way]()
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert counts.calls.get(_CALLS, 0) >= 3
    torch._dynamo.reset()


def test_functional_gradient() -> None:
    model, x = _model(), torch.randn(2, 3, 8, 8)
    state = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, parameters, (x,)).square().sum()

    with ours():
        gradients = torch.func.grad(loss)(state)
    with off():
        theirs = torch.func.grad(loss)(state)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-4, atol=1e-4)


def test_weights_changed_behind_autograds_back_are_seen() -> None:
    conv = torch.nn.Conv2d(3, 4, 3)
    x = torch.randn(1, 3, 8, 8)
    with ours(), torch.no_grad():
        before = conv(x)
        conv.weight.data += 1.0
        conv.weight.numpy()[0] = 0.0
        after = conv(x)
        fresh = copy.deepcopy(conv)(x)
    assert not torch.equal(before, after)
    assert torch.equal(after, fresh)


def test_the_list_of_cases_decides() -> None:
    import cpuaccel

    assert not missing()
    case = _case((1, 64, 28, 28), (64, 64, 3, 3), padding=1)
    with cpuaccel.enabled(True), counted() as counts:
        case.run()
    assert set(counts.calls) <= {_CALLS}
