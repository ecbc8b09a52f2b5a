"""pack_torchao: layers that hold the weights of torchao's tensors packed only."""

from __future__ import annotations

import copy
import io
import logging
import pickle
from typing import Any

import pytest
import torch
from compile._compiled import needs_onednn
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from torchao_int8 import _layers
from torchao_int8._layers import GROUPS, KINDS, Kind, assert_right, by_cpuaccel, dtypes, kinds

_ALL = pytest.mark.parametrize("kind", [*KINDS.values(), GROUPS], ids=[*KINDS, "groups"])


def _net(kind: Kind, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    layers = nn.Sequential(nn.Linear(64, 50), nn.Linear(50, 64, bias=False), nn.Linear(64, 9))
    if kind is GROUPS:
        layers = nn.Sequential(nn.Linear(64, 96), nn.Linear(96, 32, bias=False), nn.Linear(32, 9))
    model: Any = kind.quantized(layers.to(dtype))
    return model  # type: ignore[no-any-return]


def _packed(model: Any) -> Any:
    return cpuaccel.quant.pack_torchao(copy.deepcopy(model))


@_ALL
@dtypes
@torch.no_grad()
def test_results_are_the_same_bits(kind: Kind, dtype: torch.dtype) -> None:
    model = _net(kind, dtype)
    packed = _packed(model)
    assert not any(isinstance(each, nn.Linear) for each in packed.modules())
    for shape in ((1, 64), (7, 64), (40, 64), (2, 3, 64), (64,), (0, 64)):
        if kind.rows == "given" and len(shape) != 2:
            continue
        x = (torch.randn(shape) * 3).to(dtype)
        assert torch.equal(by_cpuaccel(packed, x, kind=kind) if x.numel() else packed(x), model(x))


@kinds
@torch.no_grad()
def test_values_are_right(kind: Kind) -> None:
    linear, x = _layers.layer(kind, 300, 130), torch.randn(9, 300)
    packed = _packed(nn.Sequential(linear))
    assert_right(kind, linear, x, packed(x))
    assert torch.equal(packed[0].dequantize(), linear.weight.dequantize())


@needs_onednn
@_ALL
@torch.no_grad()
def test_plans_read_the_packed_weight(kind: Kind) -> None:
    model = _net(kind)
    packed, x = _packed(model), torch.randn(5, 64)
    optimized = cpuaccel.optimize(packed, (x,), time_budget=0)
    steps = [step for plan in cpuaccel.explain(optimized, (x,)).plans for step in plan.steps]
    layers = [step.kinds for step in steps if step.kinds in ("int8_linear", "intx_linear")]
    assert len(layers) == 3
    assert layers[0] == ("intx_linear" if kind is GROUPS else "int8_linear")
    for each in (x, torch.randn(5, 64)):
        assert torch.equal(optimized(each), model(each))
    if kind is not GROUPS:  # a weight that is written to
        plain = torch.ops.cpuaccel.unpack_int8(packed[0].packed, 50, 64)
        packed[0].packed.copy_(torch.ops.cpuaccel.pack_int8(plain.flip(0)))
        assert torch.equal(optimized(x), packed(x))
        assert not torch.equal(optimized(x), model(x))


@needs_onednn
@torch.no_grad()
def test_compiled_and_exported() -> None:
    model, x = _net(KINDS["dynamic"]), torch.randn(5, 64)
    packed = _packed(model)
    torch._dynamo.reset()
    compiled = torch.compile(packed, backend="cpuaccel", fullgraph=True)
    assert torch.equal(compiled(x), model(x))
    assert torch.equal(torch.export.export(packed, (x,)).module()(x), model(x))


@kinds
@torch.no_grad()
def test_copies_and_state(kind: Kind) -> None:
    model, x = _net(kind), torch.randn(3, 64)
    packed, expected = _packed(model), model(x)
    assert torch.equal(copy.deepcopy(packed)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(packed))(x), expected)
    other = _packed(_net(kind))
    other.load_state_dict(packed.state_dict())
    assert torch.equal(other(x), expected)
    file = io.BytesIO()
    torch.save(packed.state_dict(), file)
    file.seek(0)
    other = _packed(_net(kind))
    other.load_state_dict(torch.load(file))
    assert torch.equal(other(x), expected)


def _of_another_cpu(packed: Tensor) -> Tensor:
    """The same weight, as a kernel with the same layout and another name packs it."""
    changed = packed.clone()
    changed[16] ^= 1
    return changed


@torch.no_grad()
def test_weights_of_another_cpu() -> None:
    model, x = _net(KINDS["dynamic"]), torch.randn(3, 64)
    packed, expected = _packed(model), model(x)
    state = {
        name: _of_another_cpu(value) if name.endswith("packed") else value
        for name, value in packed.state_dict().items()
    }
    packed.load_state_dict(state)
    assert torch.equal(by_cpuaccel(packed, x, kind=KINDS["dynamic"]), expected)
    packed[0].packed = _of_another_cpu(packed[0].packed)
    cpuaccel.reset_stats()
    assert_close(packed(x), expected, rtol=1e-2, atol=1e-2)  # rows on the border of two integers
    reason = "packed_int8_linear: the weight was packed for another CPU"
    assert cpuaccel.stats()["fallbacks"] == {reason: 1}


