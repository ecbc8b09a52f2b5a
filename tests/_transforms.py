"""Ways to transform or differentiate a function, to compare two functions by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad as _forward_ad_module

forward_ad: Any = _forward_ad_module
Function = Callable[[Tensor], Tensor]


def weights_like(y: Tensor) -> Tensor:
    """Return distinct numbers, so that no two terms of a sum can be confused."""
    return torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape).sin()


def _loss(f: Function) -> Function:
    def loss(x: Tensor) -> Tensor:
        y = f(x)
        return (y * weights_like(y)).sum()

    return loss


def _direction(x: Tensor) -> Tensor:
    return torch.arange(x.numel(), dtype=x.dtype).reshape(x.shape).cos()


def _vjp(f: Function, x: Tensor) -> Tensor:
    y, pull, *_ = torch.func.vjp(f, x)
    result: Tensor = pull(weights_like(y))[0]
    return result


def _forward_ad(f: Function, x: Tensor) -> Tensor:
    with forward_ad.dual_level():
        y = forward_ad.unpack_dual(f(forward_ad.make_dual(x, _direction(x))))
    return torch.zeros_like(y.primal) if y.tangent is None else y.tangent


def _make_fx(f: Function, x: Tensor) -> Tensor:
    traced = torch.fx.experimental.proxy_tensor.make_fx(torch.func.grad(_loss(f)))(x)
    result: Tensor = traced(x + 0.25)
    return result


def _second(f: Function, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    (first,) = torch.autograd.grad(_loss(f)(x), x, create_graph=True)
    if not first.requires_grad:
        return torch.zeros_like(x)
    second = torch.autograd.grad((first * _direction(x)).sum(), x, allow_unused=True)[0]
    return torch.zeros_like(x) if second is None else second


def _batched_gradients(f: Function, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    y = f(x)
    grads = torch.stack([weights_like(y), torch.ones_like(y)])
    return torch.autograd.grad(y, x, grads, is_grads_batched=True)[0]


WAYS: dict[str, Callable[[Function, Tensor], Tensor]] = {
    "grad": lambda f, x: torch.func.grad(_loss(f))(x),
    "vjp": _vjp,
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (_direction(x),))[1],
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "vmap": lambda f, x: torch.func.vmap(f)(torch.stack([x, 2 * x])),
    "vmap of grad": lambda f, x: torch.func.vmap(torch.func.grad(_loss(f)))(
        torch.stack([x, 2 * x])
    ),
    "grad of grad": lambda f, x: torch.func.grad(
        lambda z: (torch.func.grad(_loss(f))(z) * _direction(z)).sum()
    )(x),
    "functionalize": lambda f, x: torch.func.functionalize(f)(x),
    "functionalize of grad": lambda f, x: torch.func.functionalize(torch.func.grad(_loss(f)))(x),
    "make_fx of grad": _make_fx,
    "forward_ad": _forward_ad,
    "create_graph": _second,
    "is_grads_batched": _batched_gradients,
}


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result, or the type of the error."""
    try:
        return call()
    except Exception as error:
        return type(error)


def check_way(way: str, found: Function, expected: Function, x: Tensor) -> None:
    """Compare the results of a way for two functions that should be equal."""
    run = WAYS[way]
    wanted = outcome(lambda: run(expected, x))
    if isinstance(wanted, type):
        return  # torch has no rule of its own for one of the ops
    limit = 1e-9 if x.dtype == torch.float64 else 1e-4
    torch.testing.assert_close(run(found, x), wanted, rtol=limit, atol=limit)


def finite_difference(f: Function, x: Tensor) -> Tensor:
    """Return the derivative of `f` in the direction of "jvp" and "forward_ad", for float64."""
    step = 1e-6
    with torch.no_grad():
        return (f(x + step * _direction(x)) - f(x - step * _direction(x))) / (2 * step)
