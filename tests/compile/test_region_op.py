"""cpuaccel::graph_region as a torch op: its schema, its fake kernel, and torch in its place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn, randomized

pytestmark = needs_onednn

_OPS: Any = torch.ops.cpuaccel


def _arguments() -> tuple[Any, ...]:
    """The arguments of the one call that a model becomes, on tensors."""
    torch.manual_seed(0)
    model = randomized(
        Lambda(
            lambda self, x: F.max_pool2d(F.relu(self.norm(self.conv(x))), 2),
            conv=nn.Conv2d(4, 8, 3),
            norm=nn.BatchNorm2d(8),
        )
    ).eval()
    x = torch.randn(2, 4, 9, 9)
    optimized = cpuaccel.optimize(model, (x,))
    (made,) = optimized._captures.values()
    captured: Any = made.capture.graph
    (call,) = captured.graph.find_nodes(op="call_function", target=_OPS.graph_region.default)
    constants = [
        captured.get_parameter(node.target)
        if "running" not in node.target
        else captured.get_buffer(node.target)
        for node in call.args[1]
    ]
    return [x], [each.detach() for each in constants], *call.args[2:]


def test_opcheck() -> None:
    result = torch.library.opcheck(
        _OPS.graph_region.default,
        _arguments(),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )
    assert set(result.values()) == {"SUCCESS"}


def test_torch_computes_the_same() -> None:
    inputs, constants, program, torch_program = _arguments()
    ours = _OPS.graph_region(inputs, constants, program, torch_program)
    torchs = _OPS.graph_region_by_torch(inputs, constants, torch_program)
    for a, b in zip(ours, torchs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        assert a.stride() == b.stride()


def test_regions_that_onednn_rejects_run_on_torch() -> None:
    inputs, constants, program, torch_program = _arguments()
    cpuaccel.reset_stats()
    wrong = program.replace("graph 1 ", "graph 1 other").replace("op MaxPool", "op AvgPool")
    found = _OPS.graph_region(inputs, constants, wrong, torch_program)
    torchs = _OPS.graph_region_by_torch(inputs, constants, torch_program)
    torch.testing.assert_close(found[0], torchs[0], atol=1e-5, rtol=1e-4)
    assert any("graph_region" in reason for reason in cpuaccel.stats()["fallbacks"])


def test_regions_that_onednn_rejected_are_not_tried_again() -> None:
    inputs, constants, program, torch_program = _arguments()
    wrong = program.replace("graph 1 ", "graph 1 again").replace("op MaxPool", "op AvgPool")
    tried = []
    for _ in range(3):
        cpuaccel.reset_stats()
        _OPS.graph_region(inputs, constants, wrong, torch_program)
        stats = cpuaccel.stats()
        tried.append(stats["graph_cache"]["misses"])
        assert any("graph_region" in reason for reason in stats["fallbacks"])
    assert tried == [1, 0, 0]


def test_a_bad_plan_text_raises_in_each_call() -> None:
    inputs, constants, program, torch_program = _arguments()
    head, *rest = program.splitlines()
    text = "\n".join([f"{head} again", "op no_such_kind", *rest])
    for _ in range(2):
        with pytest.raises(ValueError, match="no_such_kind"):
            _OPS.graph_region(inputs, constants, text, torch_program)


def test_as_many_tensors_as_it_reads() -> None:
    inputs, constants, program, torch_program = _arguments()
    expected = f"expected 1 inputs and {len(constants)} constants, got "
    with pytest.raises(ValueError, match=f"{expected}2 and {len(constants)}"):
        _OPS.graph_region([*inputs, *inputs], constants, program, torch_program)
    with pytest.raises(ValueError, match=f"{expected}1 and 0"):
        _OPS.graph_region(inputs, [], program, torch_program)
