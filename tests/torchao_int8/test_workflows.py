"""Copies, files, threads, processes, transforms, autocast and training around torchao's layers."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from _process import run_python
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from torchao_int8._layers import KINDS, Kind, by_cpuaccel, by_torchao, kinds, layer


def _mlp(kind: Kind) -> nn.Module:
    return kind.quantized(nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 16)))


@kinds
def test_copies_and_files(kind: Kind) -> None:
    model, x = _mlp(kind), torch.randn(5, 24)
    expected = by_cpuaccel(model, x, kind=kind)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 16))
    loaded.load_state_dict(torch.load(file), assign=True)
    for other in (copy.deepcopy(model), loaded):
        assert torch.equal(by_cpuaccel(other, x, kind=kind), expected)
    # torchao's modules themselves cannot be pickled: their extra_repr is a functools.partial.
    weight = pickle.loads(pickle.dumps(model[0].weight))
    assert torch.equal(weight.qdata, model[0].weight.qdata)


@kinds
def test_state_dict_holds_torchaos_tensors_only(kind: Kind) -> None:
    model, x = _mlp(kind), torch.randn(5, 24)
    before = {name: type(value) for name, value in model.state_dict().items()}
    model(x)
    assert {name: type(value) for name, value in model.state_dict().items()} == before


def test_threads() -> None:
    model, x = _mlp(KINDS["dynamic"]), torch.randn(5, 24)
    results: list[Tensor] = []

    def run() -> None:
        for _ in range(20):
            results.append(model(x))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    assert all(torch.equal(each, results[0]) for each in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child() -> None:
    code = """
import os, torch
from torch import nn
from torchao.quantization import quantize_, Int8DynamicActivationInt8WeightConfig
model = nn.Sequential(nn.Linear(64, 32))
quantize_(model, Int8DynamicActivationInt8WeightConfig())
x = torch.randn(3, 64)
torch.set_num_threads(2)
with torch.no_grad():
    before = model(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(model(x), before) else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run_python(code) == "0"


@pytest.mark.parametrize("name", ["dynamic", "static", "weight only"])
def test_threads_of_torch_give_the_same_bits(name: str) -> None:
    linear = layer(KINDS[name], 512, 700)
    for rows in (1, 5, 64):
        x = torch.randn(rows, 512)
        torch.set_num_threads(1)
        expected = linear(x)
        torch.set_num_threads(2)
        assert torch.equal(linear(x), expected)


@kinds
def test_torch_func(kind: Kind) -> None:
    linear = layer(kind, 24, 40)
    x = torch.randn(4, 3, 24)
    if kind.rows == "given":
        pytest.skip("torchao compares the dimensions of the scale with those of the input")
    mapped = torch.func.vmap(lambda each: F.linear(each, linear.weight, linear.bias))(x)
    assert_close(mapped, torch.stack([linear(each) for each in x]), rtol=1e-5, atol=1e-5)

    def loss(each: Tensor) -> Tensor:
        return F.linear(each, linear.weight, linear.bias).sum()

    weight = linear.weight.dequantize()
    gradient = torch.func.grad(loss)(x[0])
    assert_close(gradient, weight.sum(0).expand(3, -1), rtol=1e-4, atol=1e-5)
    _, tangent = torch.func.jvp(
        lambda each: F.linear(each, linear.weight, linear.bias), (x[0],), (torch.ones(3, 24),)
    )
    assert_close(tangent, weight.sum(1).expand(3, -1), rtol=1e-4, atol=1e-4)


@kinds
def test_autocast(kind: Kind) -> None:
    """As with torchao's own function, the result has the dtype of the input."""
    linear, x = layer(kind, 24, 40), torch.randn(5, 24)
    with torch.autocast("cpu", torch.bfloat16):
        result = by_cpuaccel(linear, x, kind=kind)
        assert result.dtype == by_torchao(linear, x).dtype
    assert_close(result, linear(x), rtol=1e-5, atol=1e-5)


def test_an_adapter_learns_through_the_frozen_layer() -> None:
    """LoRA: with torchao's function the gradient of what comes before the layer is zero."""
    torch.manual_seed(0)
    adapter, frozen = nn.Linear(24, 24), layer(KINDS["dynamic"], 24, 40)
    x, target = torch.randn(64, 24), torch.randn(64, 40)
    optimizer = torch.optim.Adam(adapter.parameters(), 0.02)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = F.mse_loss(frozen(adapter(x)), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.8 * losses[0]


def test_double_backward_raises_or_is_right() -> None:
    linear = layer(KINDS["dynamic"], 24, 40)
    x = torch.randn(5, 24, requires_grad=True)
    (gradient,) = torch.autograd.grad(linear(x).sum(), x, create_graph=True)
    weight = linear.weight.dequantize()
    assert_close(gradient, weight.sum(0).expand(5, -1), rtol=1e-4, atol=1e-5)


@kinds
def test_switched_off_objects_are_torchaos(kind: Kind) -> None:
    linear, x = layer(kind, 24, 40), torch.randn(5, 24)
    linear(x)
    with cpuaccel.enabled(False):
        cpuaccel.reset_stats()
        linear(x)
        assert not cpuaccel.stats()["calls"]


def _meta(kind: Kind) -> Any:
    return layer(kind, 24, 40).to("meta")


def test_meta_tensors_are_torchaos() -> None:
    kind = KINDS["weight only"]
    assert _meta(kind)(torch.empty(5, 24, device="meta")).shape == (5, 40)
