"""`cpuaccel.explain` names every layer of every kind of model with the kernel that runs it."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
from _settings import setting
from quant._engine import needs_front_end
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping, quantize_dynamic
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import cpuaccel
from cpuaccel._explain.explanation import Explanation, Row

PROVIDERS = {"cpuaccel", "onednn", "fbgemm", "intree"}


@pytest.fixture(autouse=True)
def _x86_engine_on():
    torch.backends.quantized.engine = "x86"
    with cpuaccel.enabled():
        yield


class Net(nn.Module):
    """Layers that are quantized, layers that stay float, and a functional linear."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.bn = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.act = nn.SiLU()
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(16, 8)
        self.weight = nn.Parameter(torch.randn(4, 8))

    # Without annotations, because torch cannot script what FX makes of an annotated forward.
    def forward(self, x):  # type: ignore[no-untyped-def]
        x = torch.relu(self.bn(self.conv(x)))
        x = torch.relu(x + self.conv2(x))
        x = self.pool(self.act(x)).mean((2, 3))
        return nn.functional.linear(self.fc(x), self.weight)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 8, 2)
        self.gru = nn.GRU(8, 8)
        self.cell = nn.LSTMCell(8, 6)
        self.fc = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, _ = self.lstm(x)
        x, _ = self.gru(x)
        hidden, _ = self.cell(x[0])
        return self.fc(hidden)


def _image() -> torch.Tensor:
    return torch.randn(2, 3, 16, 16)


def _sequence() -> torch.Tensor:
    return torch.randn(3, 2, 4)


@pytest.fixture
def net() -> nn.Module:
    prepared = prepare_fx(Net().eval(), get_default_qconfig_mapping("x86"), (_image(),))
    prepared(_image())
    converted = convert_fx(prepared)
    converted(_image())  # each layer's provider is chosen at its first call
    return converted


@pytest.fixture
def recurrent() -> nn.Module:
    kinds = {nn.LSTM, nn.GRU, nn.LSTMCell, nn.Linear}
    converted = quantize_dynamic(Recurrent().eval(), kinds)
    converted(_sequence())
    return converted


def _rows(model: nn.Module) -> dict[str, Row]:
    rows = cpuaccel.explain(model).rows
    by_layer = {row.layer: row for row in rows}
    assert len(by_layer) == len(rows)
    return by_layer


def _reloaded(model: nn.Module) -> nn.Module:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(model), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


SCRIPTED: dict[str, Callable[[nn.Module, torch.Tensor], nn.Module]] = {
    "scripted": lambda model, _: torch.jit.script(model),
    "traced": lambda model, x: torch.jit.trace(model, x, check_trace=False),
    "frozen": lambda model, _: torch.jit.freeze(torch.jit.script(model).eval()),
    "loaded": lambda model, _: _reloaded(model),
    "inside": lambda model, _: nn.Sequential(torch.jit.script(model)),
}


@needs_front_end
def test_fx_model(net: nn.Module) -> None:
    rows = _rows(net)
    ops = {layer: row.op for layer, row in rows.items()}
    assert ops["conv"].startswith("quantized::conv2d")
    assert ops["conv2"].startswith("quantized::conv2d")
    assert ops["fc"] == "quantized::linear"
    assert ops["_packed_weight_0"] == "quantized::linear"
    for layer in ("conv", "conv2", "fc", "_packed_weight_0"):
        assert rows[layer].provider in PROVIDERS
        assert rows[layer].reason
        assert rows[layer].problem
    assert ops["add_relu"] == "quantized::add_relu"
    assert "float" in rows["act"].reason
    assert rows["act"].provider == "torch"
    for layer in ("add_relu", "pool", "mean"):
        assert rows[layer].provider == "cpuaccel", rows[layer]
        assert "quint8" in rows[layer].reason


@needs_front_end
def test_quint8_kernels_count_only_in_quantized_models(net: nn.Module) -> None:
    assert _rows(Net())["pool"].provider == "cpuaccel or torch"
    with cpuaccel.enabled(False):
        assert _rows(net)["pool"].provider == "torch"


