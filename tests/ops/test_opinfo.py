"""Matrix products and convolutions on the samples that torch tests its own kernels with.

Values are compared with the same call in float64, everything else with torch's own kernels.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from quant._engine import needs_plugin, off
from torch import Tensor
from torch.testing._internal.opinfo.core import OpInfo

from ops._floats import (
    assert_alike,
    assert_near,
    eps,
    exactly,
    map_tensors,
    on,
    providers,
    same_ending,
    sizes,
    tensors_of,
)
from ops._opinfo import CASES, MISSING, OPS, Case, arguments, bound, longest_sum, name_of

pytestmark = needs_plugin
cases = pytest.mark.parametrize("case", CASES, ids=str)
cases_in_place = pytest.mark.parametrize(
    "case", [case for case in CASES if case.op.inplace_variant is not None], ids=str
)
ops_with_errors = pytest.mark.parametrize(
    "op", [op for op in OPS if op.error_inputs_func is not None], ids=name_of
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


@providers
@cases
def test_results(case: Case, provider: str) -> None:
    count = 0
    for sample in case.samples():
        with on(provider):
            ours = case.call(sample)
        with off():
            theirs = case.call(sample)
            exact, size = case.exact(sample)
        assert_alike(ours, theirs)
        assert_near(ours, exact, bound(size, case.dtype, longest_sum(sample)))
        count += 1
    assert count


@providers
@cases
def test_gradients(case: Case, provider: str) -> None:
    """Of everything that can have one, for a random gradient of the result."""
    count = 0
    for sample in case.samples(requires_grad=True):
        cotangent = torch.randn_like(case.call(sample))
        with on(provider):
            ours = _gradients(case, sample, cotangent)
        with off():
            theirs = _gradients(case, sample, cotangent)
            exact = _gradients(case, _again(exactly(sample), sample), cotangent.double())
            size = _gradients(case, _again(sizes(sample), sample), cotangent.double().abs())
        assert_alike(ours, theirs)
        terms = max(longest_sum(sample), cotangent.numel())
        for got, wanted, scale in zip(ours, exact, size, strict=True):
            assert_near(got, wanted, bound(scale, case.dtype, terms))
        count += len(ours)
    assert count


def _gradients(case: Case, sample: Any, cotangent: Tensor) -> list[Tensor]:
    sources = [tensor for tensor in tensors_of(sample) if tensor.requires_grad]
    result = case.call(sample)
    assert result.requires_grad
    return list(torch.autograd.grad(result, sources, cotangent))


def _again(changed: Any, sample: Any) -> Any:
    """`changed`, which was made of `sample`, with gradients for the same tensors."""
    flags = iter([tensor.requires_grad for tensor in tensors_of(sample)])
    return map_tensors(lambda tensor: tensor.requires_grad_(next(flags)), changed)


@providers
@cases_in_place
def test_in_place(case: Case, provider: str) -> None:
    """The in-place form writes where it should, and what the plain one gives."""
    count = 0
    for sample in case.samples():
        (first, *others), named = sample
        with off():
            exact, size = case.exact(sample)
        if exact.shape != first.shape:
            continue
        target = first.clone()
        with on(provider):
            result = case.op.inplace_variant(target, *others, **named)
        assert result is target
        assert_near(target, exact, bound(size, case.dtype, longest_sum(sample)))
        count += 1
    assert count


@providers
@ops_with_errors
def test_errors(op: OpInfo, provider: str) -> None:
    """What torch refuses is refused in the same words."""
    for error in op.error_inputs("cpu"):
        positional, named = arguments(error.sample_input)
        ours, _ = same_ending(lambda p=positional, n=named: op.op(*p, **n), provider)
        assert ours.error is not None
        assert ours.error[0] == error.error_type.__name__


@providers
@other_types
def test_other_types_are_torch_s(case: Case, provider: str) -> None:
    for sample in case.samples():
        ours, theirs = same_ending(lambda sample=sample: case.call(sample), provider)
        assert_alike(ours.result, theirs.result)
        # Not equal: threads of torch's may share out a sum in another way.
        torch.testing.assert_close(
            ours.result, theirs.result, rtol=100 * eps(torch.float32), atol=1e-4
        )
