"""Ways of computing derivatives and batches, of the plain op and of the op in place on a copy.

The exact result is that of the same way in float64 on torch's own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._pytree import tree_map

from calls._row import Call, Forms, Sample
from calls._way import (
    DIFFERENTIABLE,
    Run,
    Way,
    is_differentiable,
    is_tensor,
    of_floats,
    on_a_copy,
    parts,
    waves,
    weighted,
)

_Of = Callable[[Call, Sample], Any]


def _grad(call: Call, sample: Sample) -> Any:
    """The result, and autograd's gradients of all differentiable arguments."""
    function, floats = of_floats(call, sample)
    leaves = [t.detach().requires_grad_() for t in floats]
    result = function(*leaves)
    gradients = torch.autograd.grad(weighted(result), leaves, allow_unused=True)
    return tree_map(_detached, result), gradients


def _grad_grad(call: Call, sample: Sample) -> Any:
    """Gradients of a weighted sum of the gradients."""
    function, floats = of_floats(call, sample)
    leaves = [t.detach().requires_grad_() for t in floats]
    first = torch.autograd.grad(
        weighted(function(*leaves)), leaves, create_graph=True, allow_unused=True
    )
    again = weighted([t for t in first if t is not None], 2.0)
    if not isinstance(again, Tensor) or not again.requires_grad:  # the gradients are constants
        return [None for _ in leaves]
    return torch.autograd.grad(again, leaves, allow_unused=True)


def _forward_mode(call: Call, sample: Sample) -> Any:
    function, floats = of_floats(call, sample)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(t.detach(), waves(t)) for t in floats]
        return tree_map(_tangent, function(*duals))


def _tangent(leaf: Any) -> Any:
    """The derivative of a result, zeros if it does not depend on the inputs."""
    if not isinstance(leaf, Tensor):
        return leaf
    tangent = forward_ad.unpack_dual(leaf).tangent
    return torch.zeros_like(leaf) if tangent is None else tangent


def _func_grad(call: Call, sample: Sample) -> Any:
    function, floats = of_floats(call, sample)
    wanted = tuple(range(len(floats)))
    return torch.func.grad(lambda *given: weighted(function(*given)), wanted)(*floats)


def _func_jvp(call: Call, sample: Sample) -> Any:
    function, floats = of_floats(call, sample)
    return torch.func.jvp(function, tuple(floats), tuple(waves(t) for t in floats))


def _few(function: Call) -> Call:
    """Two numbers that depend on all values of the result."""
    return lambda *given: torch.stack([weighted(function(*given), start) for start in (1.0, 2.0)])


def _jacrev(call: Call, sample: Sample) -> Any:
    function, floats = of_floats(call, sample)
    return torch.func.jacrev(_few(function), tuple(range(len(floats))))(*floats)


def _jacfwd(call: Call, sample: Sample) -> Any:
    """Along one direction, because a whole Jacobian has a column for each input value."""
    function, floats = of_floats(call, sample)

    def along(step: Tensor) -> Any:
        return function(*(t + step.to(t.dtype) * waves(t) for t in floats))

    return torch.func.jacfwd(along)(torch.zeros(1, dtype=_of(floats)))


def _of(floats: list[Tensor]) -> torch.dtype:
    dtype = floats[0].dtype
    return dtype.to_real() if dtype.is_complex else dtype


def _batched(wanted: Callable[[Any], bool], of: Callable[[Call, int], Call]) -> tuple[_Of, _Of]:
    """`of` the call over a batch of three of each wanted argument: by vmap, and one by one."""

    def by_vmap(call: Call, sample: Sample) -> Any:
        function, tensors = parts(call, sample, wanted)
        return torch.func.vmap(of(function, len(tensors)))(*map(_batch, tensors))

    def one_by_one(call: Call, sample: Sample) -> Any:
        function, tensors = parts(call, sample, wanted)
        batches = [_batch(t) for t in tensors]
        one = of(function, len(tensors))
        results = [one(*(batch[i] for batch in batches)) for i in range(3)]
        return tree_map(lambda *each: torch.stack(each), *results)

    return by_vmap, one_by_one


def _itself(function: Call, count: int) -> Call:
    del count
    return function


def _gradient(function: Call, count: int) -> Call:
    return torch.func.grad(lambda *given: weighted(function(*given)), tuple(range(count)))


def _batch(t: Tensor) -> Tensor:
    return torch.stack([t, t.flip(-1) if is_differentiable(t) and t.dim() else t, t])


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


_WAYS: dict[str, tuple[_Of, _Of]] = {
    **{
        name: (of, of)
        for name, of in {
            "grad": _grad,
            "grad_grad": _grad_grad,
            "forward_mode": _forward_mode,
            "func_grad": _func_grad,
            "func_jvp": _func_jvp,
            "jacrev": _jacrev,
            "jacfwd": _jacfwd,
        }.items()
    },
    "vmap": _batched(is_differentiable, _itself),
    "vmap_all": _batched(is_tensor, _itself),
    "per_sample_grad": _batched(is_differentiable, _gradient),
}
"""Each way, and the way that gives its exact result."""


def _plain_form(of: _Of) -> Run:
    return lambda forms, sample: of(forms.functional, sample)


def _in_place_form(of: _Of) -> Run:
    def run(forms: Forms, sample: Sample) -> Any:
        assert forms.in_place is not None
        return of(on_a_copy(forms.in_place), sample)

    return run


def _ways() -> Iterator[Way]:
    for name, (of, exact) in _WAYS.items():
        for end, form, make in (
            ("", "functional", _plain_form),
            ("_in_place", "in_place", _in_place_form),
        ):
            run, right = make(of), make(exact)
            yield Way(f"{name}{end}", run, form, DIFFERENTIABLE, exact=right, layout=False)


WAYS = tuple(_ways())
