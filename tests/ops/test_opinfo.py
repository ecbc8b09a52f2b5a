"""Matrix products and convolutions on the samples that torch tests its own kernels with.

Values are compared with the same call in float64, everything else with torch's own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin, off
from torch import Tensor
from torch.testing._internal.opinfo.core import OpInfo

from ops._floats import (
    PROVIDERS,
    assert_alike,
    assert_near,
    eps,
    every_warning,
    exactly,
    map_tensors,
    on,
    same_ending,
    sizes,
    tensors_of,
)
from ops._opinfo import (
    CASES,
    MISSING,
    OPS,
    Case,
    arguments,
    bound,
    longest_sum,
    name_of,
    with_providers,
)

pytestmark = needs_plugin


def _with_providers(name: str, values: Iterable[Any], of: Callable[[Any], OpInfo]) -> Any:
    pairs = with_providers(values, of)
    label = name_of if name == "op" else str
    ids = [f"{label(value)}-{provider}" for value, provider in pairs]
    return pytest.mark.parametrize((name, "provider"), pairs, ids=ids)


def _op_of(case: Case) -> OpInfo:
    return case.op


cases = _with_providers("case", CASES, _op_of)
cases_in_place = _with_providers(
    "case", [case for case in CASES if case.op.inplace_variant is not None], _op_of
)
ops_with_errors = _with_providers(
    "op", [op for op in OPS if op.error_inputs_func is not None], lambda op: op
)
other_types = pytest.mark.parametrize(
    "case",
    [
        Case(op, dtype)
        for op in OPS
        for dtype in (torch.float64, torch.int64, torch.complex64)
        if dtype in op.dtypes
    ],
    ids=str,
)


def test_the_database_has_every_op() -> None:
    assert not MISSING
    assert {"addmm", "addmm.decomposed"} <= {name_of(op) for op in OPS}


@cases
def test_results(case: Case, provider: str) -> None:
    samples = list(case.samples())
    with on(provider):
        ours = [case.call(sample) for sample in samples]
    with off():
        theirs = [case.call(sample) for sample in samples]
    assert samples
    assert_alike(ours, theirs)
    for sample, got in zip(samples, ours, strict=True):
        exact, size = case.exact(sample)
        assert_near(got, exact, bound(size, case.dtype, longest_sum(sample)))


@cases
def test_gradients(case: Case, provider: str) -> None:
    """Gradients of all differentiable arguments, for a random gradient of the result."""
    samples = list(case.samples(requires_grad=True))
    cotangents = [torch.randn_like(case.call(sample)) for sample in samples]
    with on(provider):
        ours = list(map(_gradients, repeat(case), samples, cotangents))
    with off():
        theirs = list(map(_gradients, repeat(case), samples, cotangents))
    assert_alike(ours, theirs)
    assert tensors_of(ours)
    for sample, cotangent, gradients in zip(samples, cotangents, ours, strict=True):
        exact = _gradients(case, _again(exactly(sample), sample), cotangent.double())
        size = _gradients(case, _again(sizes(sample), sample), cotangent.double().abs())
        terms = max(longest_sum(sample), cotangent.numel())
        for got, wanted, scale in zip(gradients, exact, size, strict=True):
            assert_near(got, wanted, bound(scale, case.dtype, terms))


def _gradients(case: Case, sample: Any, cotangent: Tensor) -> list[Tensor]:
    sources = [tensor for tensor in tensors_of(sample) if tensor.requires_grad]
    result = case.call(sample)
    assert result.requires_grad
    return list(torch.autograd.grad(result, sources, cotangent))


def _again(changed: Any, sample: Any) -> Any:
    """`changed`, which was made of `sample`, with gradients for the same tensors."""
    flags = iter([tensor.requires_grad for tensor in tensors_of(sample)])
    return map_tensors(lambda tensor: tensor.requires_grad_(next(flags)), changed)


@cases_in_place
def test_in_place(case: Case, provider: str) -> None:
    """The in-place form writes the plain form's result to its first argument."""
    fitting = [sample for sample in case.samples() if case.call(sample).shape == sample[0][0].shape]
    assert fitting
    with on(provider):
        results = list(map(_in_place, repeat(case), fitting))
    for sample, (target, result) in zip(fitting, results, strict=True):
        assert result is target
        exact, size = case.exact(sample)
        assert_near(target, exact, bound(size, case.dtype, longest_sum(sample)))


def _in_place(case: Case, sample: Any) -> tuple[Tensor, Tensor]:
    """A copy of the first argument after the call, and what the call returned."""
    (first, *others), named = sample
    target = first.clone()
    return target, case.op.inplace_variant(target, *others, **named)


@ops_with_errors
def test_errors(op: OpInfo, provider: str) -> None:
    """What torch rejects is rejected in the same words."""
    for error in op.error_inputs_func(op, "cpu"):
        positional, named = arguments(error.sample_input)
        with every_warning():
            ours, _ = same_ending(lambda p=positional, n=named: op.op(*p, **n), provider)
        assert ours.error is not None
        assert ours.error[0] == error.error_type.__name__


@other_types
def test_other_types_are_torch_s(case: Case) -> None:
    samples = list(case.samples())
    with every_warning():
        ours, theirs = same_ending(lambda: [case.call(sample) for sample in samples], PROVIDERS[-1])
    assert_alike(ours.result, theirs.result)
    # Not equal: torch's threads may split a sum differently.
    torch.testing.assert_close(ours.result, theirs.result, rtol=100 * eps(torch.float32), atol=1e-4)
