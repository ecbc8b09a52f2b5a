"""`cpuaccel.quant.fuse` on torchvision's models: the same output, from fewer ops."""

import importlib.util

import pytest
import torch

import cpuaccel
from quant._engine import needs_front_end, off, running
from quant._fuse import fused_ops
from quant.test_models import converted, torchs

pytestmark = [
    needs_front_end,
    pytest.mark.skipif(
        importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed"
    ),
]

SILU = "dequantize + silu + quantize"
SHUFFLE = "cat + channel_shuffle"
EXPECTED = {
    "resnet18": {"conv2d + add_relu": 8},
    "mobilenet_v2": {"conv2d + relu6": 35, "conv2d + add": 10},
    "mobilenet_v3_large": {
        "conv2d + hardswish": 20,
        "conv2d + add": 10,
        "conv2d + hardsigmoid + mul": 8,
        "linear + hardswish": 1,
    },
    "efficientnet_b0": {
        f"conv2d + {SILU}": 49,
        "conv2d + sigmoid + mul": 16,
        "conv2d + add": 9,
    },
    "shufflenet_v2_x1_0": {SHUFFLE: 3},
}
"""Whether halves of ShuffleNet's channels are requantized depends on their observers."""


@pytest.mark.parametrize("name", EXPECTED)
def test_the_same_from_fewer_ops(name: str) -> None:
    with torch.no_grad(), running("auto"):
        model, x = converted(name, "auto"), torchs(name).x
        fused = cpuaccel.quant.fuse(model)
        found = fused_ops(fused)
        halves = {ops for ops in found if ops.startswith(f"{SHUFFLE} + chunk")}
        assert {ops: found[ops] for ops in found if ops not in halves} == EXPECTED[name]
        assert sum(found[ops] for ops in halves) == (26 if "shufflenet" in name else 0)
        assert torch.equal(fused(x), model(x))
        with off():
            assert torch.equal(fused(x), model(x))


@pytest.mark.parametrize("name", ["mobilenet_v2", "shufflenet_v2_x1_0"])
def test_nothing_moves_between_float_and_quint8_inside(name: str) -> None:
    with running("auto"):
        fused = cpuaccel.quant.fuse(converted(name, "auto"))
    targets = [node.target for node in fused.graph.nodes]
    assert targets.count("dequantize") == 1
    assert targets.count(torch.quantize_per_tensor) == 1
