"""Which ops run as integers in quantized models: asserts partitions and results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import missing_front_end, needs_torch_ao
from torch import Tensor, nn

import cpuaccel
from compile import _blocks, _functions, _pt2e
from compile._compiled import (
    Net,
    libraries_are_exact,
    needs_onednn,
    randomized,
    skip_layers_of_libraries,
)
from compile._patterns import Partitions, Pattern, conv, each_of, image, of
from compile._pt2e import quantize
from compile._rewritten import check_steps
from cpuaccel.compile.capture import quantized_models
from cpuaccel.compile.common import report

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch.manual_seed(0)


def converted(model: nn.Module, *args: Tensor, mapping: Any = None) -> Any:
    """Return convert_fx's int8 form of a model."""
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    mapping = mapping or get_default_qconfig_mapping("x86")
    prepared = prepare_fx(randomized(model).eval(), mapping, args)
    for _ in range(3):
        prepared(*args)
    return convert_fx(prepared)


def kinds_of(model: nn.Module, *args: Tensor, mapping: Any = None) -> list[str]:
    """Run the graph of a quantized model, compare, and return the kinds of its ops."""
    with torch.no_grad():
        quantized = converted(model, *args, mapping=mapping)
        expected = quantized(*args)
        lowered = cpuaccel.quant.lower(quantized)
        report.clear()
        optimized = cpuaccel.optimize(lowered, args)
        found = optimized(*args)
    cpuaccel.reset_stats()
    assert found.shape == expected.shape
    # The 8-bit result may be rounded differently by one quantum.
    step = (expected.max() - expected.min()).item() / 100
    torch.testing.assert_close(found, expected, atol=step, rtol=0)
    (one,) = report.reports()
    return [kind for kinds in one.kinds() for kind in kinds]


def _image(channels: int = 16) -> Tensor:
    return torch.randn(image(channels))


LAYERS: list[tuple[str, Callable[[], nn.Module], tuple[int, ...], str]] = [
    ("conv1d", lambda: nn.Conv1d(8, 16, 3, stride=2, padding=1), (2, 8, 21), "q_conv"),
    ("conv2d", lambda: nn.Conv2d(16, 24, 3, padding=1), (2, 16, 9, 9), "q_conv"),
    ("conv3d", lambda: nn.Conv3d(4, 8, 3, padding=1), (1, 4, 5, 6, 7), "q_conv"),
    ("stem", lambda: nn.Conv2d(3, 16, 7, stride=2, padding=3), (1, 3, 33, 33), "q_conv"),
    ("dilated", lambda: nn.Conv2d(16, 16, 3, dilation=2), (1, 16, 11, 11), "q_conv"),
    ("grouped", lambda: nn.Conv2d(32, 32, 3, groups=4), (1, 32, 9, 9), "q_conv"),
    ("depthwise", lambda: nn.Conv2d(32, 32, 3, groups=32), (1, 32, 9, 9), "q_conv"),
    ("no bias", lambda: nn.Conv2d(16, 8, 1, bias=False), (1, 16, 7, 9), "q_conv"),
    ("transposed", lambda: nn.ConvTranspose2d(8, 16, 3, stride=2), (1, 8, 7, 7), "q_conv"),
    ("linear", lambda: nn.Linear(24, 40), (5, 24), "q_linear"),
    ("linear of three", lambda: nn.Linear(24, 40), (2, 5, 24), "q_linear"),
    ("linear without bias", lambda: nn.Linear(24, 40, bias=False), (5, 24), "q_linear"),
]


@needs_torch_ao
@pytest.mark.parametrize(
    ("make", "sizes", "kind"), [row[1:] for row in LAYERS], ids=[row[0] for row in LAYERS]
)
def test_a_layer_runs_as_integers(
    make: Callable[[], nn.Module], sizes: tuple[int, ...], kind: str
) -> None:
    from torch.ao.quantization import QConfigMapping, get_default_qconfig_mapping

    per_tensor = isinstance(layer := make(), nn.ConvTranspose2d)
    skip_layers_of_libraries(layer)
    mapping = get_default_qconfig_mapping("fbgemm" if per_tensor else "x86")
    if per_tensor:  # as the workflow requires for transposed layers
        weights = torch.ao.quantization.default_weight_observer
        activations = torch.ao.quantization.HistogramObserver.with_args(reduce_range=True)
        mapping = QConfigMapping().set_global(
            torch.ao.quantization.QConfig(activation=activations, weight=weights)
        )
    model = Net(lambda self, x: self.layer(x), layer=layer)
    found = kinds_of(model, torch.randn(sizes), mapping=mapping)
    assert found == ["quantize", kind, "dequantize"]


