"""Models that are changed: no plan uses their old state or leaves anything behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn
from cpuaccel.compile.capture.module_attributes import ChangeCounter

pytestmark = needs_onednn


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.drop(F.relu(self.norm(self.conv(x)))).mean((2, 3)))
        return y


def _x(seed: int = 0) -> Tensor:
    return torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(seed))


def _plan(model: nn.Module, *args: Any) -> cpuaccel.compile.frontend.optimized_module.Optimized:
    return cpuaccel.optimize(model.eval(), args or (_x(),), time_budget=0)


def _runs(made: Any) -> tuple[str, str]:
    assert made.verdict is not None
    return made.verdict.runs, made.verdict.reason


def _like_the_model(made: Any, model: nn.Module, *args: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(made(*args), model(*args), atol=1e-5, rtol=1e-4)


# Changes from outside


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a norm that trains": lambda net: net.norm.train(),
    "a number of a layer of torch's": lambda net: setattr(net.norm, "eps", 0.5),
    "a forward of its own": lambda net: setattr(net.linear, "forward", lambda x: x),
    "a function of a layer": lambda net: setattr(net, "drop", nn.Sigmoid()),
    "a hook": lambda net: net.conv.register_forward_hook(lambda *of: of[-1] * 2),
    "a hook in front": lambda net: net.conv.register_forward_pre_hook(lambda _, of: (of[0] * 2,)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_followed(change: Callable[[Any], Any]) -> None:
    model = _Net()
    made = _plan(model)
    assert _runs(made)[0] == "plan"
    change(model)
    torch.manual_seed(1)
    model.norm.running_mean.zero_()
    with torch.no_grad():
        found = made(_x(1))
        model.norm.running_mean.zero_()
        model.norm.running_var.fill_(1)
        torch.testing.assert_close(made(_x(1)), model(_x(1)), atol=1e-5, rtol=1e-4)
    assert found.shape == (2, 8)


def test_dropout_that_is_asked_for_drops() -> None:
    model = _Net()
    made = _plan(model)
    model.drop.train()
    with torch.no_grad():
        assert not torch.equal(made(_x()), made(_x()))


def test_hooks_are_called() -> None:
    model, seen = _Net(), []
    made = _plan(model)
    handle = model.linear.register_forward_hook(lambda *of: seen.append(of[-1]))
    with torch.no_grad():
        result = made(_x(2))
        assert seen[-1] is result
        assert "linear has forward hooks" in _runs(made)[1]
        handle.remove()
        made(_x(2))
    assert len(seen) == 1
    assert _runs(made)[0] == "plan"


def test_another_model_in_its_place() -> None:
    made, other = _plan(_Net()), _Net().eval()
    nn.init.ones_(other.linear.weight)
    made.model = other
    _like_the_model(made, other, _x())


def test_one_that_changes_before_each_call_runs_as_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangeCounter, "MOST", 3)
    model = _Net()
    made = _plan(model)
    for step in range(ChangeCounter.MOST + 2):
        model.step = 1000 + step
        with torch.no_grad():
            made(_x())
    assert not made.reports
    assert sum("from now on: the model has changed" in each for each in caplog.messages) == 1
    _like_the_model(made, model, _x())
    made.model = _Net().eval()
    with torch.no_grad():
        made(_x())
    assert _runs(made)[0] == "plan"


# Changes by the model itself


class _Counts(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.n = self.n + 1
        return super().forward(x) * self.n


class _Notes(_Net):
    def forward(self, x: Tensor) -> Tensor:
        self.last = x.shape
        return super().forward(x)


class _Remembers(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.h = torch.zeros(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.h = super().forward(x) + 0.5 * self.h
        return self.h


class _MakesATable(_Net):
    table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.arange(8.0)
        return super().forward(x) + self.table


class _RemembersByName(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.state = {"h": torch.zeros(2, 8)}

    def forward(self, x: Tensor) -> Tensor:
        self.state["h"] = super().forward(x) + 0.5 * self.state["h"]
        return self.state["h"]


class _Lists(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.shape)
        return super().forward(x)


@pytest.mark.parametrize("kind", [_Counts, _Notes, _Remembers, _RemembersByName, _Lists])
def test_one_that_assigns_in_each_call_runs_as_it_is(kind: type[_Net]) -> None:
    model, its = kind(), kind().eval()
    made = _plan(model)
    runs, reason = _runs(made)
    assert runs == "model"
    assert "each call assigns" in reason
    with torch.no_grad():
        for seed in range(3):
            torch.testing.assert_close(made(_x(seed)), its(_x(seed)))
    assert len(made.verdicts) == 1
    if isinstance(model, _Lists):
        assert len(model.seen) == 3


@pytest.mark.parametrize(
    "of",
    [
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda conv: prune.l1_unstructured(conv, "weight", 0.5),
    ],
    ids=["weight_norm", "spectral_norm", "pruned"],
)
def test_weights_that_torch_makes_in_each_call(of: Callable[[nn.Module], nn.Module]) -> None:
    model = _Net()
    of(model.conv)
    made = _plan(model)
    assert _runs(made)[0] == "plan"
    _like_the_model(made, model, _x(1))
    _like_the_model(made, model, _x(2))
    assert len(made.reports) == 1


def test_a_table_that_grows_is_made_once_for_each_size() -> None:
    class Grows(_Net):
        table = torch.zeros(0)

        def forward(self, x: Tensor) -> Tensor:
            if len(self.table) < x.shape[-1]:
                self.table = torch.arange(float(x.shape[-1]))
            return super().forward(x) + self.table[: x.shape[-1]].sum()

    model, sizes = Grows(), (9, 11, 13)
    made = _plan(model)
    for size in (*sizes, *sizes):
        _like_the_model(made, model, torch.randn(2, 3, size, size))
    assert len(made.reports) <= len(sizes)
    assert made._changes.count < len(sizes)


def test_a_call_that_cannot_be_captured_is_made_once() -> None:
    class Cache:
        def __init__(self) -> None:
            self.seen: list[Tensor] = []

    class Appends(_Net):
        def forward(self, x: Tensor, cache: Any = None) -> Tensor:
            if cache is not None:
                cache.seen.append(x)
            return super().forward(x)

    model, cache = Appends(), Cache()
    made = _plan(model)
    with torch.no_grad():
        made(_x(), cache)
    assert len(cache.seen) == 1


@pytest.mark.parametrize(
    "held",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.ones(2, device="meta"),
        lambda: torch.ones(1).expand(4),
        lambda: nn.parameter.UninitializedBuffer(),
    ],
    ids=["sparse", "csr", "meta", "expanded", "uninitialized"],
)
def test_unread_tensors_are_not_touched(held: Callable[[], Tensor]) -> None:
    class Branches(_Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if x.sum() > 0 else x

    for kind in (_Net, Branches):
        model = kind()
        model.held = held()
        _plan(model)
        with torch.inference_mode():
            model.more = held()
        _plan(model)


def test_attributes_set_in_the_first_call_are_kept() -> None:
    model = _MakesATable()
    made = _plan(model)
    assert model.table is not None
    assert _runs(made)[0] == "plan"
    _like_the_model(made, model, _x(1))
    assert len(made.reports) == 1


def test_a_failed_capture_leaves_nothing_behind() -> None:
    class Branches(_Net):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls.add_(1)
            x.mul_(2)
            return super().forward(x) if x.sum() > 0 else x

    model, x = Branches(), _x()
    made = _plan(model, x)
    assert _runs(made)[0] == "model"
    assert model.calls == 0
    assert torch.equal(x, _x())


# Changes of the inputs


class _Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.relu(self.first(x)) - F.relu(self.second(y))


def test_one_tensor_twice_is_two_inputs() -> None:
    model, (a, b) = _Two(), torch.randn(2, 4, 8)
    made = _plan(model, a, a)
    assert _runs(made)[0] == "plan"
    _like_the_model(made, model, a, b)
    _like_the_model(made, model, b, a)


@pytest.mark.parametrize("held", ["weight", "plain"])
def test_a_tensor_of_the_model_is_an_input_too(held: str) -> None:
    model = _Two()
    model.plain = torch.randn(8, 8)
    given = model.first.weight.detach() if held == "plain" else model.first.weight
    with torch.no_grad():
        made = _plan(model, model.plain if held == "plain" else given, torch.ones(8, 8))
    _like_the_model(made, model, torch.randn(8, 8), torch.ones(8, 8))


def test_inputs_that_share_memory_with_one_that_is_written() -> None:
    class Writes(_Two):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            x.add_(1)
            return F.relu(self.first(x)) + y

    model = Writes()
    made = _plan(model, torch.randn(4, 8), torch.randn(4, 8))
    assert _runs(made)[0] == "plan"
    whole = torch.randn(6, 8)
    for x, y in ((whole[:4], whole[:4]), (whole[:4], whole[2:]), (whole[2:], whole[:4])):
        mine = whole.clone()
        its = whole.clone()
        places = [each.storage_offset() // 8 for each in (x, y)]
        with torch.no_grad():
            found = made(*(mine[at : at + 4] for at in places))
            expected = model(*(its[at : at + 4] for at in places))
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(mine, its)
    with torch.no_grad():
        torch.testing.assert_close(*(run(*torch.ones(2, 4, 8)) for run in (made, model)))


def test_gradients_by_an_input() -> None:
    model = _Two().requires_grad_(False)
    made = _plan(model, torch.ones(4, 8), torch.ones(4, 8))
    x = torch.randn(4, 8, requires_grad=True)
    made(x, torch.ones(4, 8)).sum().backward()
    expected = torch.autograd.grad(model(x, torch.ones(4, 8)).sum(), x)[0]
    torch.testing.assert_close(x.grad, expected)


def test_transforms_see_the_model() -> None:
    model = _Two().requires_grad_(False)
    made, x = _plan(model, torch.ones(4, 8), torch.ones(4, 8)), torch.randn(3, 4, 8)
    found, expected = (torch.func.vmap(each)(x, x + 1) for each in (made, model))
    torch.testing.assert_close(found, expected)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x[0], torch.ones(4, 8))
        tangents = [fwAD.unpack_dual(each(dual, x[1])).tangent for each in (made, model)]
    torch.testing.assert_close(*tangents)
