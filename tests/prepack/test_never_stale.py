"""A packed layer never uses old weights: each way of changing them."""

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.utils.prune
from quant._engine import needs_plugin
from torch import Tensor, nn

import cpuaccel
from cpuaccel._prepack import matrix
from prepack._models import assert_close, fallbacks, is_packed, mlp, packed, values

pytestmark = needs_plugin


def _other(weight: Tensor) -> Tensor:
    return torch.full_like(weight, 0.25, requires_grad=False) - weight.detach()


def _swap_parameter(layer: Any) -> None:
    layer.weight = nn.Parameter(_other(layer.weight))


def _no_grad(change: Callable[[Any], object]) -> Callable[[Any], object]:
    def changed(layer: Any) -> None:
        with torch.no_grad():
            change(layer)

    return changed


def _inference_mode(layer: Any) -> None:
    with torch.inference_mode():
        layer.weight.mul_(2)


def _grow_by_parameters(layer: Any) -> None:
    for parameter in layer.parameters():
        parameter.data += 0.5


def _through_the_dict(layer: Any) -> None:
    layer._parameters["weight"] = nn.Parameter(_other(layer._parameters["weight"]))


def _load(layer: Any) -> None:
    layer.load_state_dict({name: _other(value) for name, value in layer.state_dict().items()})


def _assign(layer: Any) -> None:
    state = {name: _other(value) for name, value in layer.state_dict().items()}
    layer.load_state_dict(state, assign=True)
    state["weight"] += 1


def _train(layer: Any) -> None:
    layer.train()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(3, 64)).sum().backward()
    optimizer.step()
    layer.eval()


def _swapped_tensors(layer: Any) -> None:
    torch.utils.swap_tensors(layer.weight, nn.Parameter(_other(layer.weight)))