_PATTERNS = [*_functions.PATTERNS, *_blocks.PATTERNS]
# convert_fx gives their results all 256 values. In the engine of quantized models the next layer's
# sums are then wrong where those of libraries may be.
_OF_ALL_BYTES = (", sigmoid", ", tanh", ", hardsigmoid")
_ROUNDED_BY_TORCH = ("a sum before a pool that is torch's",)
"""Without the front end torch's kernels run the model, and round these by another quantum."""


@needs_torch_ao
@each_of(_PATTERNS, "lowered")
def test_patterns(pattern: Pattern, kinds: Partitions) -> None:
    if missing_front_end() and pattern.name in _ROUNDED_BY_TORCH:
        pytest.skip(missing_front_end())
    model, inputs = pattern.make(), pattern.inputs()
    skip_layers_of_libraries(model)
    with torch.no_grad():
        quantized = converted(model, *inputs)
        lowered = cpuaccel.quant.lower(quantized)
        if missing_front_end():  # torch's packed weights are channels_last, and so results would be
            lowered.to(memory_format=torch.contiguous_format)
        exact = libraries_are_exact or not pattern.name.endswith(_OF_ALL_BYTES)
        exact = exact and not missing_front_end()  # then torch's kernels round the model's results
        expected = (quantized if exact else lowered)(*inputs)
    assert of(check_steps(lowered, expected, *inputs)) == kinds


@needs_torch_ao
def test_a_weight_that_a_layer_reads_is_not_a_fallback() -> None:
    """A per-tensor weight, which is quantized by the same op as values."""
    model, x = Net(lambda self, x: self.layer(x), layer=nn.ConvTranspose2d(16, 8, 3)), _image()
    skip_layers_of_libraries(model)
    with torch.no_grad():
        quantized = converted(model, x)
        expected = quantized(x)
    assert check_steps(cpuaccel.quant.lower(quantized), expected, x).left == ()


@each_of(_PATTERNS, "pt2e")
def test_patterns_of_pt2e(pattern: Pattern, kinds: Partitions) -> None:
    inputs = pattern.inputs()
    with torch.no_grad():
        model = _pt2e.quantized(randomized(pattern.make()), *inputs)
        expected = model(*inputs)
    assert of(check_steps(model, expected, *inputs)) == kinds


@needs_torch_ao
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("op", [torch.add, torch.mul])
def test_an_operation_runs_with_the_layer_before_it(
    op: Callable[[Tensor, Tensor], Tensor], relu: bool
) -> None:
    model = Net(
        lambda self, x: (F.relu if relu else torch.clone)(op(self.b(self.a(x)), x)),
        a=conv(),
        b=conv(),
    )
    found = kinds_of(model, _image())
    assert found[:3] == ["quantize", "q_conv", "q_conv"]
    assert found[3:] in (["dequantize"], ["view", "dequantize"])


@needs_torch_ao
def test_an_operation_of_what_is_read_elsewhere_is_a_step() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        return torch.cat([a + b, a, b], 1)

    found = kinds_of(Net(forward, a=conv(), b=conv()), _image())
    assert sorted(found) == ["dequantize", "q_add", "q_concat", "q_conv", "q_conv", "quantize"]


POOLS: list[tuple[str, Callable[[Tensor], Tensor], str]] = [
    ("max", lambda x: F.max_pool2d(x, 3, 2, 1), "q_max_pool"),
    ("max, ceil", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), "q_max_pool"),
    ("max, dilated", lambda x: F.max_pool2d(x, 2, 2, dilation=2), "q_max_pool"),
    ("average", lambda x: F.avg_pool2d(x, 3, 2, 1), "q_avg_pool"),
    ("average, inside", lambda x: F.avg_pool2d(x, 3, 2, 1, False, False), "q_avg_pool"),
    ("adaptive", lambda x: F.adaptive_avg_pool2d(x, 5), "q_avg_pool"),
    ("global", lambda x: F.adaptive_avg_pool2d(x, 1), "q_avg_pool"),
    ("mean", lambda x: x.mean((2, 3), keepdim=True), "q_avg_pool"),
]


@needs_torch_ao
@pytest.mark.parametrize(
    ("pool", "kind"), [row[1:] for row in POOLS], ids=[row[0] for row in POOLS]
)
def test_pools_run_as_integers(pool: Callable[[Tensor], Tensor], kind: str) -> None:
    model = Net(lambda self, x: pool(self.conv(x)), conv=conv())
    assert kinds_of(model, _image()) == ["quantize", "q_conv", kind, "dequantize"]


@needs_torch_ao
def test_a_head_stays_integers() -> None:
    model = Net(
        lambda self, x: self.head(torch.flatten(self.conv(x).mean((2, 3)), 1)),
        conv=conv(),
        head=nn.Linear(16, 10),
    )
    found = kinds_of(model, _image())
    assert [kind for kind in found if kind != "view"] == [
        *("quantize", "q_conv", "q_avg_pool", "q_linear", "dequantize")
    ]


