"""load_gptq and load_awq: checkpoints that these tests write, beside their dequantized models."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from compile._compiled import needs_onednn
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from cpuaccel.quant import load_awq, load_gptq
from quant._checkpoints import (
    HIDDEN,
    IN,
    LAYERS,
    OUT,
    Layer,
    Net,
    all_tensors,
    awq_tensors,
    gptq_tensors,
    random_layer,
    write,
)
from quant._engine import counted, needs_plugin

pytestmark = needs_plugin

_SHAPES = {"first": (HIDDEN, IN), "blocks.0.second": (OUT, HIDDEN)}


def _layers(bits: int = 4, group: int = 32, act_order: bool = False) -> dict[str, Layer]:
    torch.manual_seed(3)
    return {name: random_layer(*_SHAPES[name], bits, group, act_order) for name in LAYERS}


def _dequantized(net: nn.Module, layers: dict[str, Layer]) -> nn.Module:
    result = copy.deepcopy(net)
    for name, layer in layers.items():
        result.get_submodule(name).weight.data = layer.weight()  # type: ignore[union-attr]
    return result


def _gptq(layers: dict[str, Layer], bits: int = 4, of: str = "gptq") -> dict[str, Tensor]:
    net = Net()
    return all_tensors(net, {name: gptq_tensors(each, bits, of) for name, each in layers.items()})


def _check(loaded: nn.Module, tensors: dict[str, Tensor], layers: dict[str, Layer]) -> None:
    source = Net()
    others = {name: value for name, value in tensors.items() if "q" not in name.split(".")[-1]}
    source.load_state_dict({k: v for k, v in others.items() if k in source.state_dict()}, False)
    expected = _dequantized(source, layers)
    for name, layer in layers.items():
        assert torch.equal(loaded.get_submodule(name).dequantize(), layer.weight())
    for rows in ((1,), (3, 7), (40,)):
        x = torch.randn(*rows, IN)
        with counted() as counts:
            result = loaded(x)
        assert counts.calls["packed_linear.cpuaccel"] == len(layers)
        assert_close(result, expected(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("act_order", [False, True], ids=["in order", "act-order"])
@pytest.mark.parametrize("of", ["gptq", "gptq_v2"])
@torch.no_grad()
def test_gptq(tmp_path: Path, bits: int, act_order: bool, of: str) -> None:
    layers = _layers(bits, act_order=act_order)
    tensors = _gptq(layers, bits, of)
    file = write(tmp_path / "model.safetensors", tensors)
    _check(load_gptq(Net(), file, checkpoint_format=of), tensors, layers)


@pytest.mark.parametrize("named", ["gptq", "gptq_v2"])
@torch.no_grad()
def test_symmetric_zero_points_of_the_other_format(tmp_path: Path, named: str) -> None:
    """vllm-project/vllm#38966: every weight would be off by its scale."""
    layers = _layers()
    for layer in layers.values():
        layer.zero_points[:] = 8
    other = {"gptq": "gptq_v2", "gptq_v2": "gptq"}[named]
    file = write(tmp_path / "model.safetensors", _gptq(layers, of=other))
    settings = tmp_path / "quantize_config.json"
    settings.write_text(json.dumps({"checkpoint_format": named, "sym": True}))
    weight = layers["first"].weight()
    assert torch.equal(load_gptq(Net(), file).first.dequantize(), weight)
    as_named = load_gptq(Net(), file, checkpoint_format=named).first.dequantize()
    assert not torch.equal(as_named, weight)
    settings.write_text(json.dumps({"checkpoint_format": named, "sym": False}))
    assert torch.equal(load_gptq(Net(), file).first.dequantize(), as_named)


@torch.no_grad()
def test_awq(tmp_path: Path) -> None:
    layers = _layers()
    tensors = all_tensors(Net(), {name: awq_tensors(each) for name, each in layers.items()})
    _check(load_awq(Net(), write(tmp_path / "model.safetensors", tensors)), tensors, layers)