@needs_front_end
@pytest.mark.parametrize("provider", ["fbgemm", "onednn", "cpuaccel"])
def test_kernels_that_are_not_exact_for_all_sources_are_noted(provider: str) -> None:
    with setting("max_isa", "avx2"), setting("provider", provider):
        prepared = prepare_fx(Net().eval(), get_default_qconfig_mapping("x86"), (_image(),))
        converted = convert_fx(prepared)
        converted(_image())
        row = _rows(converted)["conv2"]
        assert row.provider == provider
        assert ("exact kernel" in row.note) == (provider != "cpuaccel")


@needs_front_end
def test_calls_are_counted_by_layer(net: nn.Module) -> None:
    before = _rows(net)["conv2"].calls
    net(_image())
    assert _rows(net)["conv2"].calls == before + 1


@needs_front_end
def test_recurrent_layers(recurrent: nn.Module) -> None:
    rows = _rows(recurrent)
    expected = {
        **{f"lstm[{i}].{part}": "aten::quantized_lstm" for i in (0, 1) for part in ("ih", "hh")},
        **{f"gru[0].{part}": "aten::quantized_gru" for part in ("ih", "hh")},
        **{f"cell.{part}": "quantized::quantized_lstm_cell_dynamic" for part in ("ih", "hh")},
        "fc": "quantized::linear_dynamic",
    }
    assert {layer: row.op for layer, row in rows.items()} == expected
    assert {row.provider for row in rows.values()} <= PROVIDERS


@pytest.mark.parametrize("make", SCRIPTED.values(), ids=SCRIPTED.keys())
def test_torchscript_names_the_same_layers(
    net: nn.Module, make: Callable[[nn.Module, torch.Tensor], nn.Module]
) -> None:
    prefix = "0." if make is SCRIPTED["inside"] else ""
    eager = {f"{prefix}{row.layer}": row for row in _rows(net).values() if row.problem}
    made = make(net, _image())
    made(_image())
    found = _rows(made)
    for layer, row in eager.items():
        assert (found[layer].op, found[layer].provider) == (row.op, row.provider)
    assert "quantized::add_relu" in {row.op for row in found.values()}
    assert any(row.op == "aten::silu" and "float" in row.reason for row in found.values())


@pytest.mark.parametrize("make", SCRIPTED.values(), ids=SCRIPTED.keys())
def test_torchscript_names_recurrent_layers(
    recurrent: nn.Module, make: Callable[[nn.Module, torch.Tensor], nn.Module]
) -> None:
    prefix = "0." if make is SCRIPTED["inside"] else ""
    eager = {f"{prefix}{row.layer}": row.op for row in _rows(recurrent).values()}
    rows = _rows(make(recurrent, _sequence()))
    assert {layer: rows[layer].op for layer in eager} == eager


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_dynamic_linear_says_its_weights(dtype: torch.dtype) -> None:
    model = quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear}, dtype=dtype)
    op = "quantized::linear_dynamic" + ("_fp16" if dtype == torch.float16 else "")
    assert _rows(model)["0"].op == op
    assert _rows(torch.jit.script(model))["0"].op == op


def test_copied_model_keeps_the_engine(net: nn.Module) -> None:
    copied = copy.deepcopy(net)
    copied(_image())
    assert _rows(copied)["conv"].provider == _rows(net)["conv"].provider


@pytest.mark.parametrize(
    ("module", "op"),
    [
        (nn.Conv3d(3, 4, 3), "nn.Conv3d"),
        (nn.LSTM(3, 4), "nn.LSTM"),
        (nn.Hardswish(), "nn.Hardswish"),
        (nn.Embedding(3, 4), "nn.Embedding"),
        (torch.ao.nn.quantized.Softmax(), "nn.quantized.Softmax"),
    ],
)
def test_layers_on_torchs_kernels_are_named(module: nn.Module, op: str) -> None:
    (row,) = _rows(nn.Sequential(module)).values()
    assert (row.layer, row.op, row.provider) == ("0", op, "torch")
    assert row.reason


@pytest.mark.parametrize("layer", [nn.Linear(3, 4), nn.Conv1d(3, 4, 3), nn.Conv2d(3, 4, 3)])
def test_float_layers_are_chosen_by_size(layer: nn.Module) -> None:
    model = nn.Sequential(layer)
    (row,) = _rows(model).values()
    assert row.provider == "cpuaccel or torch"
    assert "stats()" in row.reason
    with cpuaccel.enabled(False):
        (row,) = _rows(model).values()
    assert row.provider == "torch"