@needs_torch_ao
def test_concatenations_change_quantizers_on_the_way() -> None:
    model = Net(
        lambda self, x: F.relu(self.last(torch.cat([self.a(x), 3 * self.b(x), x], 1))),
        a=conv(),
        b=conv(),
        last=nn.Conv2d(48, 8, 1),
    )
    found = kinds_of(model, _image())
    assert found.count("q_concat") == 1
    assert found.count("q_conv") == 3
    assert set(found) <= {"quantize", "q_conv", "q_concat", "q_table", "dequantize"}


@needs_torch_ao
def test_shuffled_channels() -> None:
    model = Net(_blocks.shuffle, a=nn.Conv2d(16, 16, 1), b=nn.Conv2d(16, 16, 1))
    found = kinds_of(model, _image(32))
    assert found.count("q_shuffle") == 2
    assert "permute" not in found


@needs_torch_ao
@pytest.mark.parametrize("relu", [False, True])
def test_dynamically_quantized_linear(relu: bool) -> None:
    from torch.ao.quantization import QConfigMapping, default_dynamic_qconfig

    mapping = QConfigMapping().set_global(default_dynamic_qconfig)
    model = Net(
        lambda self, x: F.relu(self.linear(x)) if relu else self.linear(x),
        linear=nn.Linear(24, 40),
    )
    assert kinds_of(model, torch.randn(5, 24), mapping=mapping) == ["q_linear_dynamic"]


@needs_torch_ao
def test_floats_between_integers() -> None:
    model = Net(lambda self, x: self.b(torch.exp(self.a(x)).log1p()), a=conv(), b=conv())
    found = kinds_of(model, _image())
    assert found.count("q_conv") == 2
    assert "dequantize" in found


