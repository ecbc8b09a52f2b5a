"""Matrix products under autograd, torch.func, torch.compile, and torch's modes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin, off
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from ops._floats import DTYPES, assert_alike, dtypes, on, providers
from ops._products import Product, matrix

pytestmark = needs_plugin


def _mlp() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(40, 96), nn.GELU(), nn.Linear(96, 24))


def _train(model: nn.Module, steps: int) -> list[Tensor]:
    torch.manual_seed(4)
    x, y = torch.randn(33, 40), torch.randn(33, 24)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


@providers
def test_training(provider: str) -> None:
    model = _mlp()
    with off():
        theirs = _train(copy.deepcopy(model), 10)
    with on(provider):
        ours = _train(copy.deepcopy(model), 10)
    for a, b, start in zip(ours, theirs, model.parameters(), strict=True):
        assert not torch.allclose(a, start)
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@providers
@pytest.mark.parametrize("batched", [False, True])
def test_second_derivatives(batched: bool, provider: str) -> None:
    """In float64, which torch computes; the formulas are the same for any type."""
    lead = (2,) if batched else ()
    a, b, c = (torch.randn(*lead, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    op = torch.baddbmm if batched else torch.addmm
    with on(provider):
        assert torch.autograd.gradgradcheck(lambda *t: op(*t, alpha=1.5, beta=0.5), (c, a, b))


@providers
def test_a_result_knows_how_it_was_made(provider: str) -> None:
    a, b = torch.randn(40, 50, requires_grad=True), torch.randn(50, 60)
    with on(provider):
        assert type(torch.mm(a, b).grad_fn).__name__ == "MmBackward0"
        assert torch.mm(b.T, a.detach().T).grad_fn is None
        with torch.no_grad():
            assert not torch.mm(a, b).requires_grad
        y = nn.functional.linear(a, torch.randn(60, 50, requires_grad=True), torch.randn(60))
        assert type(y.grad_fn).__name__ == "AddmmBackward0"


@providers
@dtypes
def test_inference_mode(dtype: torch.dtype, provider: str) -> None:
    with torch.inference_mode():
        a, b = matrix((40, 50), "dense", dtype, 1), matrix((50, 60), "dense", dtype, 2)
        with on(provider):
            result = torch.mm(a, b)
        assert result.is_inference()
        Product(a, b).check(result)


def _per_sample_gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    from torch.func import functional_call, grad, vmap

    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return functional_call(model, values, row.unsqueeze(0)).square().sum()

    result: dict[str, Tensor] = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    return result


_FUNCTIONS: dict[str, Callable[[], Any]] = {
    "vmap of mm": lambda: torch.vmap(torch.mm)(
        matrix((4, 20, 30), "dense", torch.float32, 1),
        matrix((4, 30, 25), "dense", torch.float32, 2),
    ),
    "vmap of addmm over one operand": lambda: torch.vmap(torch.addmm, (None, 0, None))(
        torch.ones(25),
        matrix((4, 20, 30), "dense", torch.float32, 1),
        matrix((30, 25), "dense", torch.float32, 2),
    ),
    "vmap of linear in bfloat16": lambda: torch.vmap(nn.functional.linear)(
        matrix((4, 20, 30), "dense", torch.bfloat16, 1).float(),
        matrix((4, 25, 30), "dense", torch.bfloat16, 2).float(),
    ),
    "gradients of each sample": lambda: _per_sample_gradients(
        _mlp(), matrix((7, 40), "dense", torch.float32, 1)
    ),
    "jacobian": lambda: torch.func.jacrev(lambda a: a @ matrix((30, 5), "dense", torch.float32, 2))(
        matrix((4, 30), "dense", torch.float32, 1)
    ),
    "forward mode": lambda: torch.func.jvp(
        lambda a: torch.addmm(torch.ones(25), a, matrix((30, 25), "dense", torch.float32, 2)),
        (matrix((20, 30), "dense", torch.float32, 1),),
        (matrix((20, 30), "dense", torch.float32, 3),),
    ),
}


@providers
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_torch_func(name: str, provider: str) -> None:
    with off():
        theirs = _FUNCTIONS[name]()
    with on(provider):
        ours = _FUNCTIONS[name]()
    assert_alike(ours, theirs)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@providers
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile(backend: str, provider: str) -> None:
    """Forward and backward: tracing sees cpuaccel's ops only by torch's names."""
    x = matrix((33, 40), "dense", torch.float32, 1)
    results = []
    for context, compiled in ((off(), False), (on(provider), True)):
        model = _mlp()
        run: Any = torch.compile(model, backend=backend, fullgraph=True) if compiled else model
        with context:
            loss = run(x).square().mean()
            loss.backward()
        results.append([loss.detach(), *(each.grad for each in model.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@providers
@dtypes
def test_tracing_gives_shapes_and_strides(dtype: torch.dtype, provider: str) -> None:
    with on(provider):
        real = torch.addmm(
            torch.ones(60, dtype=dtype),
            torch.ones(40, 50, dtype=dtype),
            torch.ones(60, 50, dtype=dtype).T,
        )
        with FakeTensorMode():
            fake = torch.addmm(
                torch.ones(60, dtype=dtype),
                torch.ones(40, 50, dtype=dtype),
                torch.ones(60, 50, dtype=dtype).T,
            )
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


class _Noted(Tensor):
    """Records the functions that it is passed to."""

    seen: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, positional: Any = (), named: Any = None
    ) -> Any:
        cls.seen.append(getattr(function, "__name__", ""))
        return super().__torch_function__(function, types, positional, named or {})


@providers
def test_a_subclass_sees_the_call_and_gets_one_of_its_own(provider: str) -> None:
    plain = matrix((40, 50), "dense", torch.float32, 1)
    b = matrix((50, 60), "dense", torch.float32, 2)
    with on(provider):
        _Noted.seen.clear()
        result = torch.mm(plain.as_subclass(_Noted), b)
        assert _Noted.seen[0] == "mm"
        assert isinstance(result, _Noted)
    Product(plain, b).check(result.as_subclass(Tensor))


@providers
def test_complex_views(provider: str) -> None:
    """conj and neg views are flags on a tensor; real tensors have only negative views."""
    z, w = (torch.randn(20, 20, dtype=torch.complex64) for _ in range(2))
    with on(provider):
        ours = [torch.mm(z.conj(), w), torch.mm(z.mH, w), torch.mm(z.conj().imag, w.real)]
    with off():
        theirs = [torch.mm(z.conj(), w), torch.mm(z.mH, w), torch.mm(z.conj().imag, w.real)]
    assert z.conj().imag.is_neg()
    assert_alike(ours, theirs)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@providers
def test_autocast(provider: str) -> None:
    """Operands are cast to autocast's type, which is also the result's."""
    model, x = _mlp(), matrix((33, 40), "dense", torch.float32, 1)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.no_grad(), torch.autocast("cpu", dtype):
            with on(provider):
                ours = model(x)
            with off():
                theirs = model(x)
        assert_alike(ours, theirs)
        torch.testing.assert_close(ours, theirs, rtol=4 * torch.finfo(dtype).eps, atol=0.02)


@providers
def test_the_profiler_sees_the_op_by_its_name(provider: str) -> None:
    a, b = torch.randn(40, 50), torch.randn(50, 60)
    with on(provider), torch.profiler.profile() as profile:
        torch.mm(a, b)
    assert "aten::mm" in {event.key for event in profile.key_averages()}


@providers
def test_a_changed_operand_is_never_used_stale(provider: str) -> None:
    """Changes in place, through .data and numpy, under inference mode, and at the same address."""
    for dtype in DTYPES:
        a, b = matrix((33, 64), "dense", dtype, 1), matrix((64, 48), "dense", dtype, 2)
        changes: list[Callable[[], object]] = [
            lambda b=b: b.add_(1),
            lambda b=b: b.data.mul_(2),
            lambda b=b: b.untyped_storage().copy_(
                matrix((64, 48), "dense", b.dtype, 7).untyped_storage()
            ),
        ]
        if dtype == torch.float32:
            changes.append(lambda b=b: b.numpy().fill(0.25))
        with on(provider), torch.no_grad():
            for change in changes:
                Product(a, b).check(torch.mm(a, b))
                change()
                Product(a, b).check(torch.mm(a, b))
            with torch.inference_mode():
                inferred = b.clone()
                Product(a, inferred).check(torch.mm(a, inferred))
                inferred.add_(3)
                Product(a, inferred).check(torch.mm(a, inferred))
