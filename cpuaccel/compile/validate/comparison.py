"""Compares a plan's results with the model's, leaf by leaf, by the bounds in `bounds.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cpuaccel._compat import tree_leaves, tree_structure
from cpuaccel.compile.common.pytree_leaves import named_leaves
from cpuaccel.compile.validate import bounds

_FROM_EAGER = {
    "fp32": bounds.fp32_error,
    "bf16": bounds.half_error_from_eager,
    "int8": bounds.int8_error,
}
_FROM_EXACT = {
    "fp32": ("float64", bounds.rounding_error),
    "bf16": ("fp32", bounds.half_error),
    "int8": ("float64", bounds.int8_error_from_exact),
}

Results = Mapping[str, Any]
"""Pytrees by name: what a model returned, and the tensors that it mutated."""


@dataclass(frozen=True)
class Difference:
    """The largest difference among all outputs, and its bound."""

    error: float
    allowed: float
    where: str = ""
    """The output, and the index in it where the difference is largest."""
    against: str = "the model"
    """The reference: the model, or the model in float64 or fp32."""
    problem: str = ""
    """For results that cannot be compared: the difference in type, shape or structure."""

    @property
    def is_within(self) -> bool:
        """Whether it is within its bound. NaN is not."""
        return not self.problem and self.error <= self.allowed

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        where = f" at {self.where}" if self.where else ""
        return f"{self.error:.2g} from {self.against}{where}, at most {self.allowed:.2g}"


def compare(
    found: Results,
    eager: Results,
    arithmetic: str,
    exact: Callable[[float], Results | None],
) -> Difference:
    """Return how far `found` is from `eager`, the model's results, by `bounds.BOUNDS`.

    `exact` computes the same with higher precision, in int8 with random errors up to its argument.
    It is called if rounding may be the cause of a difference.
    """
    problem = _misfit(found, eager)
    if problem:
        return Difference(float("inf"), 0.0, problem=problem)
    difference = _worst(found, eager, eager, _FROM_EAGER[arithmetic])
    if difference.is_within or not difference.allowed:
        return difference
    if arithmetic == "fp32" and not difference.error < bounds.ROUNDING:
        return difference
    reference = exact(0.0)
    if reference is None or tree_structure(reference) != tree_structure(eager):
        return difference
    digits, judge = _FROM_EXACT[arithmetic]
    difference = _worst(found, eager, reference, judge, f"the model in {digits}")
    if difference.is_within or arithmetic != "int8":
        return difference
    # By chance, eager may round each number on the border of two steps as the reference does.
    rounded = exact(bounds.FLOAT32_ERROR)
    if rounded is None:
        return difference
    return _worst(found, rounded, reference, judge, f"the model in {digits}")


def total_distance(found: Results, other: Results) -> float:
    """Return the norm of all differences between float outputs over the norm of those in `other`.

    Raises:
        ValueError: their structures or sizes differ.
    """
    problem = _misfit(found, other, same_types=False)
    if problem:
        raise ValueError(problem)
    pairs = [
        (bounds.plain(a).flatten(), bounds.plain(b).flatten())
        for a, b in zip(tree_leaves(found), tree_leaves(other), strict=True)
        if isinstance(b, Tensor) and b.is_floating_point()
    ]
    if not pairs:
        return 0.0
    return bounds.distance(*(torch.cat(each) for each in zip(*pairs, strict=True)))


def _misfit(found: Results, eager: Results, same_types: bool = True) -> str:
    structure, expected = tree_structure(found), tree_structure(eager)
    if structure != expected:
        return f"the result is {structure}, the model's {expected}"
    for (where, a), (_, b) in zip(_leaves(found), _leaves(eager), strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            if a.shape != b.shape or (same_types and a.dtype != b.dtype):
                return f"{where} is {_kind(a)}, the model's {_kind(b)}"
        elif type(a) is not type(b):
            return f"{where} is of type {type(a).__name__}, the model's of {type(b).__name__}"
    return ""


def _leaves(results: Results) -> list[tuple[str, Any]]:
    return [leaf for name, tree in results.items() for leaf in named_leaves(name, tree)]


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _worst(
    found: Results, eager: Results, exact: Results, judge: bounds.Judge, against: str = "the model"
) -> Difference:
    leaves = [_leaves(each) for each in (found, eager, exact)]
    worst = Difference(0.0, 0.0)
    for (where, a), (_, b), (_, c) in zip(*leaves, strict=True):
        each = _difference(a, b, c, judge, where, against)
        if not each.is_within:
            return each
        if each.allowed and (not worst.allowed or _share(each) > _share(worst)):
            worst = each
    return worst


def _share(difference: Difference) -> float:
    return difference.error / difference.allowed


def _difference(
    found: Any, eager: Any, exact: Any, judge: bounds.Judge, where: str, against: str
) -> Difference:
    if not isinstance(found, Tensor):
        # Numbers, strings and other objects are equal or not.
        return Difference(0.0 if _is_same(found, eager) else 1.0, 0.0, where)
    if found.is_quantized or found.is_floating_point() or found.is_complex():
        error, allowed = judge(found, eager, exact)
        return Difference(error, allowed, _furthest(found, eager, where), against)
    differing = found != eager
    share = float(differing.double().mean()) if found.numel() else 0.0
    return Difference(share, 0.0, _furthest(found, eager, where))


def _is_same(found: Any, eager: Any) -> bool:
    try:
        return bool(found == eager) or bool(found != found and eager != eager)
    except Exception:  # objects without a truth value for == are not compared
        return True


def _furthest(found: Tensor, eager: Tensor, where: str) -> str:
    if found.numel() <= 1 or found.layout != torch.strided:
        return where
    differences = torch.nan_to_num(bounds.differences(found, eager), nan=torch.inf)
    if found.is_complex():
        differences = differences.amax(-1)
    index = torch.unravel_index(differences.argmax(), found.shape)
    return f"{where}[{', '.join(str(int(each)) for each in index)}]"
