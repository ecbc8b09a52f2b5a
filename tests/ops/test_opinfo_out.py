"""`out=` of matrix products, over the samples that torch tests its own kernels with.

Which `out` tensors are accepted, warned about and rejected is the same as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin, off
from torch import Tensor

from ops._floats import DTYPES, assert_alike, assert_near, providers, same_ending
from ops._opinfo import OPS, Case, bound, longest_sum, name_of

pytestmark = needs_plugin

_OPS = [op for op in OPS if op.supports_out]
ops = pytest.mark.parametrize("op", _OPS, ids=name_of)

Maker = Callable[[Tensor], Tensor]


def _like(result: Tensor) -> Tensor:
    # The previous contents of `out` must not matter.
    return torch.full_like(result, float("nan"))


def _transposed(result: Tensor) -> Tensor:
    return _like(result.mT.contiguous()).mT if result.dim() > 1 else _like(result)


def _strided(result: Tensor) -> Tensor:
    return result.new_full((*result.shape, 2), float("nan"))[..., 0]


def _expanded(result: Tensor) -> Tensor:
    return result.new_empty(()).expand(result.shape)


def _in_a_larger(result: Tensor) -> Tensor:
    """The middle of a longer tensor."""
    longer = result.new_full((result.numel() + 5,), float("nan"))
    return longer[3 : 3 + result.numel()].view(result.shape)


_TAKEN: dict[str, Maker] = {
    "right": _like,
    "empty": lambda result: result.new_empty(0),
    "too large": lambda result: result.new_empty((*result.shape, 3)),
    "transposed": _transposed,
    "strided": _strided,
    "in the middle": _in_a_larger,
}
_REFUSED: dict[str, Maker] = {
    "double": lambda result: _like(result).double(),
    "integers": lambda result: torch.zeros_like(result, dtype=torch.int32),
    "another small type": lambda result: torch.zeros_like(
        result, dtype=torch.float16 if result.dtype == torch.bfloat16 else torch.bfloat16
    ),
    "of another device": lambda result: torch.empty_like(result, device="meta"),
    "with a gradient": lambda result: torch.zeros_like(result, requires_grad=True),
}


def _samples(op: Any, most: int) -> Iterator[tuple[Case, Any]]:
    """The op's first `most` samples of each type."""
    for dtype in DTYPES:
        case = Case(op, dtype)
        for sample in islice(case.samples(), most):
            yield case, sample


def _into(case: Case, sample: Any, out: Tensor) -> Tensor:
    positional, named = sample
    result: Tensor = case.op.op(*positional, **named, out=out)
    return result


@providers
@pytest.mark.parametrize("kind", _TAKEN)
@ops
def test_taken(op: Any, kind: str, provider: str) -> None:
    for case, sample in _samples(op, 2):
        with off():
            plain = case.call(sample)
            exact, size = case.exact(sample)
        outs: list[Tensor] = []

        def call(
            case: Case = case,
            sample: Any = sample,
            plain: Tensor = plain,
            outs: list[Tensor] = outs,
        ) -> Tensor:
            outs.append(_TAKEN[kind](plain))
            return _into(case, sample, outs[-1])

        ours, theirs = same_ending(call, provider)
        if ours.error is not None:
            # The error is torch's: these ops fold a result that has no such view.
            assert op.name in ("matmul", "nn.functional.linear"), ours.error
            continue
        assert ours.result is outs[0]
        assert_alike(ours.result, theirs.result)
        assert_near(ours.result, exact, bound(size, case.dtype, longest_sum(sample)))


@providers
@pytest.mark.parametrize("kind", _REFUSED)
@ops
def test_refused(op: Any, kind: str, provider: str) -> None:
    for case, sample in _samples(op, 1):
        with off():
            out = _REFUSED[kind](case.call(sample))
        ours, _ = same_ending(lambda c=case, s=sample, o=out: _into(c, s, o), provider)
        # torch.inner converts to any dtype.
        assert ours.error is not None or op.name == "inner"


@providers
@ops
def test_overlapping_itself(op: Any, provider: str) -> None:
    """Rejected if torch rejects it; some of torch's ops write into such an `out`."""
    for case, sample in _samples(op, 2):
        with off():
            out = _expanded(case.call(sample))
        same_ending(lambda c=case, s=sample, o=out: _into(c, s, o), provider)


@providers
@ops
def test_aliasing_an_operand(op: Any, provider: str) -> None:
    """torch accepts an operand as `out`, whatever it then computes; nothing may crash."""
    tried = 0
    for case, sample in _samples(op, 2):
        with off():
            plain = case.call(sample)
        for place, operand in enumerate(sample[0]):
            if not isinstance(operand, Tensor) or operand.shape != plain.shape:
                continue

            def call(
                case: Case = case, sample: Any = sample, place: int = place, like: Tensor = operand
            ) -> Tensor:
                positional = list(sample[0])
                positional[place] = like.clone()
                return _into(case, (positional, sample[1]), positional[place])

            ours, theirs = same_ending(call, provider)
            assert_alike(ours.result, theirs.result)
            tried += 1
    assert tried or op.name not in ("addmm", "baddbmm")