# Without one scale for all rows, which vmap has for each example.
@pytest.mark.parametrize("name", ["dynamic", "asymmetric", "weight only"])
def test_derivatives(name: str) -> None:
    kind = KINDS[name]
    linear = _layers.layer(kind, 24, 16)
    packed = _packed(nn.Sequential(linear))[0]
    weight = linear.weight.dequantize()
    x = torch.randn(3, 24, requires_grad=True)
    packed.bias.requires_grad_()
    grad = torch.randn(3, 16)
    packed(x).backward(grad)
    assert_close(x.grad, grad @ weight, rtol=1e-4, atol=1e-4)
    assert_close(packed.bias.grad, grad.sum(0))
    _, tangent = torch.func.jvp(packed, (x.detach(),), (torch.ones(3, 24),))
    assert_close(tangent, weight.sum(1).expand(3, 16), rtol=1e-4, atol=1e-4)
    assert_close(torch.vmap(packed)(x), packed(x), rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_pre_scale_of_smoothquant() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        linear = _layers.layer(KINDS["dynamic"], 24, 40, dtype=dtype)
        linear.weight.act_pre_scale = torch.rand(24) + 0.5
        x = torch.randn(5, 24).to(dtype)
        assert torch.equal(_packed(nn.Sequential(linear))(x), linear(x))


def test_layers_that_stay(caplog: pytest.LogCaptureFixture) -> None:
    model = _net(KINDS["dynamic"])
    model[0].weight.zero_point.random_(-20, 20)
    model[1].register_forward_hook(lambda *_: None)
    model.append(nn.Linear(9, 64))
    model[3].weight = model[2].weight
    kept = list(model)
    with caplog.at_level(logging.WARNING):
        assert cpuaccel.quant.pack_torchao(model) is model
    assert list(model) == kept
    for reason in ("zero points", "hooks", "shared with another layer"):
        assert reason in caplog.text


def test_groups_and_a_scale_of_the_input(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(_layers.layer(GROUPS, 64, 40))
    model[0].weight.act_pre_scale = torch.rand(64) + 0.5
    with caplog.at_level(logging.WARNING):
        cpuaccel.quant.pack_torchao(model)
    assert type(model[0]) is nn.Linear
    assert "a weight with groups and a scale of the input" in caplog.text


class _Reads(nn.Module):
    """Casts the input to the type of the weight, as T5 does."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"read": nn.Linear(64, 64)})
        self.read, self.other = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.read(x.to(self.read.weight.dtype)))


@torch.no_grad()
def test_a_weight_that_the_model_reads() -> None:
    model: Any = KINDS["dynamic"].quantized(_Reads())
    x = torch.randn(3, 64)
    packed = _packed(model)
    assert isinstance(packed.read, nn.Linear)
    assert not isinstance(packed.other, nn.Linear)
    assert not isinstance(packed.layers["read"], nn.Linear)
    assert torch.equal(packed(x), model(x))


def test_errors() -> None:
    quantized = _net(KINDS["dynamic"])
    packed = _packed(quantized)[0]
    x, arguments = torch.randn(2, 64), (None, 50, "row", True, None, None, -128, 127)
    op, scale = torch.ops.cpuaccel.packed_int8_linear, packed.weight_scale
    for error, message, call in (
        (TypeError, "torch.nn.Module, got int", lambda: cpuaccel.quant.pack_torchao(3)),
        (TypeError, "a layer itself", lambda: cpuaccel.quant.pack_torchao(quantized[0])),
        (ValueError, "no linear layer", lambda: cpuaccel.quant.pack_torchao(nn.Linear(3, 3))),
        (RuntimeError, "last dimension of 64", lambda: packed(x[:, 1:])),
        (
            RuntimeError,
            "expected packed to be the vector",
            lambda: op(x, packed.packed[::2], scale, *arguments),
        ),
        (
            RuntimeError,
            "not what pack_int8 returned",
            lambda: op(x, packed.packed[:-1], scale, *arguments),
        ),
        (
            RuntimeError,
            "packed has 50 rows, but out_features is 51",
            lambda: op(x, packed.packed, scale, None, 51, *arguments[2:]),
        ),
        (
            RuntimeError,
            "expected weight_scale to have 1 element or 50",
            lambda: op(x, packed.packed, scale[:3], *arguments),
        ),
        (
            RuntimeError,
            "expected weight to be an int8 matrix",
            lambda: torch.ops.cpuaccel.pack_int8(x),
        ),
        (
            RuntimeError,
            "packed is 50 x 64",
            lambda: torch.ops.cpuaccel.unpack_int8(packed.packed, 50, 65),
        ),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("name", ["dynamic", "weight only"])
def test_explain_names_the_kernel(name: str) -> None:
    rows = cpuaccel.explain(_packed(_net(KINDS[name]))).rows
    kernel = "qgemm" if name == "dynamic" else "gemm_w8"
    found = [(row.layer, row.op, row.provider, row.kernel, row.problem) for row in rows]
    op = "cpuaccel::packed_int8_linear"
    shapes = ("50x64", "64x50", "9x64")
    assert found == [
        (str(number), op, "cpuaccel", kernel, f"w8 {shape}") for number, shape in enumerate(shapes)
    ]
    assert all(row.packed_bytes for row in rows)
