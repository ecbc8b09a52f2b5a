"""Eager calls of what load_legacy returns: plans run them on integers, and nothing else changes."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.ao.quantization as aq
from compile._compiled import needs_onednn
from torch import Tensor, nn

import cpuaccel
from cpuaccel import config
from cpuaccel.compile.frontend.eager_plans import may_have_plans, plans_of
from cpuaccel.quant import load_legacy
from quant._lowered import assert_close
from quant.legacy import _files

pytestmark = needs_onednn

NETS = {
    "ResNet": (_files.ResNet, "torch.save"),
    "ResNet, traced": (_files.ResNet, "torch.jit.trace"),
    "MobileNet": (_files.MobileNet, "pickle"),
    "Functional": (_files.Functional, "torch.jit.script"),
}


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def _loaded(cls: type[nn.Module] = _files.ResNet) -> nn.Module:
    return load_legacy(_files.saved(_files.converted(cls)))


def _regions() -> int:
    return sum(
        n for name, n in cpuaccel.stats()["calls"].items() if name.startswith("graph_region")
    )


def _by_plan(model: nn.Module, *args: Any) -> Any:
    before = _regions()
    found = model(*args)
    assert _regions() > before
    return found


def _not_by_plan(model: nn.Module, *args: Any) -> Any:
    before = _regions()
    found = model(*args)
    assert _regions() == before
    return found


def _switched_off(model: nn.Module, *args: Any) -> Any:
    config.set("legacy_plans", False)
    try:
        return _not_by_plan(model, *args)
    finally:
        config.set("legacy_plans", True)


@pytest.mark.parametrize("name", NETS)
def test_eager_calls_return_what_optimize_returns(name: str) -> None:
    net, way = NETS[name]
    model = _files.converted(net)
    loaded = load_legacy(_files.FILES[way](model))
    x = _files.images()
    optimized = cpuaccel.optimize(copy.deepcopy(loaded), (x,), time_budget=0)
    assert plans_of(loaded) is None
    found = _by_plan(loaded, x)
    assert torch.equal(found, optimized(x))
    assert torch.equal(_by_plan(loaded, x), found)  # from the first call on the same numbers
    if net is _files.ResNet:
        assert torch.equal(found, _files.result(model, x))
    assert_close(found, _switched_off(loaded, x))


def test_layers_run_on_integers_and_explain_says_so() -> None:
    loaded, x = _loaded(), _files.images()
    explanation = cpuaccel.explain(loaded, (x,))
    kinds = [k for plan in explanation.plans for s in plan.steps for k in s.kinds.split("+")]
    assert kinds.count("q_conv") == 5
    assert kinds.count("q_linear") == 1
    assert not {"Convolution", "MatMul"} & set(kinds)
    assert any(row.op == "q_conv" for row in explanation.rows)
    assert any(line.startswith("optimize: ") for line in explanation.footer)
    cpuaccel.reset_stats()
    loaded(x)
    calls = cpuaccel.stats()["calls"]
    assert sum(n for name, n in calls.items() if name.startswith(("conv2d.", "conv2d_add."))) == 5
    assert not any(name.startswith("fp32_convolution") for name in calls)


def test_eager_mode_models_and_dicts() -> None:
    model = _files.eager_converted()
    loaded = load_legacy(_files.saved(model.state_dict()), model=_files.made(_files.Eager))
    x = _files.images()
    assert torch.equal(_by_plan(loaded, x), _files.result(model, x))
    two = _files.converted(_files.Two)
    found, expected = _by_plan(load_legacy(_files.saved(two)), x), _files.result(two, x)
    assert found.keys() == expected.keys()
    for name, each in found.items():
        assert_close(each, expected[name])


def test_autocast() -> None:
    """Its layers are integers, as autocast left those of the saved model."""
    loaded, x = _loaded(), _files.images()
    exact = _by_plan(loaded, x)
    with torch.autocast("cpu"):
        found = _by_plan(loaded, x)
        plain = _switched_off(loaded, x)
    assert found.dtype == plain.dtype
    assert (found - exact).abs().max() <= exact.abs().max() / 64


def test_the_setting_the_switch_and_gradients() -> None:
    loaded, x = _loaded(), _files.images()
    plain = _switched_off(loaded, x)
    with cpuaccel.enabled(False):
        assert_close(_not_by_plan(loaded, x), plain)
    with torch.enable_grad():
        _not_by_plan(loaded, x.clone().requires_grad_())
        assert torch.equal(_by_plan(loaded, x), _by_plan(loaded, x))  # nothing needs a gradient


def test_other_sizes_and_changed_weights() -> None:
    model = _files.converted(_files.ResNet)
    loaded = load_legacy(_files.saved(model))
    _by_plan(loaded, _files.images())
    larger = torch.randn(5, 3, 20, 20)
    assert torch.equal(_by_plan(loaded, larger), _files.result(model, larger))
    before = _by_plan(loaded, _files.images())
    name = next(name for name, each in loaded.named_buffers() if name.endswith("bias"))
    state = {key: value.clone() for key, value in loaded.state_dict().items()}
    state[name] += 1
    loaded.load_state_dict(state)
    changed = _by_plan(loaded, _files.images())
    assert not torch.equal(changed, before)
    assert_close(changed, _switched_off(loaded, _files.images()))


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy])
def test_copies_have_plans_of_their_own(copied: Callable[[nn.Module], nn.Module]) -> None:
    loaded, x = _loaded(), _files.images()
    expected = _by_plan(loaded, x)
    other = copied(loaded)
    assert may_have_plans(other)
    assert plans_of(other) is None
    assert list(other.state_dict()) == list(loaded.state_dict())
    assert torch.equal(_by_plan(other, x), expected)


def test_pickles_are_those_of_torch() -> None:
    loaded, x = _loaded(), _files.images()
    plain = _switched_off(loaded, x)
    file = _files.saved(loaded)
    _by_plan(loaded, x)
    after = _files.saved(loaded)
    assert b"_cpuaccel_plans" not in after.getvalue()
    for each in (file, after):
        again = torch.load(each, weights_only=False)
        assert torch.equal(_not_by_plan(again, x), plain)
        assert_close(cpuaccel.optimize(again, (x,), time_budget=0)(x), plain)


def test_what_traces_the_model_sees_the_ops() -> None:
    loaded, x = _loaded(), _files.images()
    _by_plan(loaded, x)
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    count = len(loaded.graph.find_nodes(op="call_function", target=quantize))
    exported = torch.export.export(loaded, (x,))
    assert len(exported.graph.find_nodes(op="call_function", target=quantize)) == count
    traced = torch.jit.trace(loaded, x)
    assert torch.equal(traced(x), _switched_off(loaded, x))


def test_threads_share_a_plan() -> None:
    model = _files.converted(_files.ResNet)
    loaded = load_legacy(_files.saved(model))
    inputs = [_files.images(seed) for seed in range(6)]
    found: list[Tensor | None] = [None] * len(inputs)

    def run(index: int) -> None:
        with torch.no_grad():
            found[index] = loaded(inputs[index])

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, each in zip(inputs, found, strict=True):
        assert each is not None
        assert torch.equal(each, _files.result(model, x))


class _Encoder(nn.Module):
    """Branches on its arguments, so only its layers are replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 24), nn.Linear(24, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = self.last(torch.relu(self.first(x)))
        if mask is not None and bool(mask.any()):
            y = y.masked_fill(mask, 0.0)
        return self.norm(x + y)


def _encoder() -> tuple[nn.Module, nn.Module]:
    model = _files.made(_Encoder)
    quantized = _files.quietly(aq.quantize_dynamic, copy.deepcopy(model), {nn.Linear})
    return load_legacy(_files.saved(quantized.state_dict()), model=model), quantized


def test_dynamic_layers_in_a_model_of_the_user() -> None:
    loaded, quantized = _encoder()
    x = torch.randn(2, 5, 16)
    cpuaccel.reset_stats()
    found = _by_plan(loaded, x)
    calls = cpuaccel.stats()["calls"]
    assert sum(n for name, n in calls.items() if name.startswith("linear_dynamic")) >= 2
    torch.testing.assert_close(found, _files.result(quantized, x), rtol=1e-5, atol=1e-6)
    longer = torch.randn(2, 7, 16)
    torch.testing.assert_close(
        _by_plan(loaded, longer), _files.result(quantized, longer), rtol=1e-5, atol=1e-6
    )
    rows = cpuaccel.explain(loaded, (x,)).rows
    layers = {row.layer.partition(":")[0] for row in rows if row.op == "q_linear_dynamic"}
    assert layers == {"first", "last"}
    copied = copy.deepcopy(loaded)
    assert plans_of(copied.first) is None
    assert torch.equal(_by_plan(copied, x), found)
    optimized = cpuaccel.optimize(loaded, (x,), time_budget=0)
    torch.testing.assert_close(optimized(x), found, rtol=1e-5, atol=1e-6)


def test_recurrent_layers() -> None:
    model = _files.dynamic()
    loaded = load_legacy(_files.saved(model.state_dict()), model=_files.made(_files.Words))
    found = _by_plan(loaded, _files.indices())
    for one, other in zip(found, _files.result(model, _files.indices()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    sequential = _files.quietly(aq.quantize_dynamic, nn.Sequential(nn.LSTM(4, 6)).eval(), {nn.LSTM})
    loaded = load_legacy(_files.saved(sequential))
    assert not may_have_plans(loaded)  # one plan would be for one number of steps
    for steps in (3, 5):
        x = torch.randn(steps, 2, 4)
        result, _ = _by_plan(loaded, x)
        expected = _files.result(sequential, x)[0]
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)


def test_files_of_state_dicts_stay_readable() -> None:
    loaded, x = _loaded(), _files.images()
    expected = _by_plan(loaded, x)
    file = io.BytesIO()
    torch.save(loaded.state_dict(), file)
    file.seek(0)
    other = _loaded()
    other.load_state_dict(torch.load(file))
    assert torch.equal(_by_plan(other, x), expected)
