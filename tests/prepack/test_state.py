"""Packed models are saved, loaded, copied and moved like plain ones."""

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from _process import run_python
from quant._engine import needs_plugin
from torch import nn

import cpuaccel
from cpuaccel import _native
from prepack._models import assert_close, assert_same, is_packed, mlp, packed, values

pytestmark = needs_plugin


class _Counting(nn.Module):
    """A module with a buffer, an extra state and layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 96)
        self.layer.register_buffer("mean", torch.ones(3))
        self.layer.register_buffer("hidden", torch.ones(3), persistent=False)


def test_state_dict() -> None:
    for model in (mlp(), _Counting().eval()):
        expected, ours = model.state_dict(), packed(model)
        found = ours.state_dict()
        assert_same(found, expected)
        assert found._metadata == expected._metadata
        assert_same(ours.state_dict(prefix="a."), model.state_dict(prefix="a."))
        assert all(type(value) is torch.Tensor for value in found.values())
        assert is_packed(ours[0] if isinstance(ours, nn.Sequential) else ours.layer)


def test_state_dict_keep_vars() -> None:
    ours = packed(mlp())
    found = ours.state_dict(keep_vars=True)
    assert found["0.weight"] is ours[0].weight


def test_load_state_dict() -> None:
    model = mlp()
    ours, other = packed(mlp()), values(model)
    assert str(ours.load_state_dict(other)) == "<All keys matched successfully>"
    assert is_packed(ours[0])
    assert is_packed(ours[2])
    assert_same(ours.state_dict(), other)
    assert_close(ours(torch.ones(2, 64)).detach(), model(torch.ones(2, 64)).detach())


def test_load_state_dict_hooks() -> None:
    ours = packed(nn.Linear(64, 96))
    seen = []
    ours.register_load_state_dict_pre_hook(lambda *arguments: seen.append("before"))
    ours.register_load_state_dict_post_hook(lambda *arguments: seen.append("after"))
    ours.register_state_dict_post_hook(lambda *arguments: seen.append("saved"))
    ours.load_state_dict(ours.state_dict())
    assert seen == ["saved", "before", "after"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("change", ["missing", "unexpected", "shape", "type"])
def test_bad_state_dicts(change: str, strict: bool) -> None:
    model = mlp()
    ours, state = packed(model), dict(values(model))
    if change == "missing":
        del state["0.weight"]
    elif change == "unexpected":
        state["0.more"] = torch.ones(1)
    elif change == "shape":
        state["0.weight"] = torch.ones(3, 3)
    else:
        state["0.weight"] = 5  # type: ignore[assignment]
    results: list[object] = []
    for each in (model, ours):
        try:
            results.append(each.load_state_dict(state, strict=strict))
        except RuntimeError as error:
            results.append(str(error))
    assert results[0] == results[1]
    assert_same(ours.state_dict(), model.state_dict())


def test_deepcopy() -> None:
    model, input = mlp(), torch.randn(3, 64)
    ours = packed(model)
    ours[0].register_forward_hook(lambda module, arguments, result: result + 1)
    other = copy.deepcopy(ours)
    assert is_packed(other[0])
    assert_close(other(input).detach(), ours(input).detach())
    other[0].weight.data.zero_()
    assert is_packed(ours[0])
    assert_same(ours.state_dict(), model.state_dict())
    assert not torch.allclose(other(input), ours(input))


def test_shallow_copy_shares() -> None:
    ours = packed(nn.Linear(64, 96))
    other = copy.copy(ours)
    other.weight.data.fill_(2)
    assert other.weight is ours.weight


def test_saved_models_are_plain() -> None:
    model = mlp()
    ours = packed(model)
    for loaded in (
        pickle.loads(pickle.dumps(ours)),
        pickle.loads(pickle.dumps(ours, protocol=0)),
        _saved(ours),
    ):
        assert [type(m) for m in loaded] == [type(m) for m in model]
        assert_same(loaded.state_dict(), model.state_dict())
        assert not loaded.training
    assert is_packed(ours[0])


def _saved(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_saved_models_load_without_cpuaccel(tmp_path: Path) -> None:
    torch.save(packed(mlp()), tmp_path / "model.pt")
    code = f"""
import sys
sys.modules["cpuaccel"] = None
import torch
model = torch.load({str(tmp_path / "model.pt")!r}, weights_only=False)
print(type(model[0]), model(torch.ones(1, 64)).shape)
"""
    said = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert said.startswith("<class 'torch.nn.modules.linear.Linear'>")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.bfloat16])
def test_other_types(dtype: torch.dtype) -> None:
    model, ours = mlp(), packed(mlp())
    ours.load_state_dict(model.state_dict())
    assert ours.to(dtype) is ours
    assert_same(ours.state_dict(), model.to(dtype).state_dict())
    input = torch.randn(3, 64, dtype=dtype)
    torch.testing.assert_close(ours(input), model(input), rtol=2e-2, atol=2e-2)
    native = _native.load()
    multiplies = {
        torch.float64: True,
        torch.bfloat16: native.has_bf16_arithmetic(),
        torch.float16: native.has_fp16_arithmetic(),
    }
    assert is_packed(ours[0]) is not multiplies[dtype]


def test_other_devices() -> None:
    ours = packed(mlp()).to("meta")
    assert ours[0].weight.is_meta
    assert type(ours[0]) is nn.Linear


def test_clones_in_torch() -> None:
    """torch's ways to call modules with other parameters."""
    model, ours = mlp(), packed(mlp())
    input = torch.randn(3, 64)
    found = torch.func.functional_call(ours, dict(model.named_parameters()), (input,))
    assert_close(found.detach(), model(input).detach())


@pytest.mark.parametrize(
    "transform",
    [
        lambda model, x: torch.export.export(model, (x,)).module(),
        lambda model, x: torch.jit.trace(model, x),
        lambda model, x: torch.fx.symbolic_trace(model),
    ],
    ids=["export", "jit.trace", "fx"],
)
@pytest.mark.filterwarnings("ignore")
def test_transforms(transform: Any) -> None:
    model, input = mlp(), torch.randn(3, 64)
    found = transform(packed(model), input)(input)
    assert_close(found.detach(), model(input).detach())


def test_hooks_stay() -> None:
    seen = []
    layer = nn.Linear(64, 96).eval()
    layer.register_forward_hook(lambda *arguments: seen.append("hook"))
    layer.mark = "kept"
    ours = cpuaccel.prepack(layer)
    assert ours is layer
    assert isinstance(ours, nn.Linear)
    assert ours.mark == "kept"
    ours(torch.ones(1, 64))
    assert seen == ["hook"]
    assert ours.in_features == 64
    assert not hasattr(cpuaccel.unpack(ours), "plain_class")
