"""What is noticed of a module that changes: every object that another takes the place of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cpuaccel import _native
from cpuaccel.graph.attributes import Attributes, Tables


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
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(change: Callable[[Any], Any]) -> None:
    net = _Net()
    attributes = Attributes(net)
    assert attributes.are_as_before()
    change(net)
    assert not attributes.are_as_before()


def test_another_order_is_no_change() -> None:
    net = _Net()
    attributes = Attributes(net)
    net.scale = vars(net).pop("scale")
    assert not attributes._tables.are_as_before()
    assert attributes.are_as_before()


def test_what_is_written_in_place_is_for_others() -> None:
    net = _Net()
    attributes = Attributes(net)
    with torch.no_grad():
        net.layers[0].weight.add_(1)
    net.flags["relu"] = False
    assert attributes.are_as_before()


def test_of_named_attributes_others_do_not_count() -> None:
    net = _Net()
    attributes = Attributes(net, "scale")
    net.more = 1
    net.shift = torch.ones(1)
    assert attributes.are_as_before()
    net.scale = 2.0
    assert not attributes.are_as_before()


def test_what_moves_to_the_next_table_is_seen() -> None:
    value = object()
    first: dict[str, object] = {"a": value}
    second: dict[str, object] = {}
    tables = Tables([first, second, first])
    assert tables.are_as_before()
    second["a"] = first.pop("a")
    assert not tables.are_as_before()


def test_what_is_put_back_is_as_before() -> None:
    value = object()
    table: dict[str, object] = {"a": value}
    tables = Tables([table])
    assert tables.are_as_before()
    table["a"] = object()
    assert not tables.are_as_before()
    table["a"] = value
    assert tables.are_as_before()
    assert tables.are_as_before()
    del table["a"]
    assert not tables.are_as_before()


def test_tables_are_dictionaries() -> None:
    wrong: Any = [()]
    with pytest.raises(TypeError, match="expected tables to be dictionaries"):
        _native.load().same_objects(tuple(wrong), (), None, bytearray(8))


def test_each_table_has_a_version() -> None:
    with pytest.raises(ValueError, match="versions: expected 8 bytes, got 7"):
        _native.load().same_objects(({},), (), None, bytearray(7))
