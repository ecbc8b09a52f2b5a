"""Which layers prepack packs, which it leaves and why, and shared weights."""

import copy
import gc
from typing import Any

import pytest
import torch
from _process import run_python
from quant._engine import needs_plugin
from torch import Tensor, nn

import cpuaccel
from cpuaccel import _native
from prepack._models import assert_close, assert_same, fallbacks, is_packed, mlp, packed

pytestmark = needs_plugin


class _Doubling(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2


def _linear(**change: Any) -> nn.Linear:
    return nn.Linear(64, 96, **change)


def _replaced() -> nn.Module:
    layer = _linear()
    layer.forward = lambda input: input  # type: ignore[method-assign]
    return layer


def _with_gradient() -> nn.Module:
    layer = _linear()
    layer(torch.ones(1, 64)).sum().backward()
    return layer


def _hooked() -> nn.Module:
    layer = _linear()
    layer.weight.register_hook(lambda g: g)
    return layer


def _expanded() -> nn.Module:
    layer = _linear()
    layer.weight = nn.Parameter(torch.randn(1, 64).expand(96, 64))
    return layer


def _sparse() -> nn.Module:
    layer = _linear()
    layer.weight = nn.Parameter(layer.weight.detach().to_sparse())
    return layer


NOT_PACKED: dict[str, tuple[Any, str]] = {
    "few rows": (lambda: nn.Linear(64, 3), "would take more than 1.1 times"),
    "empty": (lambda: nn.Linear(0, 96), "shape"),
    "expanded": (_expanded, "strides"),
    "double": (lambda: _linear(dtype=torch.float64), "float64"),
    "meta": (lambda: _linear(device="meta"), "meta"),
    "sparse": (_sparse, "sparse"),
    "a subclass": (lambda: _Doubling(64, 96), "a subclass of Linear"),
    "another forward": (_replaced, "its forward method was replaced"),
    "a parametrization": (
        lambda: torch.nn.utils.parametrizations.weight_norm(_linear()),
        "a subclass of Linear",
    ),
    "weight_norm": (lambda: torch.nn.utils.weight_norm(_linear()), "has no weight"),
    "a gradient": (_with_gradient, "has a gradient"),
    "hooks": (_hooked, "hooks"),
    "a convolution in space": (lambda: nn.Conv3d(64, 64, 3), "no packed form of this layer"),
    "shared memory": (lambda: _linear().share_memory(), "in shared memory"),
}


@pytest.mark.parametrize("name", NOT_PACKED)
@pytest.mark.filterwarnings("ignore")
def test_layers_that_are_not_packed(name: str) -> None:
    make, expected = NOT_PACKED[name]
    model = nn.Sequential(make(), _linear())
    kind, before = type(model[0]), model[0]
    cpuaccel.reset_stats()
    cpuaccel.prepack(model)
    assert model[0] is before
    assert type(model[0]) is kind
    assert is_packed(model[1])
    assert [expected in reason for reason in fallbacks()] == [True]
    row = next(row for row in cpuaccel.explain(model).rows if row.layer.startswith("0"))
    assert expected in row.note


@pytest.mark.parametrize("packed_within", [False, True])
def test_layers_made_in_inference_mode(packed_within: bool) -> None:
    with torch.inference_mode():
        layer, input = _linear(), torch.randn(3, 64)
        expected, state = layer(input), copy.deepcopy(layer.state_dict())
    held = layer.weight
    with torch.inference_mode(packed_within):
        assert not is_packed(cpuaccel.prepack(layer))
        assert layer.weight is held
        del held
        assert is_packed(cpuaccel.prepack(layer))
    with torch.inference_mode():
        assert_close(layer(input), expected)
        assert_same(layer.state_dict(), state)
        copy.deepcopy(layer)(input)
    with torch.no_grad():
        assert_close(layer(torch.ones(3, 64)), cpuaccel.unpack(layer)(torch.ones(3, 64)))
    assert layer.weight.is_inference()
    assert layer.weight.requires_grad
    assert torch.equal(layer.weight, state["weight"])


@pytest.mark.parametrize("argument", [None, 5, torch.ones(2), [nn.Linear(2, 2)], {}])
def test_arguments_that_are_no_modules(argument: Any) -> None:
    for function in (cpuaccel.prepack, cpuaccel.unpack):
        with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module, got"):
            function(argument)


def test_switched_off_packs_nothing() -> None:
    model = mlp()
    with cpuaccel.enabled(False):
        with pytest.warns(RuntimeWarning, match="nothing is packed, cpuaccel is off"):
            assert cpuaccel.prepack(model) is model
        assert not is_packed(model[0])
        assert cpuaccel.unpack(model) is model


def test_packing_twice_and_unpacking_twice() -> None:
    model = mlp()
    state = copy.deepcopy(model.state_dict())
    for _ in range(2):
        cpuaccel.prepack(model)
    weight = model[0]._packed_weights["weight"]
    assert cpuaccel.prepack(model)[0]._packed_weights["weight"] is weight
    for _ in range(2):
        cpuaccel.unpack(model)
    assert_same(model.state_dict(), state)


def test_a_model_that_is_a_layer_and_one_without_layers() -> None:
    assert is_packed(cpuaccel.prepack(_linear()))
    assert cpuaccel.prepack(nn.ReLU())(torch.ones(1)) == 1


def test_explain_names_them() -> None:
    ours = packed(mlp())
    rows = {row.layer: row for row in cpuaccel.explain(ours).rows}
    assert rows["0"].provider == "cpuaccel"
    assert rows["0"].problem == "f32 96x64"
    assert rows["0"].packed_bytes == 96 * 64 * 4
    assert "packed form" in rows["0"].reason
    assert is_packed(ours[0])


def test_bytes_are_counted() -> None:
    def held() -> int:
        return int(cpuaccel.stats()["memory"]["packed_weight_bytes"])

    gc.collect()
    before, one = held(), 2 * 96 * 64 * 4
    ours = packed(mlp())
    assert held() == before + one
    other = copy.deepcopy(ours)
    assert held() == before + 2 * one
    cpuaccel.unpack(other)
    assert held() == before + one
    del ours, other
    gc.collect()
    assert held() == before


def test_tied_layers_are_packed_once() -> None:
    a, b = _linear(), _linear()
    b.weight = a.weight
    model, input = nn.ModuleList([a, b]).eval(), torch.randn(3, 64)
    ours = packed(model)
    assert ours[0]._packed_weights["weight"] is ours[1]._packed_weights["weight"]
    assert_same(ours.state_dict(), model.state_dict())
    other = copy.deepcopy(ours)
    assert other[0]._packed_weights["weight"] is other[1]._packed_weights["weight"]
    ours[0].weight.data.mul_(2)
    assert ours[1].weight is ours[0].weight
    for index in (0, 1):
        assert_close(
            ours[index](input).detach(), (input @ (2 * a.weight).T + model[index].bias).detach()
        )
        assert_close(other[index](input).detach(), model[index](input).detach())
    loaded = torch.load(_file(other), weights_only=False)
    assert loaded[0].weight is loaded[1].weight
    assert is_packed(other[0])
    if not _native.load().has_fp16_arithmetic():  # otherwise fp16 falls back to torch
        other.half()
        assert other[0]._packed_weights["weight"] is other[1]._packed_weights["weight"]
    other.load_state_dict(model.state_dict())
    assert other[0]._packed_weights["weight"] is other[1]._packed_weights["weight"]
    assert cpuaccel.unpack(other)[0].weight is other[1].weight


def _file(model: nn.Module) -> Any:
    import io

    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return file


def test_a_layer_in_two_places() -> None:
    layer = _linear()
    model = nn.ModuleDict({"a": layer, "b": layer})
    cpuaccel.prepack(model)
    assert model["a"] is model["b"]
    assert is_packed(layer)
    assert list(model.state_dict()) == ["a.weight", "a.bias", "b.weight", "b.bias"]


def test_a_weight_tied_to_what_is_not_packed() -> None:
    model = nn.ModuleDict({"embedding": nn.Embedding(96, 64), "decoder": _linear(bias=False)})
    model["decoder"].weight = model["embedding"].weight
    cpuaccel.reset_stats()
    cpuaccel.prepack(model)
    assert not is_packed(model["decoder"])
    assert fallbacks() == {"its weight is shared with embedding.weight, which is not packed": 1}
    assert model["decoder"].weight is model["embedding"].weight


def test_layers_on_the_same_memory_are_not_packed() -> None:
    a, b = _linear(), _linear()
    b.weight.data = a.weight.data
    model = cpuaccel.prepack(nn.ModuleList([a, b]))
    assert not is_packed(model[0])
    a.weight.data.zero_()
    assert b.weight.abs().sum() == 0


def test_garbage_that_holds_weights_does_not_count() -> None:
    layer = _linear()
    cycle: list[Any] = [layer.weight]
    cycle.append(cycle)
    del cycle
    assert is_packed(cpuaccel.prepack(layer))


_MEMORY = """
import gc, torch, cpuaccel
from torch import nn

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))

cpuaccel.prepack(nn.Linear(64, 64))
before = resident()
shapes = [(768, 768)] * 8 + [(768, 3072), (3072, 768)] * 8
model = nn.ModuleList([nn.Linear(*shape) for shape in shapes])
plain = sum(p.nbytes for p in model.parameters())
alone = resident() - before
packed = cpuaccel.prepack(model)
gc.collect(), cpuaccel.memory.empty_cache()
both = resident() - before
held = sum(row.packed_bytes for row in cpuaccel.explain(model).rows)
assert 0.98 * plain < held <= 1.1 * plain, (plain, held)
assert alone > 0.9 * plain, (plain, alone)
assert both < 1.1 * plain + (8 << 20), (plain, alone, both)
"""


def test_memory_of_the_process() -> None:
    """The plain weights are freed."""
    run_python(_MEMORY)
