"""Graphs that `cpuaccel.quant.fuse` must not change: several users, hooks, mutations.

It accepts models from any engine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import prepare_fx

import cpuaccel
from quant._engine import engine, needs_front_end, running
from quant._fuse import (
    Lambda,
    after_conv,
    assert_fuses,
    assert_same,
    conv,
    fused_ops,
    image,
    quantized,
)
from quant._models import quiet, seeded

pytestmark = needs_front_end

CHAIN = "dequantize + silu + quantize"


class _Net(nn.Module):
    """A stem, two more convolutions, and what `run` does with them."""

    def __init__(self, run: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.stem, self.left, self.right, self.last = conv(source=3), conv(), conv(), conv()
        self.activation, self.run = nn.ReLU6(), run

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.run(self, self.stem(x)))


def _two_users(net: nn.Module, x: Tensor) -> Tensor:
    return net.left(F.relu6(x)) + x


def _result_with_two_users(net: nn.Module, x: Tensor) -> Tensor:
    x = F.relu6(x)
    return net.left(x) + x


def _two_functions(net: nn.Module, x: Tensor) -> Tensor:
    return net.left(F.silu(x)) + net.right(F.gelu(x))


def _function_of_a_function(net: nn.Module, x: Tensor) -> Tensor:
    x = F.silu(x)
    return net.left(x) + net.right(F.gelu(x))


def _float_user(net: nn.Module, x: Tensor) -> Tensor:
    x = F.silu(x)
    return net.left(x) * torch.softmax(x, 1)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (_two_users, ["conv2d + add"]),
        (_result_with_two_users, ["conv2d + relu6", "conv2d + add"]),
        (_two_functions, [CHAIN, CHAIN.replace("silu", "gelu"), "conv2d + add"]),
        (_function_of_a_function, [CHAIN, CHAIN.replace("silu", "silu + gelu"), "conv2d + add"]),
    ],
)  # fmt: skip
def test_several_users(run: Callable[[nn.Module, Tensor], Tensor], expected: list[str]) -> None:
    assert_fuses(lambda: _Net(run), image(), *expected)


def test_a_user_in_float() -> None:
    """Users that stay float read the same values as before."""
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: _Net(_float_user), image())
        fused = cpuaccel.quant.fuse(model)
        assert fused_ops(fused) == {CHAIN: 1, "conv2d + mul": 1}
        assert_same(fused, model, image())


def test_an_activation_module_called_in_several_places() -> None:
    def run(net: nn.Module, x: Tensor) -> Tensor:
        return net.activation(net.right(net.activation(net.left(net.activation(x)))))

    assert_fuses(lambda: _Net(run), image(), *3 * ["conv2d + relu6"])


def test_a_convolution_called_twice() -> None:
    def run(net: nn.Module, x: Tensor) -> Tensor:
        return F.hardswish(net.left(F.relu6(net.left(x))))

    fused = assert_fuses(lambda: _Net(run), image(), "conv2d + relu6", "conv2d + hardswish")
    packed = [m._packed_params for m in fused.modules() if fused_ops(m) and hasattr(m, "relu")]
    assert len(packed) == 2
    pointers = {str(p.unpack()[0].int_repr().tolist()) for p in packed}
    assert len(pointers) == 1, "both have the weights of the one"


def _write_and_read_again(net: nn.Module, x: Tensor) -> Tensor:
    y = net.left(x)
    z = F.relu6(x, inplace=True)
    return (y + z) + x


def _read_after_write_through_a_view(net: nn.Module, x: Tensor) -> Tensor:
    z = F.relu6(x.transpose(2, 3), inplace=True)
    return net.left(x) + z.transpose(2, 3)


def _same_and_written(net: nn.Module, x: Tensor) -> Tensor:
    y = F.dropout(x, 0.5, False)
    z = net.left(y)
    w = F.relu6(y, inplace=True)
    return (z + x) + w


@pytest.mark.parametrize(
    "run", [_write_and_read_again, _read_after_write_through_a_view, _same_and_written]
)
def test_writes_that_others_see(run: Callable[[nn.Module, Tensor], Tensor]) -> None:
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: _Net(run), image())
        fused = cpuaccel.quant.fuse(model)
        assert any("relu6" in str(n.target) for n in fused.graph.nodes), fused.graph
        assert not any("relu6" in ops for ops in fused_ops(fused))
        assert_same(fused, model, image())


@pytest.mark.parametrize("path", ["0", "1"])
def test_modules_with_hooks_stay(path: str) -> None:
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: after_conv(nn.ReLU6()), image())
        seen: list[torch.Size] = []
        hooked = model.get_submodule(path)
        hooked.register_forward_hook(lambda module, args, output: seen.append(output.shape))
        # A deep copy of torch's quantized convolutions loses its hooks.
        fused = cpuaccel.quant.fuse(model, inplace=True)
        assert not fused_ops(fused)
        fused(image())
        assert seen == [torch.Size([2, 8, 9, 9])]


def test_padding_by_the_module_itself_stays() -> None:
    def model() -> nn.Module:
        reflecting = nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect")
        return nn.Sequential(reflecting, nn.SiLU(), conv())

    assert_fuses(model, image(), CHAIN)


@pytest.mark.parametrize("name", ["fbgemm", "onednn", "x86"])
@pytest.mark.parametrize("backend", ["auto", "intree"])
def test_packed_by_any_engine(name: str, backend: str) -> None:
    if name not in torch.backends.quantized.supported_engines:
        pytest.skip(f"torch is built without {name}")
    with torch.no_grad(), running(backend), engine(name):
        for run in (_result_with_two_users, _function_of_a_function):
            model = quantized(lambda run=run: _Net(run), image())
            fused = cpuaccel.quant.fuse(model)
            assert len(fused_ops(fused)) > 1
            assert_same(fused, model, image())


def test_in_place_or_a_copy() -> None:
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: after_conv(nn.ReLU6()), image())
        before = copy.deepcopy(model)
        fused = cpuaccel.quant.fuse(model)
        assert fused is not model
        assert not fused_ops(model)
        assert cpuaccel.quant.fuse(model, inplace=True) is model
        assert fused_ops(model) == fused_ops(fused)
        assert_same(model, before, image())


def test_fusing_twice_changes_nothing() -> None:
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: _Net(_function_of_a_function), image())
        once = cpuaccel.quant.fuse(model)
        twice = cpuaccel.quant.fuse(once)
        assert [str(n.target) for n in once.graph.nodes] == [
            str(n.target) for n in twice.graph.nodes
        ]
        assert_same(twice, model, image())


def test_nothing_quantized() -> None:
    model = torch.fx.symbolic_trace(after_conv(nn.ReLU6()).eval())
    fused = cpuaccel.quant.fuse(model)
    assert str(fused.graph) == str(model.graph)
    assert "nothing quantized" in str(cpuaccel.explain(fused))


def _prepared() -> nn.Module:
    mapping = get_default_qconfig_mapping("x86")
    with quiet():
        return prepare_fx(seeded(lambda: after_conv(nn.ReLU6())), mapping, (image(),))


def test_what_is_no_convert_fx_model() -> None:
    with pytest.raises(TypeError, match=r"expected a torch\.fx\.GraphModule.*got Sequential"):
        cpuaccel.quant.fuse(nn.Sequential())
    with pytest.raises(TypeError, match="got int"):
        cpuaccel.quant.fuse(3)
    with pytest.raises(ValueError, match="prepared but not converted"):
        cpuaccel.quant.fuse(_prepared())
    with running("auto"), pytest.raises(ValueError, match=r"call model\.eval\(\) first"):
        cpuaccel.quant.fuse(quantized(lambda: after_conv(nn.ReLU6()), image()).train())


def _shuffle(x: Tensor, groups: int) -> Tensor:
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    return torch.transpose(x, 1, 2).contiguous().view(batch, channels, height, width)


class _Shuffled(nn.Module):
    """A channel shuffle between convolutions; `cat` has as many operands as there are groups."""

    def __init__(self, shuffle: Callable[[Tensor], Tensor], channels: int, parts: int = 1) -> None:
        super().__init__()
        self.convs = nn.ModuleList(conv(channels // parts, source=3) for _ in range(parts))
        self.shuffle, self.last = Lambda(shuffle), conv(4, source=channels, kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        parts = [F.relu(one(x)) for one in self.convs]
        return self.last(self.shuffle(torch.cat(parts, 1) if len(parts) > 1 else parts[0]))


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_channel_shuffle(groups: int, parts: int) -> None:
    name = "cat + channel_shuffle" if parts > 1 else "channel_shuffle"
    model = lambda: _Shuffled(lambda x: _shuffle(x, groups), 72, parts)  # noqa: E731
    assert_fuses(model, image(), name)


def test_channel_shuffle_of_torchs_own() -> None:
    assert_fuses(lambda: _Shuffled(nn.ChannelShuffle(4), 48), image(), "channel_shuffle")


class _ShuffleUnits(nn.Module):
    """Two ShuffleNet units: half of the channels pass unchanged, half are computed."""

    def __init__(self, half: int) -> None:
        super().__init__()
        self.stem = conv(2 * half, source=3)
        self.branches = nn.ModuleList(conv(half, source=half) for _ in range(2))
        self.last = conv(4, source=2 * half, kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        for branch in self.branches:
            left, right = x.chunk(2, dim=1)
            x = _shuffle(torch.cat((left, F.relu(branch(right))), dim=1), 2)
        return self.last(x)


@pytest.mark.parametrize("half", [6, 7, 58])
def test_shuffle_units(half: int) -> None:
    """An odd half cannot be split between the operands: then torch's ops run the shuffle."""
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: _ShuffleUnits(half), image())
        fused = cpuaccel.quant.fuse(model)
        assert sum("channel_shuffle" in name for name in fused_ops(fused).elements()) == 3
        assert not [n for n in fused.graph.nodes if n.target in ("view", "contiguous", "size")]
        assert_same(fused, model, image())


@pytest.mark.parametrize("viewed", [True, False], ids=["view", "result of the model"])
def test_a_shuffle_whose_strides_somebody_sees_stays(viewed: bool) -> None:
    class Viewed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = conv(source=3), nn.Linear(648, 5)

        def forward(self, x: Tensor) -> Tensor:
            x = _shuffle(F.relu(self.conv(x)), 2)
            return self.linear(x.view(x.size(0), -1)) if viewed else x

    with torch.no_grad(), running("auto"):
        model = quantized(Viewed, image())
        fused = cpuaccel.quant.fuse(model)
        assert not fused_ops(fused)
        assert_same(fused, model, image())