@torch.no_grad()
def test_a_folder_with_an_index_and_a_config(tmp_path: Path) -> None:
    layers = _layers(group=HIDDEN // 3, act_order=True)
    tensors = _gptq(layers, of="gptq_v2")
    names = sorted(tensors)
    files = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for file, of_file in files.items():
        write(tmp_path / file, {name: tensors[name] for name in of_file})
    weight_map = {name: file for file, of_file in files.items() for name in of_file}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    settings = {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"}
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": settings}))
    _check(load_gptq(Net(), tmp_path), tensors, layers)


@torch.no_grad()
def test_a_model_on_the_meta_device_with_tied_parameters(tmp_path: Path) -> None:
    def tied() -> Net:
        net = Net()
        net.other = nn.Linear(OUT, 8)
        net.other.weight = net.head.weight
        return net

    layers = _layers()
    tensors = _gptq(layers)
    tensors["other.bias"] = torch.zeros(8)
    file = write(tmp_path / "model.safetensors", tensors)
    with torch.device("meta"):
        net = tied()
    loaded = load_gptq(net.bfloat16(), file)
    assert loaded.other.weight is loaded.head.weight
    assert loaded.head.weight.dtype == torch.bfloat16
    assert torch.equal(loaded.head.weight, tensors["head.weight"].bfloat16())
    assert loaded(torch.randn(2, IN).bfloat16()).dtype == torch.bfloat16


@torch.no_grad()
def test_the_file_may_change_afterwards(tmp_path: Path) -> None:
    tensors = _gptq(_layers())
    file = write(tmp_path / "model.safetensors", tensors)
    with torch.device("meta"):
        net = Net()
    loaded = load_gptq(net, file)
    with file.open("r+b") as opened:
        opened.write(b"\xff" * file.stat().st_size)
    for name in ("first.bias", "norm.weight", "head.weight", "shift"):
        assert torch.equal(loaded.state_dict()[name], tensors[name])


@torch.no_grad()
def test_the_weight_is_held_once(tmp_path: Path) -> None:
    file = write(tmp_path / "model.safetensors", _gptq(_layers()))
    loaded = load_gptq(Net(), file)
    held = sum(each.nbytes for each in loaded.first.state_dict().values())
    weights = IN * HIDDEN
    assert held <= weights // 2 + weights // 32 * 3 + HIDDEN * 8 + 64


@needs_onednn
@torch.no_grad()
def test_optimized_saved_and_prepacked(tmp_path: Path) -> None:
    file = write(tmp_path / "model.safetensors", _gptq(_layers(act_order=True)))
    loaded, x = load_gptq(Net(), file).eval(), torch.randn(5, IN)
    expected = loaded(x)
    optimized = cpuaccel.optimize(loaded, (x,), time_budget=0)
    assert_close(optimized(x), expected, rtol=1e-4, atol=1e-4)
    cpuaccel.save(optimized, tmp_path / "saved.pt2")
    for model in (cpuaccel.load(tmp_path / "saved.pt2"), cpuaccel.prepack(copy.deepcopy(loaded))):
        with counted() as counts:
            result = model(x)
        assert counts.calls["packed_linear.cpuaccel"] >= len(LAYERS)
        assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "backend", ["inductor", "aot_eager", pytest.param("cpuaccel", marks=needs_onednn)]
)
@torch.no_grad()
def test_compiled_exported_and_copied(tmp_path: Path, backend: str) -> None:
    file = write(tmp_path / "model.safetensors", _gptq(_layers(act_order=True)))
    loaded, x = load_gptq(Net(), file).eval(), torch.randn(5, IN)
    expected = loaded(x)
    assert_close(torch.compile(loaded, backend=backend, fullgraph=True)(x), expected)
    program = torch.export.export(loaded, (x,))
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count("cpuaccel.packed_intx_linear.default") == len(LAYERS)
    assert_close(program.module()(x), expected)
    assert torch.equal(copy.deepcopy(loaded)(x), expected)
    other = load_gptq(Net(), write(tmp_path / "other.safetensors", _gptq(_layers(act_order=True))))
    other.load_state_dict(loaded.state_dict())
    assert torch.equal(other(x), expected)


def test_gradients_reach_the_input(tmp_path: Path) -> None:
    layers = _layers(act_order=True)
    loaded = load_gptq(Net(), write(tmp_path / "model.safetensors", _gptq(layers)))
    x = torch.randn(4, IN, requires_grad=True)
    loaded.first(x).sum().backward()
    assert_close(x.grad, layers["first"].weight().sum(0).expand(4, IN), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("int8_activations", [False, True])
def test_explained(tmp_path: Path, int8_activations: bool) -> None:
    file = write(tmp_path / "model.safetensors", _gptq(_layers()))
    rows = cpuaccel.explain(load_gptq(Net(), file, int8_activations=int8_activations)).rows
    row = next(row for row in rows if row.layer == "first")
    assert (row.op, row.provider) == ("cpuaccel::packed_intx_linear", "cpuaccel")
    assert row.kernel == ("qgemm_wq" if int8_activations else "gemm_wq")
    assert row.problem == f"w4 {HIDDEN}x{IN} g32"
    assert row.packed_bytes > HIDDEN * IN // 2


@torch.no_grad()
def test_int8_activations(tmp_path: Path) -> None:
    layers = _layers()
    file = write(tmp_path / "model.safetensors", _gptq(layers))
    loaded, x = load_gptq(Net(), file, int8_activations=True), torch.randn(6, IN)
    with counted() as counts:
        result = loaded.first(x)
    assert counts.calls["linear_dynamic.cpuaccel"] == 1
    exact = nn.functional.linear(x, layers["first"].weight(), loaded.first.bias)
    assert float((result - exact).abs().max()) < 0.02 * float(exact.abs().max())


_Tensors = dict[str, Tensor]


def _without(name: str) -> Callable[[_Tensors], object]:
    return lambda tensors: tensors.pop(name)


def _changed(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[_Tensors], object]:
    return lambda tensors: tensors.update({name: change(tensors[name])})


def _swapped(tensors: _Tensors) -> None:
    first, second = (f"{name}.qweight" for name in LAYERS)
    tensors[first], tensors[second] = tensors[second], tensors[first]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("first.scales"), "no tensor first.scales"),
        (_without("first.qzeros"), "no tensor first.qzeros"),
        (_without("first.bias"), "no tensor first.bias"),
        (_without("norm.weight"), "no tensor norm.weight"),
        (_without("shift"), "no tensor shift"),
        (_swapped, r"blocks.0.second.qweight is torch.int32 of shape \(8, 96\): expected .*64\)"),
        (_changed("first.scales", lambda t: t[:, :5]), r"first.scales is .* \(2, 5\)"),
        (_changed("first.scales", lambda t: t.int()), "first.scales is torch.int32"),
        (_changed("first.scales", lambda t: torch.cat([t, t[:1]])), "3 groups, which do not"),
        (_changed("first.qzeros", lambda t: t[:, :5]), r"first.qzeros has shape \(2, 5\)"),
        (_changed("first.qzeros", lambda t: t[:1]), r"first.qzeros is .* \(1, 12\)"),
        (_changed("first.qweight", lambda t: t.long()), "first.qweight is torch.int64"),
        (_changed("first.g_idx", lambda t: t + 1), "first.g_idx: expected 2 groups of 32"),
        (_changed("first.g_idx", lambda t: t * 0), "first.g_idx: expected 2 groups of 32"),
        (_changed("first.bias", lambda t: t[:3]), r"first.bias has shape \(3,\)"),
        (_changed("head.weight", lambda t: t[:3]), r"head.weight has shape \(3, 64\)"),
        (lambda tensors: tensors.update(more=torch.ones(1)), "the model has no more"),
        (
            lambda tensors: tensors.update({"norm.qweight": tensors["first.qweight"]}),
            "norm is a LayerNorm",
        ),
        (
            lambda tensors: tensors.update({"third.qweight": tensors["first.qweight"]}),
            "no module third",
        ),
    ],
)
def test_damaged_checkpoints(
    tmp_path: Path, damage: Callable[[_Tensors], object], message: str
) -> None:
    tensors = _gptq(_layers())
    damage(tensors)
    file = write(tmp_path / "model.safetensors", tensors)
    with pytest.raises(ValueError, match=message):
        load_gptq(Net(), file)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_gptq(Net(), tmp_path / "none")
    with pytest.raises(ValueError, match="expected a safetensors file"):
        load_awq(Net(), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0garbage!")
    with pytest.raises(ValueError, match="damaged"):
        load_gptq(Net(), tmp_path)
    write(tmp_path / "model.safetensors", {"weight": torch.ones(3)})
    with pytest.raises(ValueError, match="no quantized layer"):
        load_gptq(Net(), tmp_path)
    for settings, message in (
        ({"quant_method": "awq"}, "expected 'gptq'"),
        ({"checkpoint_format": "marlin"}, "expected gptq or gptq_v2"),
    ):
        (tmp_path / "quantize_config.json").write_text(json.dumps(settings))
        with pytest.raises(ValueError, match=message):
            load_gptq(Net(), tmp_path)
    (tmp_path / "quantize_config.json").write_text(json.dumps({"version": "gemv"}))
    with pytest.raises(ValueError, match="AWQ version is 'gemv'"):
        load_awq(Net(), tmp_path)
    with pytest.raises(TypeError, match="Module"):
        load_gptq(3, tmp_path)  # type: ignore[arg-type]


def test_buffers_left_on_the_meta_device(tmp_path: Path) -> None:
    file = write(tmp_path / "model.safetensors", _gptq(_layers()))
    with torch.device("meta"):
        net = Net()
        net.register_buffer("frequencies", torch.ones(3), persistent=False)
    with pytest.raises(ValueError, match="no value for frequencies"):
        load_gptq(net, file)