CHANGES: dict[str, Callable[[Any], object]] = {
    "in place": _no_grad(lambda layer: layer.weight.neg_().add_(0.25)),
    "an element": _no_grad(lambda layer: layer.weight.__setitem__((3, 5), 40.0)),
    "data": lambda layer: layer.weight.data.mul_(-2),
    "new data": lambda layer: setattr(layer.weight, "data", _other(layer.weight)),
    "numpy": lambda layer: layer.weight.detach().numpy().__imul__(-2),
    "inference mode": _inference_mode,
    "storage": lambda layer: layer.weight.untyped_storage().copy_(
        _other(layer.weight).untyped_storage()
    ),
    "new parameter": _swap_parameter,
    "parameters()": _grow_by_parameters,
    "_parameters": _through_the_dict,
    "swap_tensors": _swapped_tensors,
    "get_parameter": lambda layer: layer.get_parameter("weight").data.zero_(),
    "nn.init": lambda layer: nn.init.ones_(layer.weight),
    "reset_parameters": lambda layer: layer.reset_parameters(),
    "load_state_dict": _load,
    "load_state_dict assign": _assign,
    "apply": lambda layer: layer._apply(lambda t: t * 2),
    "training": _train,
    "moved": lambda layer: (
        layer.to("meta")
        .to_empty(device="cpu")
        .load_state_dict({"weight": torch.ones(96, 64), "bias": torch.ones(96)})
    ),
    "half and back": lambda layer: layer.half().float(),
    "prune": lambda layer: torch.nn.utils.prune.l1_unstructured(layer, "weight", 0.5),
    "weight_norm": lambda layer: torch.nn.utils.parametrizations.weight_norm(layer),
    "vector": lambda layer: torch.nn.utils.vector_to_parameters(
        torch.ones(96 * 64 + 96), layer.parameters()
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_after_packing_is_seen(name: str) -> None:
    plain: Any = nn.Linear(64, 96).eval()
    ours, input = packed(plain), torch.randn(5, 64)
    before = ours(input)
    for layer in (plain, ours):
        torch.manual_seed(5)
        CHANGES[name](layer)
    expected = plain(input)
    assert not torch.allclose(expected, before, rtol=0, atol=0)
    assert_close(ours(input).detach(), expected.detach())
    # The same after packing again.
    cpuaccel.prepack(ours)
    assert_close(ours(input).detach(), expected.detach())


def _holders(layer: Any) -> dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]:
    """Holders of a weight before it is packed, and how each writes to it afterwards."""
    return {
        "the parameter": (lambda: layer.weight, lambda held: held.data.fill_(1)),
        "data": (lambda: layer.weight.data, lambda held: held.fill_(1)),
        "a view": (lambda: layer.weight.detach()[3:5], lambda held: held.fill_(1)),
        "numpy": (lambda: layer.weight.detach().numpy(), lambda held: held.fill(1)),
        "an optimizer": (
            lambda: torch.optim.SGD(layer.parameters(), lr=0.1),
            lambda held: held.param_groups[0]["params"][0].data.fill_(1),
        ),
        "a state dict": (layer.state_dict, lambda held: held["weight"].fill_(1)),
        "the storage": (lambda: layer.weight.untyped_storage(), lambda held: held.fill_(1)),
        "a shallow copy": (
            lambda: copy.copy(layer),
            lambda held: held.weight.data.fill_(1),
        ),
    }


@pytest.mark.parametrize("name", _holders(nn.Linear(1, 1)))
def test_a_weight_that_others_hold_is_not_packed(name: str) -> None:
    layer, input = nn.Linear(64, 96).eval(), torch.randn(5, 64)
    take, write = _holders(layer)[name]
    held = take()
    cpuaccel.reset_stats()
    cpuaccel.prepack(layer)
    assert not is_packed(layer)
    assert any("referenced outside" in reason for reason in fallbacks())
    write(held)
    assert_close(
        layer(input).detach(), nn.functional.linear(input, layer.weight, layer.bias).detach()
    )
    del held
    gc.collect()
    # torch cannot tell whether an array that it gave away still exists.
    assert is_packed(cpuaccel.prepack(layer)) is (name != "numpy")


def test_memory_of_numpy_is_not_packed() -> None:
    array = torch.randn(96, 64).numpy().copy()
    layer = nn.Linear(64, 96).eval()
    layer.weight = nn.Parameter(torch.from_numpy(array))
    assert not is_packed(cpuaccel.prepack(layer))
    array[:] = 2
    assert torch.equal(layer.weight, torch.full((96, 64), 2.0))


def test_take_shared_packs_it_all_the_same() -> None:
    layer = nn.Linear(64, 96).eval()
    held = layer.weight
    assert is_packed(cpuaccel.prepack(layer, take_shared=True))
    assert layer.weight is not held
    assert torch.equal(layer.weight, held)


def test_shared_memory_is_not_packed() -> None:
    layer = nn.Linear(64, 96).eval().share_memory()
    assert not is_packed(cpuaccel.prepack(layer))
    ours = packed(nn.Linear(64, 96).eval())
    assert not is_packed(ours.share_memory())
    assert ours.weight.is_shared()


def test_gradients_of_weights_in_training() -> None:
    model, input = mlp(), torch.randn(4, 64)
    ours = packed(model)
    for each in (model, ours):
        each.train()
        each(input).square().sum().backward()
    assert not is_packed(ours[0])
    for found, expected in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)


def test_frozen_weights_stay_packed_in_training() -> None:
    layer = nn.Linear(64, 96)
    layer.weight.requires_grad_(False)
    cpuaccel.prepack(layer)
    layer(torch.randn(3, 64)).sum().backward()
    assert is_packed(layer)
    assert layer.bias.grad is not None
    assert not cpuaccel.unpack(layer).weight.requires_grad


def test_training_without_gradients_stays_packed() -> None:
    ours = packed(mlp()).train()
    with torch.no_grad():
        ours(torch.randn(3, 64))
    assert is_packed(ours[0])


def test_making_it_plain_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    ours = packed(mlp())
    cpuaccel.reset_stats()
    with caplog.at_level("INFO", logger="cpuaccel"):
        ours[0].weight.data += 1
    assert not is_packed(ours[0])
    assert is_packed(ours[2])
    assert fallbacks() == {"a packed weight was read": 1}
    assert "Linear is plain again" in caplog.text