@pytest.mark.parametrize("module", [nn.SiLU(), nn.MaxPool2d(2)])
def test_float_ops_with_a_kernel_are_chosen_per_call(module: nn.Module) -> None:
    (row,) = _rows(nn.Sequential(module)).values()
    assert row.provider == "cpuaccel or torch"
    assert "stats()" in row.reason


@needs_front_end
@pytest.mark.parametrize(
    "module", [torch.ao.nn.quantized.ReLU6(), torch.ao.nn.quantized.Hardswish(1.0, 0)]
)
def test_layers_on_cpuaccels_kernels_are_named(module: nn.Module) -> None:
    (row,) = _rows(nn.Sequential(module)).values()
    assert (row.op, row.provider) == (f"nn.quantized.{type(module).__name__}", "cpuaccel")


def test_layers_packed_while_off_say_so() -> None:
    with cpuaccel.enabled(False):
        model = quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
        assert any("off" in line for line in cpuaccel.explain(model).footer)
    row = _rows(model)["0"]
    assert row.provider == "torch"
    assert row.reason


def test_shared_layer_is_named_once() -> None:
    layer = nn.Linear(2, 2)
    assert list(_rows(nn.Sequential(layer, layer))) == ["0"]


class _Odd(nn.Module):
    """A model with unusual attributes, which raises when they are inspected."""

    def __init__(self) -> None:
        super().__init__()
        self.things = [object(), self, {"a": 1}, 3, None]
        self.script_class = torch.classes
        self.lazy = nn.LazyLinear(3)
        self.inner = nn.Linear(2, 2)

    def __getattr__(self, name: str) -> object:
        if name == "_packed_params":
            raise RuntimeError("do not look")
        return super().__getattr__(name)


def test_odd_models_do_not_fail() -> None:
    assert "inner" in _rows(_Odd())
    empty = cpuaccel.explain(nn.Module())
    assert empty.rows == []
    assert "knows no layer" in str(empty)
    assert cpuaccel.explain(torch.jit.script(nn.Identity())).rows == []


def test_script_without_forward_is_read_by_its_children() -> None:
    class Methods(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        @torch.jit.export
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x)

    assert "fc" in _rows(torch.jit.script(Methods()))


@pytest.mark.parametrize("model", [None, "model.pt", torch.ones(2), nn.Linear])
def test_other_arguments_raise(model: object) -> None:
    with pytest.raises(TypeError, match=r"model: expected a torch\.nn\.Module, got"):
        cpuaccel.explain(model)


def test_text_is_aligned_and_has_the_counters(net: nn.Module) -> None:
    net(_image())
    text = str(cpuaccel.explain(net))
    header, rule, *lines = text.splitlines()
    start = header.index("provider")
    assert rule[start] == "-"
    assert all(line[start - 1] == " " != line[start] for line in lines[: lines.index("")])
    assert "Calls in this process: " in text
    assert "Fallbacks to torch: " in text


def test_columns_without_content_are_left_out() -> None:
    assert Explanation([Row("a", "b", "c")]).cells() == (
        ("layer", "op", "provider"),
        [("a", "b", "c")],
    )


def test_html_is_escaped() -> None:
    html = Explanation([Row("<script>", "b", "c")], ["a < b"])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &lt; b" in html


def test_stats_have_the_documented_keys() -> None:
    keys = {"calls", "prepacks", "fallbacks", "primitive_cache", "memory"}
    assert keys <= set(cpuaccel.stats())
    assert {"capacity", "size", "hits", "misses", "evictions", "bytes"} <= set(
        cpuaccel.stats()["primitive_cache"]
    )


def test_counters_go_back_to_zero(net: nn.Module) -> None:
    net(_image())
    assert sum(cpuaccel.stats()["calls"].values()) > 0
    cpuaccel.reset_stats()
    assert sum(cpuaccel.stats()["calls"].values()) == 0


def test_caches_are_emptied(net: nn.Module) -> None:
    net(_image())
    cpuaccel.clear_caches()
    assert cpuaccel.stats()["primitive_cache"]["size"] == 0
    net(_image())
