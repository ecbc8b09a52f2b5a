"""Changes of a module are noticed: every object that replaces another."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from quant._engine import needs_torch_ao
from torch import nn

from cpuaccel import _native
from cpuaccel.compile.capture.module_attributes import AttributeSnapshot, DictSnapshot


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.register_buffer("shift", torch.zeros(1))
        self.scale = 1000.5
        self.flags = {"relu": True}


def _rename(net: Any) -> None:
    net.gain = vars(net).pop("scale")


CHANGES: dict[str, Callable[[Any], Any]] = {
    "parameter": lambda net: setattr(net.layers[0], "weight", nn.Parameter(torch.ones(2, 2))),
    "none in its place": lambda net: net.layers[0].register_parameter("bias", None),
    "buffer that is equal": lambda net: setattr(net, "shift", torch.zeros(1)),
    "another buffer": lambda net: net.register_buffer("more", torch.zeros(1)),
    "layer": lambda net: net.layers.__setitem__(1, nn.ReLU()),
    "one layer more": lambda net: net.layers.append(nn.ReLU()),
    "one layer less": lambda net: net.layers.pop(1),
    "number that is equal": lambda net: setattr(net, "scale", float("1000.5")),
    "another attribute": lambda net: setattr(net, "more", None),
    "attribute that is gone": lambda net: delattr(net, "scale"),
    "renamed": _rename,
    "mode of a layer": lambda net: net.layers[1].train(not net.training),
    "number of a layer of torch's": lambda net: setattr(net.layers[1], "inplace", True),
    "hook": lambda net: net.layers[0].register_forward_hook(print),
    "hook in front": lambda net: net.layers[0].register_forward_pre_hook(print),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(change: Callable[[Any], Any]) -> None:
    net = _Net()
    attributes = AttributeSnapshot(net)
    assert attributes.is_unchanged()
    change(net)
    assert not attributes.is_unchanged()


def test_another_order_is_no_change() -> None:
    net = _Net()
    attributes = AttributeSnapshot(net)
    net.scale = vars(net).pop("scale")
    assert not attributes._tables.is_unchanged()
    assert attributes.is_unchanged()


def test_contents_of_tensors_and_dicts_are_not_compared() -> None:
    net = _Net()
    attributes = AttributeSnapshot(net)
    with torch.no_grad():
        net.layers[0].weight.add_(1)
    net.flags["relu"] = False
    assert attributes.is_unchanged()


def test_numbers_are_read() -> None:
    net = _Net()
    attributes = AttributeSnapshot(net, [net.shift])
    assert attributes.is_unchanged()
    net.shift.add_(1)
    assert not attributes.is_unchanged()


def test_numbers_written_without_a_trace_are_found_in_64_looks() -> None:
    net, numbers = _Net(), [torch.tensor(float(each)) for each in range(70)]
    attributes = AttributeSnapshot(net, numbers)
    assert all(attributes.is_unchanged() for _ in range(100))
    numbers[37].data.fill_(0.5)
    assert not all(attributes.is_unchanged() for _ in range(64))


def test_mutations_of_inference_tensors_are_found_by_value() -> None:
    with torch.inference_mode():
        number = torch.ones(1)
    attributes = AttributeSnapshot(_Net(), [number])
    assert attributes.is_unchanged()
    with torch.inference_mode():
        number.add_(1)
    assert not all(attributes.is_unchanged() for _ in range(64))


def test_numbers_are_tensors() -> None:
    wrong: Any = [torch.ones(1), 1.0]
    with pytest.raises(TypeError, match="tensors: expected tensors, got <class 'float'>"):
        AttributeSnapshot(_Net(), wrong)


def test_a_value_that_moves_to_the_next_dict_is_seen() -> None:
    value = object()
    first: dict[str, object] = {"a": value}
    second: dict[str, object] = {}
    tables = DictSnapshot([first, second, first])
    assert tables.is_unchanged()
    second["a"] = first.pop("a")
    assert not tables.is_unchanged()


def test_restored_attributes_are_unchanged() -> None:
    value = object()
    table: dict[str, object] = {"a": value}
    tables = DictSnapshot([table])
    assert tables.is_unchanged()
    table["a"] = object()
    assert not tables.is_unchanged()
    table["a"] = value
    assert tables.is_unchanged()
    assert tables.is_unchanged()
    del table["a"]
    assert not tables.is_unchanged()


def _set(instance: Any, value: object) -> None:
    instance.a = value


_CHANGES: dict[str, Callable[[Any, object], object]] = {
    "set": _set,
    "set past __setattr__": lambda instance, value: object.__setattr__(instance, "a", value),
    "set in the dictionary": lambda instance, value: vars(instance).update(a=value),
    "add": lambda instance, value: setattr(instance, "new", value),
    "delete": lambda instance, _: delattr(instance, "b"),
    "clear": lambda instance, _: vars(instance).clear(),
}


_ONCE = ("delete", "clear")
_TIMES = [(name, n) for name in _CHANGES for n in (1, 5000) if n == 1 or name not in _ONCE]


@pytest.mark.parametrize(("change", "times"), _TIMES)
@pytest.mark.parametrize("count", [0, 50], ids=["few", "many"])
def test_each_way_to_change_an_attribute_is_seen(change: str, count: int, times: int) -> None:
    """Python keeps few attributes inside of an object, and specializes code that runs often."""

    class Owner:
        pass

    owner: Any = Owner()
    for number in range(count):
        setattr(owner, f"attribute_{number}", number)
    owner.a, owner.b = object(), object()
    before = list(vars(owner).items())
    tables = DictSnapshot([vars(owner)])
    assert tables.is_unchanged()
    assert tables.is_unchanged()
    assert list(vars(owner).items()) == before
    for _ in range(times):
        _CHANGES[change](owner, object())
    assert not tables.is_unchanged()


def test_tables_are_dictionaries() -> None:
    wrong: Any = [()]
    with pytest.raises(TypeError, match="expected tables to be dictionaries"):
        _native.load().same_objects(tuple(wrong), (), None, bytearray(8))


def test_each_table_has_a_version() -> None:
    with pytest.raises(ValueError, match="versions: expected 8 bytes, got 7"):
        _native.load().same_objects(({},), (), None, bytearray(7))


def test_changed_attributes_are_named_and_restored() -> None:
    model: Any = nn.Sequential(OrderedDict(norm=nn.BatchNorm2d(8), linear=nn.Linear(8, 8)))
    attributes = AttributeSnapshot(model)
    model.norm.eps, model.more = 0.5, 1
    del model.linear.bias
    assert set(attributes.changes()) == {"norm.eps", "more", "linear.bias"}
    attributes.restore()
    assert attributes.is_unchanged()
    assert model.norm.eps == 1e-5
    assert not hasattr(model, "more")
    assert model.linear.bias is not None


def _traced() -> Any:
    return torch.fx.symbolic_trace(_Net().layers)


def test_the_same_code_generated_again_is_no_change() -> None:
    traced = _traced()
    attributes = AttributeSnapshot(traced)
    traced.recompile()
    pickle.dumps(traced)
    assert not attributes._tables.is_unchanged()
    assert attributes.is_unchanged()
    assert attributes._tables.is_unchanged()


def test_other_code_is_a_change() -> None:
    traced = _traced()
    attributes = AttributeSnapshot(traced)
    traced.graph.find_nodes(op="call_module")[0].target = "1"
    traced.recompile()
    assert not attributes.is_unchanged()


def test_the_same_code_that_calls_another_function_is_a_change() -> None:
    def made(by: float) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            return x * by

        return function

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    call = graph.call_function(made(2.0), (x,))
    graph.output(call)
    module = torch.fx.GraphModule(nn.Module(), graph)
    attributes = AttributeSnapshot(module)
    before = module.code
    call.target = made(3.0)
    module.recompile()
    assert module.code == before
    assert not attributes.is_unchanged()


@needs_torch_ao
def test_the_mode_of_quantized_layers_is_no_change() -> None:
    import torch.ao.nn.quantized as nnq

    model = nn.Sequential(nnq.Conv2d(1, 1, 1), nnq.Linear(1, 1), nn.Dropout()).eval()
    attributes = AttributeSnapshot(model)
    model[0].train()
    model[1].train()
    assert attributes.is_unchanged()
    model[2].train()
    assert attributes.changes() == ["2.training"]
