"""Concatenations that extend the one before them, and batch norms of their results."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile import _bf16
from compile._compiled import needs_onednn

pytestmark = [needs_onednn, pytest.mark.usefixtures("bf16_if_asked")]

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def _norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return norm


class Dense(nn.Module):
    """A DenseNet block, whose layers read all results before them."""

    def __init__(
        self, first: int = 12, grows_by: int = 5, layers: int = 4, keeps: int | None = None
    ) -> None:
        super().__init__()
        widths = [first + i * grows_by for i in range(layers + 1)]
        self.norms = nn.ModuleList(_norm(width) for width in widths)
        self.layers = nn.ModuleList(nn.Conv2d(width, grows_by, 3, padding=1) for width in widths)
        self.keeps = keeps
        """The number of a concatenation that is also a result."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        parts, kept = [x], []
        for number, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            whole = torch.cat(parts, 1)
            if number == self.keeps:
                kept.append(whole)
            parts.append(layer(F.relu(norm(whole))))
        return (parts[-1], *kept)


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


def _plan(model: nn.Module, x: Tensor) -> list[tuple[str, str]]:
    (plan,) = cpuaccel.explain(model, (x,)).plans
    return [(step.kinds, step.kernel) for step in plan.steps]


def _image(dtype: torch.dtype, *sizes: int) -> Tensor:
    return torch.randn(*sizes).to(dtype, memory_format=torch.channels_last)


def _check(model: nn.Module, optimized: nn.Module, x: Tensor) -> None:
    exact = copy.deepcopy(model).double()(x.double())
    for found, expected in zip(optimized(x), exact, strict=True):
        tolerance = TOLERANCE[x.dtype] * float(expected.abs().max())
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)


@TYPES
@pytest.mark.parametrize("sizes", [(1, 6, 7), (3, 4, 5), (2, 1, 1), (1, 1, 9)])
@pytest.mark.parametrize(("first", "grows_by"), [(12, 5), (32, 16), (1, 1)])
def test_blocks(dtype: torch.dtype, sizes: tuple[int, int, int], first: int, grows_by: int) -> None:
    torch.manual_seed(0)
    N, H, W = sizes
    model = Dense(first, grows_by).eval().to(dtype)
    x = _image(dtype, N, first, H, W)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        for _ in range(2):
            _check(model, optimized, x)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("grows_by", [16, 128, 136])
def test_many_pixels(grows_by: int, threads: int) -> None:
    """Threads share copies of short and long runs, and start within a row."""
    torch.manual_seed(0)
    model, x = Dense(9, grows_by, 2).eval(), _image(torch.float32, 2, 9, 31, 29)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            optimized = cpuaccel.optimize(model, (x,), time_budget=0)
            _check(model, optimized, x)
    finally:
        torch.set_num_threads(before)


