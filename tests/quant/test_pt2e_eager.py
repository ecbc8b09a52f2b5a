"""Eager calls of what torchao's convert_pt2e returns: plans run them, and nothing else changes."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

pytest.importorskip("torchao", reason="requirements/dev.txt has torchao, which is not installed")

from compile._compiled import needs_onednn
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

import cpuaccel
from cpuaccel import config
from cpuaccel.compile.frontend.eager_plans import plans_of

pytestmark = needs_onednn

QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default


class Net(nn.Module):
    """A small CNN with a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x) + x)
        return self.head(self.dropout(x.mean((2, 3))))


def _images(batch: int = 2, seed: int = 1) -> Tensor:
    return torch.randn(batch, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def made() -> GraphModule:
    """A converted model, whose plan no test makes: they copy it."""
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(
        Net().eval(), (_images(),), dynamic_shapes={"x": {0: batch}}
    ).module()
    quantizer = X86InductorQuantizer()
    quantizer.set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(_images())
        return convert_pt2e(prepared)


@pytest.fixture
def model(made: GraphModule) -> GraphModule:
    return copy.deepcopy(made)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def _plain(model: nn.Module, x: Tensor) -> Any:
    config.set("pt2e_plans", False)
    try:
        return model(x)
    finally:
        config.set("pt2e_plans", True)


def _regions() -> int:
    return sum(
        n for name, n in cpuaccel.stats()["calls"].items() if name.startswith("graph_region")
    )


def _assert_plan_ran(model: nn.Module, x: Tensor) -> Tensor:
    before = _regions()
    found = model(x)
    assert _regions() > before
    expected = _plain(model, x)
    assert (found - expected).abs().max() <= 0.02 * expected.abs().max()
    return found


def _assert_model_ran(model: nn.Module, x: Tensor) -> Tensor:
    before = _regions()
    found = model(x)
    assert _regions() == before
    return found


def test_the_first_call_runs_a_plan_in_int8(model: GraphModule) -> None:
    x = _images()
    assert plans_of(model) is None
    first = _assert_plan_ran(model, x)
    assert torch.equal(model(x), first)  # from the first call on the same numbers
    assert plans_of(model) is not None
    steps = [s for plan in cpuaccel.explain(model, (x,)).plans for s in plan.steps]
    kinds = [kind for step in steps for kind in step.kinds.split("+")]
    assert kinds.count("q_conv") == 2
    assert "q_linear" in kinds
    assert not {"Convolution", "MatMul"} & set(kinds)


def test_other_sizes_and_weights(model: GraphModule) -> None:
    _assert_plan_ran(model, _images(2))
    _assert_plan_ran(model, _images(5, seed=2))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    name = next(name for name in state if name.endswith("bias"))
    state[name] += 1
    model.load_state_dict(state)
    _assert_plan_ran(model, _images(2))


def test_the_setting_and_the_switch(model: GraphModule) -> None:
    x = _images()
    config.set("pt2e_plans", False)
    try:
        plain = _assert_model_ran(model, x)
    finally:
        config.set("pt2e_plans", True)
    with cpuaccel.enabled(False):
        off = model(x)
    assert (off - plain).abs().max() < 1e-4
    _assert_plan_ran(model, x)


def test_calls_that_need_gradients_run_the_model(model: GraphModule) -> None:
    with torch.enable_grad():
        _assert_model_ran(model, _images())


def test_autocast(model: GraphModule) -> None:
    """The plan's layers are integers too, and its results have autocast's dtype."""
    x = _images()
    exact = _assert_plan_ran(model, x)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            found = _assert_plan_ran(model, x)
            assert found.dtype == _plain(model, x).dtype == dtype
        assert (found - exact).abs().max() <= exact.abs().max() / 128
    assert torch.equal(_assert_plan_ran(model, x), exact)


def test_tensors_of_other_devices_run_the_model(model: GraphModule) -> None:
    before = cpuaccel.stats()["fallbacks"]
    with suppress(RuntimeError):  # torch may reject a convolution of two devices
        model(_images().to("meta"))
    assert cpuaccel.stats()["fallbacks"] == before
    assert plans_of(model) is None


def test_copies_and_files(model: GraphModule) -> None:
    x = _images()
    expected = _assert_plan_ran(model, x)
    keys = list(model.state_dict())
    copied = copy.deepcopy(model)
    assert plans_of(copied) is None
    assert list(copied.state_dict()) == keys
    assert torch.equal(_assert_plan_ran(copied, x), expected)
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (x,)), file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    assert (loaded(x) - _plain(model, x)).abs().max() < 1e-4


def test_a_changed_graph_gets_another_plan(model: GraphModule) -> None:
    x = _images()
    before = _assert_plan_ran(model, x)
    (output,) = model.graph.find_nodes(op="output")
    (result,) = output.all_input_nodes
    with model.graph.inserting_before(output):
        doubled = model.graph.call_function(torch.ops.aten.mul.Tensor, (result, 2.0))
    doubled.meta = dict(result.meta)
    output.replace_input_with(result, doubled)
    model.recompile()
    assert torch.equal(_assert_plan_ran(model, x), 2 * before)
    _assert_plan_ran(move_exported_model_to_eval(model), x)


def test_what_traces_the_model_sees_the_ops(model: GraphModule) -> None:
    x = _images()
    _assert_plan_ran(model, x)
    plain = _plain(model, x)
    count = len(model.graph.find_nodes(op="call_function", target=QUANTIZE))
    for exported in (
        torch.export.export(model, (x,)),
        torch.export.export(model, (x,), strict=True),
    ):
        found = exported.graph.find_nodes(op="call_function", target=QUANTIZE)
        assert len(found) == count
        assert (exported.module()(x) - plain).abs().max() < 1e-4
    traced = symbolic_trace(model)
    assert len(traced.graph.find_nodes(op="call_function", target=QUANTIZE)) == count
    graphs: list[GraphModule] = []

    def backend(graph: GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend, fullgraph=True)
    assert (compiled(x) - plain).abs().max() < 1e-4
    (graph,) = graphs
    assert len(graph.graph.find_nodes(op="call_function", target=QUANTIZE)) == count
    modes: list[Any] = []

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            modes.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        model(x)
    assert modes.count(QUANTIZE) == count


def test_optimize_compares_with_the_model_itself(model: GraphModule) -> None:
    x = _images()
    _assert_plan_ran(model, x)
    optimized = cpuaccel.optimize(model.eval(), (x,), time_budget=0)
    verdict = optimized.verdict
    assert verdict is not None
    assert verdict.runs == "plan"
    assert verdict.difference is not None
    assert torch.equal(optimized(x), model(x))
    assert verdict.difference.error > 0  # it was not compared with the model's own plan
