"""The difference of two results, and the bound of each arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from quant._engine import needs_torch_ao
from torch import Tensor
from torch.utils._pytree import register_pytree_node

from cpuaccel.compile.validate.comparison import Difference, compare, total_distance


def _compared(
    found: Any, eager: Any, arithmetic: str = "fp32", exact: Any = None, rounded: Any = None
) -> tuple[Difference, list[float]]:
    asked: list[float] = []

    def reference(error: float) -> Any:
        asked.append(error)
        result = rounded if error else exact
        return None if result is None else {"output": result}

    return compare({"output": found}, {"output": eager}, arithmetic, reference), asked


def _values() -> Tensor:
    return torch.linspace(-4, 4, 24).reshape(2, 3, 4)


def _moved(by: float, index: tuple[int, ...] = (1, 2, 3)) -> Tensor:
    values = _values()
    values[index] += by
    return values


def test_the_same_is_the_same() -> None:
    found, asked = _compared(_values(), _values())
    assert found.is_within
    assert found.error == 0
    assert not asked


@pytest.mark.parametrize(("by", "within"), [(3.9e-4, True), (4.1e-4, False)])
def test_fp32_goes_by_the_largest_value(by: float, within: bool) -> None:
    found, _ = _compared(_moved(by), _values())
    assert found.is_within is within
    assert found.error == pytest.approx(by / 4, rel=0.01)
    assert found.where == "output[1, 2, 3]"


def test_differences_that_may_be_rounding_are_compared_with_float64() -> None:
    exact = _values().double() + 5e-4  # as far from eager
    found, asked = _compared(_moved(1e-3), _values(), exact=exact)
    assert len(asked) == 1
    assert found.is_within
    assert found.against == "the model in float64"
    found, _ = _compared(_moved(2e-3), _values(), exact=exact)
    assert not found.is_within
    found, asked = _compared(_moved(0.5), _values(), exact=exact)  # too large to be rounding
    assert not found.is_within
    assert not asked
    found, asked = _compared(_moved(1e-3), _values())  # the model has no float64 result
    assert not found.is_within
    assert found.against == "the model"


def test_bf16_far_from_eager_is_compared_with_fp32() -> None:
    exact = _values()
    eager = exact * 1.02
    for factor, asks, within in ((1.025, 0, True), (1.045, 1, True), (1.06, 1, False)):
        found, asked = _compared(exact * factor, eager, "bf16", exact)
        assert len(asked) == asks
        assert found.is_within is within, factor


@pytest.mark.parametrize(("factor", "within"), [(1.049, True), (1.051, False)])
def test_int8_goes_by_the_norm(factor: float, within: bool) -> None:
    found, asked = _compared(_values() * factor, _values(), "int8")
    assert found.is_within is within
    assert len(asked) == (not within)


@pytest.mark.parametrize(
    ("factor", "within"), [(0.9, True), (1.14, True), (1.19, True), (1.21, False)]
)
def test_int8_far_from_eager_is_compared_with_float64(factor: float, within: bool) -> None:
    exact = _values().double()
    found, asked = _compared(_values() * factor, _values() * 1.1, "int8", exact)
    assert bool(asked) == (factor != 1.14)  # which is close enough to eager
    assert found.is_within is within
    if asked:
        assert found.against == "the model in float64"


@pytest.mark.parametrize(("factor", "within"), [(1.19, True), (1.21, False)])
def test_int8_may_be_as_far_as_rounding_carries_the_model(factor: float, within: bool) -> None:
    exact = _values().double()
    found, asked = _compared(_values() * factor, _values(), "int8", exact, exact * 1.1)
    assert asked == [0.0, 2.0**-24]
    assert found.is_within is within


@pytest.mark.parametrize("arithmetic", ["fp32", "bf16", "int8"])
def test_nan_and_infinity(arithmetic: str) -> None:
    values = _values()
    values[0, 0, 0], values[0, 0, 1] = torch.nan, -torch.inf
    assert _compared(values.clone(), values, arithmetic)[0].is_within
    for wrong in (torch.nan, torch.inf, 0.0):
        for place in ((0, 0, 0), (0, 0, 1), (1, 1, 1)):
            other = values.clone()
            other[place] = wrong
            if wrong != wrong and place == (0, 0, 0):
                continue
            assert not _compared(other, values, arithmetic)[0].is_within, (wrong, place)


def test_values_other_than_floats_are_equal_or_not() -> None:
    eager = {"ids": torch.tensor([1, 2, 3]), "number": 3, "none": None, "text": "a"}
    assert _compared(dict(eager, ids=eager["ids"].clone()), eager)[0].is_within
    found, _ = _compared({**eager, "ids": torch.tensor([1, 2, 4])}, eager)
    assert not found.is_within
    assert found.where == "output['ids'][2]"
    found, _ = _compared({**eager, "text": "b"}, eager)
    assert not found.is_within
    assert found.where == "output['text']"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (torch.zeros(3), r"output\[0\] is float32\[3\], the model's float32\[2\]"),
        (torch.zeros(2, dtype=torch.float64), r"output\[0\] is float64\[2\]"),
        (1.0, r"output\[0\] is of type float, the model's of Tensor"),
        ((torch.zeros(2), torch.zeros(2)), "the result is "),
    ],
)
def test_results_of_another_structure(found: Any, says: str) -> None:
    import re

    difference, asked = _compared([found], [torch.zeros(2)])
    assert not difference.is_within
    assert re.match(says, str(difference))
    assert not asked


def test_tensor_classes_and_dtypes() -> None:
    empty, scalar, complex_ = torch.zeros(0, 3), torch.tensor(2.0), torch.randn(4) * 1j
    for each in (empty, scalar, complex_, _values().bfloat16(), torch.tensor([True])):
        for arithmetic in ("fp32", "bf16", "int8"):
            assert _compared(each.clone(), each, arithmetic)[0].is_within
    assert not _compared(complex_ * 1.5, complex_)[0].is_within
    assert not _compared(scalar + 1, scalar)[0].is_within


@needs_torch_ao
def test_quantized_tensors() -> None:
    coded = torch.quantize_per_tensor(_values(), 0.1, 128, torch.quint8)
    for arithmetic in ("fp32", "bf16", "int8"):
        assert _compared(coded.clone(), coded, arithmetic)[0].is_within


def test_classes_that_were_registered_without_names() -> None:
    class Pair:
        def __init__(self, *both: Tensor) -> None:
            self.both = both

    register_pytree_node(Pair, lambda pair: (list(pair.both), None), lambda both, _: Pair(*both))
    eager = {"pair": Pair(torch.ones(2), torch.ones(3))}
    assert _compared({"pair": Pair(torch.ones(2), torch.ones(3))}, eager)[0].is_within
    found, _ = _compared({"pair": Pair(torch.ones(2), torch.zeros(3))}, eager)
    assert found.where == "output number 1[0]"


def test_the_distance_of_all_floats() -> None:
    eager = {"output": (torch.tensor([3.0, 0.0]), torch.tensor([4.0]), torch.tensor([1]))}
    found = {"output": (torch.tensor([3.0, 1.0]), torch.tensor([4.0]), torch.tensor([2]))}
    assert total_distance(found, eager) == pytest.approx(0.2)
    assert total_distance({"output": 1}, {"output": 1}) == 0
    with pytest.raises(ValueError, match="the result is "):
        total_distance({"output": ()}, eager)