@TYPES
def test_the_steps(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Dense().eval().to(dtype), _image(dtype, 1, 12, 6, 7)
    with torch.no_grad():
        steps = _plan(cpuaccel.optimize(model, (x,), time_budget=0), x)
    concats = [kernel for kinds, kernel in steps if kinds == "Concat"]
    norms = [kernel for kinds, kernel in steps if kinds == "BatchNormInference+ReLU"]
    assert len(concats) >= 4, steps
    assert set(concats) == {"cpuaccel"}, steps
    assert len(norms) == 5, steps
    assert all(kernel.startswith("cpuaccel batch_norm:") for kernel in norms), steps


def test_only_new_inputs_are_copied() -> None:
    """Measured by the bytes in `explain`: 5 channels each after the first, which has 17."""
    model, x = Dense().eval(), _image(torch.float32, 1, 12, 6, 7)
    with torch.no_grad():
        (plan,) = cpuaccel.explain(cpuaccel.optimize(model, (x,), time_budget=0), (x,)).plans
    moved = [
        step.gigabytes * step.microseconds * 1e3 for step in plan.steps if step.kinds == "Concat"
    ]
    pixel = 2 * 4 * 6 * 7  # read and written
    assert len(moved) >= 4
    expected = [5 * pixel] * len(moved[1:])
    assert moved[1:] == pytest.approx(expected, rel=1e-3)


@TYPES
@pytest.mark.parametrize("keeps", range(5))
def test_one_of_them_is_a_result(dtype: torch.dtype, keeps: int) -> None:
    """A result has its own memory, and those after it start anew."""
    torch.manual_seed(0)
    model, x = Dense(keeps=keeps).eval().to(dtype), _image(dtype, 2, 12, 6, 7)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        first = optimized(x)
        kept = [each.clone() for each in first]
        _check(model, optimized, x)
        for found, expected in zip(first, kept, strict=True):
            assert torch.equal(found, expected)  # a later call did not write to it


class Branches(nn.Module):
    """Two concatenations that grow alternately, from views, and with a value twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Dense(6, 4, 2), Dense(6, 4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        parts = [[x[:, :6]], [x[:, 6:]]]
        for i in range(3):
            for dense, of in ((self.first, parts[0]), (self.second, parts[1])):
                whole = torch.cat(of, 1)
                of.append(dense.layers[i](F.relu(dense.norms[i](whole))))
        return parts[0][-1], parts[1][-1]


@TYPES
def test_branches_in_turns(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Branches().eval().to(dtype), _image(dtype, 2, 12, 5, 3)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        for _ in range(2):
            _check(model, optimized, x)
        concats = [kernel for kinds, kernel in _plan(optimized, x) if kinds == "Concat"]
    assert len(concats) >= 4
    assert set(concats) == {"cpuaccel"}


class Twice(nn.Module):
    """The same value twice, and a reader that is not a norm."""

    def __init__(self, reader: nn.Module) -> None:
        super().__init__()
        self.norms = nn.ModuleList([_norm(8), _norm(12)])
        self.layers = nn.ModuleList([nn.Conv2d(8, 4, 1), nn.Conv2d(12, 4, 1)])
        self.reader = reader

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        whole = torch.cat([x, x], 1)
        y = self.layers[0](F.relu(self.norms[0](whole)))
        whole = torch.cat([x, x, y], 1)
        return self.layers[1](F.relu(self.norms[1](whole))), self.reader(whole)


@pytest.mark.parametrize(
    "reader", [nn.Conv2d(12, 3, 1), nn.AvgPool2d(2), nn.ReLU(), nn.Identity()], ids=repr
)
def test_other_readers(reader: nn.Module) -> None:
    torch.manual_seed(0)
    model, x = Twice(reader).eval(), _image(torch.float32, 2, 4, 6, 4)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        for _ in range(2):
            _check(model, optimized, x)


class Computed(nn.Module):
    """Norms with computed parameters run on oneDNN Graph, which reads memory without gaps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(4, 4, 1), nn.Conv2d(8, 4, 1)])

    def forward(self, x: Tensor, numbers: Tensor) -> Tensor:
        parts = [x]
        for layer in self.layers:
            whole = torch.cat(parts, 1)
            some = numbers[: whole.shape[1]] * 2
            parts.append(layer(F.relu(F.batch_norm(whole, some, some, some, some))))
        return torch.cat(parts, 1)


def test_norms_of_numbers_that_are_computed() -> None:
    torch.manual_seed(0)
    model, x, numbers = Computed().eval(), _image(torch.float32, 2, 4, 5, 3), torch.rand(8) + 1
    with torch.no_grad():
        found = cpuaccel.optimize(model, (x, numbers), time_budget=0)(x, numbers)
        exact = copy.deepcopy(model).double()(x.double(), numbers.double())
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5 * float(exact.abs().max()))


def test_other_sizes() -> None:
    """Other batches, images and memory formats than the plan was made for."""
    torch.manual_seed(0)
    model = Dense().eval()
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (_image(torch.float32, 1, 12, 6, 7),), time_budget=0)
        for sizes in ((2, 12, 6, 7), (1, 12, 9, 4), (3, 12, 1, 1)):
            _check(model, optimized, _image(torch.float32, *sizes))
            _check(model, optimized, torch.randn(*sizes))


def test_dynamic_sizes() -> None:
    torch.manual_seed(0)
    model = Dense().eval()
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
        for sizes in ((2, 12, 6, 7), (3, 12, 9, 4)):
            _check(model, compiled, _image(torch.float32, *sizes))


@TYPES
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d])
def test_norms(dtype: torch.dtype, relu: bool, norm: type[nn.Module]) -> None:
    """The norm before a layer that does not include it; NaN and infinities stay."""
    torch.manual_seed(0)
    sizes = {
        nn.BatchNorm1d: (3, 19),
        nn.BatchNorm2d: (3, 19, 4, 5),
        nn.BatchNorm3d: (2, 19, 3, 2, 4),
    }
    model = nn.Sequential(norm(19), nn.ReLU() if relu else nn.Identity()).eval()
    x = torch.randn(*sizes[norm])
    x[0, 3], x[0, 4], x[0, 5] = float("nan"), float("inf"), -float("inf")
    model, x = model.to(dtype), x.to(dtype)
    with torch.no_grad():
        found = cpuaccel.optimize(model, (x,), time_budget=0)(x)
        exact = copy.deepcopy(model).double()(x.double())
    torch.testing.assert_close(
        found.double(),
        exact,
        rtol=1e-5 if dtype == torch.float32 else 1e-2,
        atol=1e-5,
        equal_nan=True,
    )