class PT2E(nn.Module):
    """A convolution as PT2E's workflow leaves it: per-channel weights, no quantizer after it."""

    def __init__(self, behind: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.behind = behind
        # No sum of two products of these exceeds 16 bits, because oneDNN may be without VNNI here
        # if an earlier test capped it. test_int8_exact tests the whole range.
        self.register_buffer("weight", torch.randint(-63, 64, (16, 16, 3, 3), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(16) / 500 + 2e-3)
        self.register_buffer("zero_points", torch.zeros(16, dtype=torch.int64))
        self.register_buffer("bias", torch.randn(16))

    def forward(self, x: Tensor) -> Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(
            self.weight, self.scales, self.zero_points, 0, -128, 127, torch.int8
        )
        x = quantize(x, 0.02, 128)
        return self.behind(F.conv2d(x, weight, self.bias, padding=1), x)


BEHIND: list[tuple[str, Callable[[Tensor, Tensor], Tensor], list[str]]] = [
    ("nothing", lambda y, x: y, ["quantize", "q_conv"]),
    ("relu", lambda y, x: quantize(F.relu(y), 0.05, 0), ["quantize", "q_conv", "dequantize"]),
    ("relu6", lambda y, x: quantize(F.relu6(y), 0.03, 0), ["quantize", "q_conv", "dequantize"]),
    ("add", lambda y, x: quantize(y + x, 0.05, 100), ["quantize", "q_conv", "dequantize"]),
    (
        "add, relu",
        lambda y, x: quantize(F.relu(x + y), 0.05, 0),
        ["quantize", "q_conv", "dequantize"],
    ),
    (
        "hardswish",
        lambda y, x: quantize(F.hardswish(y), 0.05, 10),
        ["quantize", "q_conv", "dequantize"],
    ),
    ("silu of floats", lambda y, x: F.silu(y), ["quantize", "q_conv"]),
    (
        "gate",
        lambda y, x: quantize(y * y.mean((2, 3), keepdim=True).sigmoid(), 0.05, 10),
        ["quantize", "q_conv", "AvgPool", "Sigmoid", "quantize", "dequantize"],
    ),
    (
        "no gate",
        lambda y, x: quantize(y * y.mean(2, keepdim=True).sigmoid(), 0.05, 10),
        ["quantize", "q_conv", "Sigmoid", "Multiply", "quantize", "dequantize"],
    ),
]


@pytest.mark.parametrize(
    ("behind", "kinds"), [row[1:] for row in BEHIND], ids=[row[0] for row in BEHIND]
)
def test_layers_of_pt2e(behind: Callable[[Tensor, Tensor], Tensor], kinds: list[str]) -> None:
    model = PT2E(behind).eval()
    x = _image()
    with torch.no_grad():
        expected = model(x)
        report.clear()
        torch._dynamo.reset()
        found = torch.compile(model, backend="cpuaccel", fullgraph=True)(x)
    torch.testing.assert_close(found, expected, atol=0.06, rtol=1e-4)
    (one,) = report.reports()
    assert [kind for part in one.kinds() for kind in part] == kinds


FUNCTIONS = {
    "relu": F.relu,
    "hardswish": F.hardswish,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("layer", ["conv", "depthwise", "conv3d", "linear"])
def test_functions_behind_layers(
    layer: str, function: Callable[[Tensor], Tensor], rounds: bool
) -> None:
    """In the layer's kernel or after it: one number in ten thousand may round differently."""
    make, sizes = {
        "conv": (lambda: nn.Conv2d(16, 40, 3), (2, 16, 9, 9)),
        "depthwise": (lambda: nn.Conv2d(16, 16, 3, groups=16), (2, 16, 9, 9)),
        "conv3d": (lambda: nn.Conv3d(4, 8, 2), (1, 4, 5, 6, 7)),
        "linear": (lambda: nn.Linear(24, 40), (50, 24)),
    }[layer]
    scale = 0.01

    def behind(y: Tensor) -> Tensor:
        return quantize(function(y), scale, 60) if rounds else function(y)

    model = _pt2e.quantized(
        Net(lambda self, x: behind(self.layer(x)), layer=make()), torch.randn(sizes)
    )
    x = torch.randn(sizes)
    with torch.no_grad():
        found, expected = cpuaccel.optimize(model, (x,))(x), model(x)
    if not rounds:
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        return
    error = (found - expected).abs()
    assert error.max() <= scale * 1.01
    assert int((error > 0.5 * scale).sum()) <= 1 + error.numel() // 10_000


def test_a_weight_that_changes_is_followed() -> None:
    model = PT2E(lambda y, x: y).eval()
    x = _image()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
        compiled(x)
        model.weight.neg_()
        torch.testing.assert_close(compiled(x), model(x), atol=1e-3, rtol=1e-4)
        model.scales.mul_(2)
        torch.testing.assert_close(compiled(x), model(x), atol=1e-3, rtol=1e-4)


def test_models_of_pt2e_are_compiled_as_they_are() -> None:
    """They are not copied, because their weights are tensors that may change."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randn(4, 8))

        def forward(self, x: Tensor) -> Tensor:
            q = torch.ops.quantized_decomposed
            codes = q.quantize_per_tensor(x, 0.02, 128, 0, 255, torch.uint8)
            x = q.dequantize_per_tensor(codes, 0.02, 128, 0, 255, torch.uint8)
            return F.linear(x, self.weight)

    x = torch.randn(2, 8)
    model = torch.fx.symbolic_trace(Layer().eval())
    assert not quantized_models.is_converted(model)
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel")
        compiled(x)
        model.weight.neg_()
        torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)


@needs_torch_ao
def test_any_batch_of_integers() -> None:
    model = Net(lambda self, x: F.relu(self.conv(x)), conv=conv())
    with torch.no_grad():
        quantized = converted(model, _image())
        lowered = cpuaccel.quant.lower(quantized)
        torch._dynamo.reset()
        compiled = torch.compile(lowered, backend="cpuaccel", fullgraph=True, dynamic=True)
        for batch, size in ((1, 12), (3, 17), (5, 8)):
            x = torch.randn(batch, 16, size, size)
            torch.testing.assert_close(compiled(x), quantized(x), atol=0.05, rtol=0)


def test_dynamic_quantizers_that_no_layer_takes() -> None:
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = torch.ops.quantized_decomposed
            scale, zero_point = q.choose_qparams(x, 0, 255, 1e-7, torch.uint8)
            codes = q.quantize_per_tensor(x, scale, zero_point, 0, 255, torch.uint8)
            return q.dequantize_per_tensor(codes, scale, zero_point, 0, 255, torch.uint8)

    model, x = Own(), torch.randn(5, 24)
    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(model, backend="cpuaccel", fullgraph=True)(x)
    torch.testing.assert_close(found, model(x), atol=0.03, rtol=0)


def test_an_average_is_rounded_once() -> None:
    """It is rounded to its own quantizer, which is finer than its input's."""
    model = PT2E(lambda y, x: quantize(quantize(y, 0.5, 128).mean((2, 3)), 0.02, 128)).eval()
    x = _image()
    with torch.no_grad():
        found = cpuaccel.optimize(model, (x,))(x)
        torch.testing.assert_close(found, model(x), atol=0.021, rtol=0)


def test_a_linear_layer_reads_rows_that_are_not_in_order() -> None:
    """Rows of a channels_last image: torch expands and copies them before the product."""
    model = Net(lambda self, x: self.b(self.a(x)), a=conv(), b=nn.Linear(12, 12))
    inputs = (torch.randn(2, 16, 12, 12),)
    with torch.no_grad():
        quantized = _pt2e.quantized(model.eval(), *inputs).to(memory_format=torch.channels_last)
        made = check_steps(quantized, quantized(*inputs), *inputs)
    assert of(made) == (("quantize",), ("q_conv",), ("q_linear",))
