"""The text of a region's plan, read back: the same plan, and an error for any other text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import cpuaccel
from compile._compiled import needs_onednn
from compile._optimized import image, net, quantized
from cpuaccel.compile.bridge.plan_text import Operation, Output, PlanText, Value, parse
from cpuaccel.compile.partition import regions


def _encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (net, image()),
        (lambda: quantized(net()), image()),
        (_encoder, torch.randn(2, 5, 32)),
    ],
    ids=("cnn", "int8", "encoder"),
)
@needs_onednn
def test_plan_texts_of_models_are_parsed_back(
    make: Callable[[], nn.Module], x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.backends.quantized.engine = "x86"
    found: list[PlanText] = []
    make_program = regions._plan_text

    def kept(*arguments: object) -> PlanText:
        found.append(make_program(*arguments))
        return found[-1]

    monkeypatch.setattr(regions, "_plan_text", kept)
    cpuaccel.optimize(make(), (x,), time_budget=0)
    assert found
    for program in found:
        again = parse(program.text)
        assert again.text == program.text
        assert (again.inputs, again.constants) == (program.inputs, program.constants)
        assert again.outputs == program.outputs


def test_equal_plans_have_the_same_text_once_renumbered() -> None:
    def plan(*numbers: int) -> PlanText:
        a, b, c, d = numbers
        return PlanText(
            {number: Value(torch.float32, (size, 2)) for size, number in enumerate(numbers)},
            [a],
            [b],
            [Output(d, False)],
            [Operation("cast", (b,), (c,))],
            [[Operation("Add", (a, c), (d,), {"e": [0, 1]})]],
        )

    assert plan(7, 3, 9, 12).text != plan(0, 1, 2, 3).text
    assert plan(7, 3, 9, 12).renumbered().text == plan(0, 1, 2, 3).text


def test_attributes_of_all_types() -> None:
    attributes = {"a": True, "b": -3, "c": 1e-12, "d": "numpy", "e": [0, 2, -1], "f": [0.5, 1.0]}
    program = PlanText(
        {1: Value(torch.float32, (2, 3)), 2: Value(torch.bfloat16, ()), 3: Value(torch.bool, (1,))},
        [1],
        [3],
        [Output(2, False), Output(1, True)],
        [Operation("cast", (3,), (4,))],
        [[Operation("Sum", (1, 4), (2,), attributes)]],
    )
    program.values[4] = Value(torch.uint8, (1,))
    again = parse(program.text)
    assert again.partitions == program.partitions
    assert again.preparations == program.preparations
    assert again.outputs == program.outputs
    assert {**again.values, 3: program.values[3]} == program.values
    assert again.text == program.text


@pytest.mark.parametrize(
    "line",
    [
        "graph 2 abc",
        "value 1 f32",
        "value 1 f31 2x3",
        "value one f32 2x3",
        "output 1 sideways",
        "op ReLU in 1 out 2",
        "partition\nop ReLU 1 out 2",
        "partition\nop ReLU in 1",
        "partition\nop ReLU in 1 out 2 alpha=q:1",
        "nonsense",
        "",
    ],
)
def test_other_texts_raise(line: str) -> None:
    with pytest.raises(ValueError, match=r"not the text of a region: line \d"):
        parse(f"graph 1 abc\n{line}\nvalue 9 f32 1")
