"""A way of calling an op, and the code that ways share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from calls._row import PLAIN, QUANTIZED, Call, Forms, Row, Sample

Run = Callable[[Forms, Sample], Any]

ALL = (*PLAIN, *QUANTIZED)
DIFFERENTIABLE = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)
ONE_OF_A_KIND = (torch.float32, torch.int64, torch.quint8)
"""One dtype of each kind, for expensive ways."""


@dataclass(frozen=True)
class Way:
    """How a row's function is called with a sample."""

    name: str
    run: Run
    form: str = "functional"
    """The attribute of `Forms` that is called; rows without it have no cell."""
    dtypes: tuple[torch.dtype, ...] = ALL
    kinds: tuple[str, ...] = ("plain", "bad")
    """Kinds of samples that are run."""
    exact: Run | None = None
    """Computes the exact result from float64 arguments; by default a plain call."""
    rough: bool = False
    """Whether torch may compute in bfloat16."""
    layout: bool = True
    """Whether strides must equal torch's."""
    most: int = 99
    """How many samples of each kind are run."""
    child: str = ""
    """How to start the separate process that runs all cells of this way, if it needs one."""

    def applies(self, row: Row, dtype: torch.dtype) -> bool:
        """Whether the row has the form, and both have the dtype."""
        has_form = getattr(row.forms, self.form) is not None
        return has_form and dtype in self.dtypes and dtype in row.dtypes


def with_leaves(sample: Sample, change: Callable[[Any], Any]) -> Sample:
    """The sample with its leaves changed; equal objects stay equal."""
    changed: dict[int, Any] = {}

    def once(leaf: Any) -> Any:
        if id(leaf) not in changed:
            changed[id(leaf)] = change(leaf)
        return changed[id(leaf)]

    args, kwargs = tree_map(once, (sample.args, sample.kwargs))
    return Sample(args, kwargs, sample.kind)


def with_tensors(sample: Sample, change: Callable[[Tensor], Tensor]) -> Sample:
    """The sample with its tensors changed."""
    return with_leaves(sample, lambda leaf: change(leaf) if isinstance(leaf, Tensor) else leaf)


def eager(forms: Forms, sample: Sample) -> Any:
    """A plain call."""
    return forms.functional(*sample.args, **sample.kwargs)


def parts(
    call: Call, sample: Sample, wanted: Callable[[Any], bool]
) -> tuple[Callable[..., Any], list[Any]]:
    """The call as a function of the wanted leaves of its arguments, and these leaves."""
    leaves, spec = tree_flatten((sample.args, sample.kwargs))
    at = [i for i, leaf in enumerate(leaves) if wanted(leaf)]

    def function(*given: Any) -> Any:
        filled = list(leaves)
        for i, leaf in zip(at, given, strict=True):
            filled[i] = leaf
        args, kwargs = tree_unflatten(filled, spec)
        return call(*args, **kwargs)

    return function, [leaves[i] for i in at]


def is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor)


def is_differentiable(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def of_floats(call: Call, sample: Sample) -> tuple[Callable[..., Any], list[Tensor]]:
    """The call as a function of its differentiable arguments, and these."""
    return parts(call, sample, is_differentiable)


def waves(like: Tensor, start: float = 1.0) -> Tensor:
    """Fixed factors of this shape, by which a result is multiplied for a derivative."""
    numbers = torch.arange(like.numel(), dtype=torch.float64) + start
    return numbers.sin().reshape(like.shape).to(like.dtype)


def weighted(result: Any, start: float = 1.0) -> Tensor:
    """The weighted sum of all differentiable values of a result."""
    outputs = [t for t in tree_flatten(result)[0] if is_differentiable(t)]
    return sum((t * waves(t, start)).sum() for t in outputs)


def on_a_copy(call: Call) -> Call:
    """The in-place form as a function that changes a copy of its first argument.

    The copy is made by the last differentiable tensor: under a transform it is wrapped in the same
    way, and is not an input of the transform.
    """

    def run(first: Tensor, *others: Any, **named: Any) -> Any:
        like = [leaf for leaf in tree_flatten(others)[0] if is_differentiable(leaf)]
        if first.is_sparse or first.is_quantized or not like:
            return call(first.clone(), *others, **named)
        return call(like[-1].new_zeros(first.shape).copy_(first), *others, **named)

    return run