def test_what_reads_no_weight_leaves_it_packed() -> None:
    ours = packed(mlp())
    layer = ours[0]
    assert "weight" in layer._parameters
    assert list(layer._parameters) == ["weight", "bias"]
    assert layer.bias is not None
    layer.bias.data += 1
    layer.bias = nn.Parameter(torch.zeros(96))
    repr(ours), str(layer), ours.state_dict(), copy.deepcopy(ours), list(ours.modules())
    ours.train(), ours.eval(), cpuaccel.explain(ours)
    assert is_packed(layer)
    assert torch.equal(layer.bias, torch.zeros(96))


@pytest.mark.parametrize(
    "access",
    [
        lambda d: d["weight"],
        lambda d: d.get("weight"),
        lambda d: list(d.items()),
        lambda d: list(d.values()),
        lambda d: d.copy(),
        lambda d: dict(d),
        lambda d: {**d},
        lambda d: d | {},
        lambda d: d.pop("weight"),
        lambda d: d.setdefault("weight", None),
        lambda d: d == {},
        lambda d: {}.update(d),
        lambda d: copy.copy(d),
        lambda d: copy.deepcopy(d),
    ],
)
def test_every_way_into_the_dict_opens_it(access: Callable[[dict[str, Any]], object]) -> None:
    plain = nn.Linear(64, 96)
    ours = packed(plain)
    access(ours._parameters)
    assert not is_packed(ours)
    assert type(ours) is nn.Linear
    assert type(ours._parameters) is dict
    if "weight" in ours._parameters:
        assert torch.equal(ours.weight, plain.weight)


def test_a_dict_from_before_still_works() -> None:
    ours = packed(nn.Linear(64, 96))
    parameters = ours._parameters
    ours.weight.data.fill_(3)
    assert parameters["weight"] is ours.weight
    parameters["weight"] = nn.Parameter(torch.zeros(96, 64))
    assert torch.equal(ours.weight, torch.zeros(96, 64))
    del parameters["bias"]
    assert not hasattr(ours, "bias")


def test_unpacking_keeps_strides() -> None:
    layer = nn.Linear(64, 96)
    layer.weight = nn.Parameter(torch.randn(64, 96).t())
    expected = layer.weight.detach().clone()
    cpuaccel.prepack(layer)
    assert is_packed(layer)
    assert layer.weight.stride() == (1, 96)
    assert torch.equal(layer.weight, expected)


def test_nothing_is_lost_where_packing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model, state = mlp(), values(mlp())
    model.load_state_dict(state)
    calls = []

    def pack(parameter: nn.Parameter, rows: Any) -> Any:
        calls.append(rows)
        if len(calls) == 2:
            raise MemoryError
        return real(parameter, rows)

    real = matrix.PackedMatrix
    monkeypatch.setattr(matrix, "PackedMatrix", pack)
    with pytest.raises(MemoryError):
        cpuaccel.prepack(model)
    assert len(calls) == 2
    for name, value in values(model).items():
        assert torch.equal(value, state[name])
    assert_close(
        model(torch.ones(1, 64)).detach(), cpuaccel.unpack(model)(torch.ones(1, 64)).detach()
    )


def test_nothing_is_lost_where_unpacking_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = nn.Linear(64, 96), nn.Linear(64, 96)
    b.weight = a.weight
    model = packed(nn.ModuleList([a, b]))

    def fail(self: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(matrix.PackedMatrix, "values", fail)
        with pytest.raises(MemoryError):
            cpuaccel.unpack(model)
    assert is_packed(model[0])
    assert is_packed(model[1])
    assert torch.equal(model[0].weight, a.weight)
    assert model[1].weight is model[0].weight


def test_unpacking_gives_all_back() -> None:
    model = mlp()
    model[0].weight.requires_grad_(False)
    model[2].weight.mark = "kept"
    before, flags = values(model), [p.requires_grad for p in model.parameters()]
    ours = cpuaccel.unpack(cpuaccel.prepack(model))
    assert ours is model
    assert [type(m) for m in ours] == [nn.Linear, nn.ReLU, nn.Linear]
    assert [p.requires_grad for p in ours.parameters()] == flags
    assert ours[2].weight.mark == "kept"
    assert all(type(p) is nn.Parameter for p in ours.parameters())
    for name, value in values(ours).items():
        assert torch.equal(value, before[name])
