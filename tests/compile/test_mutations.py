"""Plans that mutate a slice of the model's state, such as a decoder's cache."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn
from compile._transformers import needs_attention
from cpuaccel.compile.bridge.plan_text import Operation, Output, PlanText, Value
from cpuaccel.compile.common import report

pytestmark = needs_onednn

WIDTH, HEADS, LENGTH = 32, 2, 24


class Layer(nn.Module):
    """Attention of a token over a cache of keys and values; writes position `at` of the cache."""

    def __init__(self, at: int = 20, batch: int = 1) -> None:
        super().__init__()
        self.at = at
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        sizes = (batch, HEADS, LENGTH, WIDTH // HEADS)
        self.register_buffer("keys", torch.randn(sizes))
        self.register_buffer("values", torch.randn(sizes))

    def forward(self, x: Tensor) -> Any:
        q, k, v = (self.heads(each) for each in self.qkv(x).chunk(3, dim=-1))
        return self.attended(x, q, *self.written(k, v))

    def attended(self, x: Tensor, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        attended = F.scaled_dot_product_attention(q, keys, values)
        result: Tensor = x + self.out(attended.transpose(1, 2).flatten(2))
        return result

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def written(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.keys[:, :, self.at : self.at + 1] = k
        self.values[:, :, self.at : self.at + 1] = v
        return self.keys, self.values


class SumOfCache(Layer):
    """A layer that reads its cache by an op that falls back to torch."""

    def written(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = super().written(k, v)
        return keys, values * torch.cumsum(keys, 2).sin().mean()


class ReadBefore(Layer):
    """A layer that reads the old contents of its cache."""

    def written(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        before = self.keys.sin().mean()
        keys, values = super().written(k, v)
        return keys, values * before


class WrittenTwice(Layer):
    """A layer that writes to two positions of each cache."""

    def written(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        super().written(k + 1, v - 1)
        self.keys[:, :, 3:4] = k
        self.values[:, :, 3:4] = v
        return self.keys, self.values


class Returned(Layer):
    """A layer that returns its cache beside the result."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x), self.keys


class Broadcast(Layer):
    """A layer that writes one number to several positions."""

    def written(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.keys[:, :, 4:7] = k
        self.values[:, :, 4:7] = v
        return self.keys, self.values


def _layer(kind: Callable[..., Layer] = Layer, **options: Any) -> Layer:
    torch.manual_seed(0)
    return kind(**options).eval()


def _token(seed: int, batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 1, WIDTH, generator=generator)


def _optimized(model: nn.Module) -> nn.Module:
    return cpuaccel.optimize(model, (_token(0),), time_budget=0)


def _compiled(model: nn.Module) -> nn.Module:
    torch._dynamo.reset()
    found: Any = torch.compile(model, backend="cpuaccel", dynamic=False)
    return found


WAYS = pytest.mark.parametrize("way", [_optimized, _compiled])


def _is_as_eager(way: Callable[[nn.Module], nn.Module], model: nn.Module) -> None:
    """Compare results and buffers, call by call."""
    eager = copy.deepcopy(model)
    with torch.no_grad():
        made = way(model)
        for seed in range(3):
            x = _token(seed, model.keys.shape[0])
            torch.testing.assert_close(made(x), eager(x), atol=1e-5, rtol=1e-4)
            for mine, its in zip(model.buffers(), eager.buffers(), strict=True):
                torch.testing.assert_close(mine, its, atol=1e-5, rtol=1e-4)


def _kinds() -> list[str]:
    return [kind for part in report.reports()[-1].kinds() for kind in part]


def _fallbacks() -> str:
    return str(cpuaccel.stats()["fallbacks"])


@needs_attention
@WAYS
@pytest.mark.parametrize("at", [0, 20, LENGTH - 1])
def test_one_region_updates_the_cache(way: Callable[[nn.Module], nn.Module], at: int) -> None:
    _is_as_eager(way, _layer(at=at))
    assert len(report.reports()[-1].regions) == 1
    assert _kinds().count("slice_scatter") == 2


@needs_attention
@WAYS
def test_two_threads(way: Callable[[nn.Module], nn.Module]) -> None:
    torch.set_num_threads(2)
    _is_as_eager(way, _layer())
    assert _kinds().count("slice_scatter") == 2


@WAYS
@pytest.mark.parametrize("kind", [SumOfCache, ReadBefore, WrittenTwice])
def test_a_mutated_tensor_that_is_read_elsewhere_is_a_fallback(
    way: Callable[[nn.Module], nn.Module], kind: Callable[..., Layer]
) -> None:
    _is_as_eager(way, _layer(kind))
    assert _kinds().count("slice_scatter") == 0


@WAYS
def test_a_number_in_several_places(way: Callable[[nn.Module], nn.Module]) -> None:
    _is_as_eager(way, _layer(Broadcast))


@WAYS
def test_a_cache_that_is_returned(way: Callable[[nn.Module], nn.Module]) -> None:
    model = _layer(Returned)
    eager = copy.deepcopy(model)
    with torch.no_grad():
        made = way(model)
        for seed in range(3):
            for mine, its in zip(made(_token(seed)), eager(_token(seed)), strict=True):
                torch.testing.assert_close(mine, its, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(model.values, eager.values, atol=1e-5, rtol=1e-4)


def _shared(model: Layer) -> None:
    both = torch.randn(2, *model.keys.shape)
    model.keys, model.values = both[0], both[1]


def _with_gaps(model: Layer) -> None:
    model.keys = torch.randn(1, HEADS, 2 * LENGTH, WIDTH // HEADS)[:, :, ::2]


@needs_attention
@pytest.mark.parametrize(
    ("change", "reason"), [(_shared, "shares its memory"), (_with_gaps, "with gaps")]
)
def test_memory_that_cannot_be_written_to(change: Callable[[Layer], None], reason: str) -> None:
    model = _layer()
    change(model)
    cpuaccel.reset_stats()
    _is_as_eager(_optimized, model)
    assert reason in _fallbacks()


def _by_positions(model: Layer) -> None:
    model.keys = torch.randn(1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)


@needs_attention
@WAYS
def test_a_cache_that_lies_otherwise(way: Callable[[nn.Module], nn.Module]) -> None:
    model = _layer()
    _by_positions(model)
    assert not model.keys.is_contiguous()
    cpuaccel.reset_stats()
    _is_as_eager(way, model)
    assert _kinds().count("slice_scatter") == 2
    assert "writes to" not in _fallbacks()


class Given(Layer):
    """A layer whose cache is an argument of the call."""

    # torch.export treats an argument with a buffer's name as that buffer.
    def forward(self, x: Tensor, given_keys: Tensor, given_values: Tensor) -> Any:
        q, k, v = (self.heads(each) for each in self.qkv(x).chunk(3, dim=-1))
        given_keys[:, :, 5:6] = k
        given_values[:, :, 5:6] = v
        return self.attended(x, q, given_keys, given_values)


@needs_attention
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_cache_of_the_call(is_shared: bool) -> None:
    model = _layer(Given)
    eager = copy.deepcopy(model)
    mine = [torch.randn(model.keys.shape) for _ in range(2)]
    its = [each.clone() for each in mine]
    cpuaccel.reset_stats()
    with torch.no_grad():
        made = cpuaccel.optimize(model, (_token(0), *mine), time_budget=0)
        assert _kinds().count("slice_scatter") == 2
        if is_shared:  # torch.export was not told
            mine[1], its[1] = mine[0], its[0]
            torch.testing.assert_close(made(_token(1), *mine), eager(_token(1), *its))
            torch.testing.assert_close(mine, its)
            assert "shares memory" in _fallbacks()
            return
        for seed in range(3):
            torch.testing.assert_close(
                made(_token(seed), *mine), eager(_token(seed), *its), atol=1e-5, rtol=1e-4
            )
            torch.testing.assert_close(mine, its, atol=1e-5, rtol=1e-4)


def test_mutations_increment_the_version() -> None:
    model = _layer()
    with torch.no_grad():
        made = _optimized(model)
        before = model.keys._version
        made(_token(0))
    assert model.keys._version > before


def test_under_inference_mode() -> None:
    model = _layer()
    with torch.inference_mode():
        made = _optimized(model)
        expected = copy.deepcopy(model)(_token(1))
        torch.testing.assert_close(made(_token(1)), expected, atol=1e-5, rtol=1e-4)


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = _layer()
    eager = copy.deepcopy(model)
    with torch.no_grad():
        made = _optimized(model)
        cpuaccel.save(made, tmp_path / "step.pt2")
        for layer in (model, eager):
            layer.keys.zero_()
        loaded = cpuaccel.load(tmp_path / "step.pt2")
        its = copy.deepcopy(eager)
        its.keys.copy_(dict(loaded.named_buffers())["_run.keys"])
        its.values.copy_(dict(loaded.named_buffers())["_run.values"])
        for seed in range(3):
            x = _token(seed)
            torch.testing.assert_close(loaded(x), its(x), atol=1e-5, rtol=1e-4)


@needs_attention
@pytest.mark.parametrize("written", [-1, 3])
def test_a_wrong_number_of_mutated_inputs(written: int) -> None:
    model = _layer()
    with torch.no_grad():
        (made,) = _optimized(model)._captures.values()  # type: ignore[union-attr]
    captured: Any = made.capture.graph
    bound: Any = torch.classes.cpuaccel.BoundRegion  # type: ignore[attr-defined]
    (call,) = captured.graph.find_nodes(
        op="call_function", target=torch.ops.cpuaccel.graph_region_.default
    )
    constants = [captured.get_parameter(node.target) for node in call.args[2]]
    given = [model.keys, model.values, _token(0)]
    if written < 0:
        with pytest.raises(RuntimeError, match="written: expected 0 or more, got -1"):
            bound(constants, *call.args[3:], written)
        return
    with pytest.raises(RuntimeError, match="expected 4 tensors at least, got 3"):
        bound(constants, *call.args[3:], 4).run(given)
    cpuaccel.reset_stats()
    with pytest.raises(RuntimeError, match="size of tensor"):  # torch runs the region
        bound(constants, *call.args[3:], written).run(given)
    assert "cannot be written in place" in _fallbacks()


_OPS: Any = torch.ops.cpuaccel


def _program(whole: Tensor, part: Tensor, axis: int, begin: int) -> tuple[str, str]:
    """Return the program of one slice_scatter, and the same in torch ops."""
    values = {
        number: Value(each.dtype, tuple(each.shape)) for number, each in enumerate((whole, part))
    }
    end = begin + part.shape[axis]
    attributes = {"axis": axis, "min": begin, "max": end}
    write = Operation("slice_scatter", (0, 1), (2,), attributes)
    program = PlanText({**values, 2: values[0]}, [0, 1], [], [Output(2, False)], [], [[write]])
    arguments = [{"value": 0}, {"value": 1}, axis, begin, end]
    ops = [["aten.slice_scatter.default", arguments, {}]]
    return program.text, json.dumps({"ops": ops, "outputs": [[2, False]]})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3)])
@pytest.mark.parametrize("axis", range(4))
def test_slices_that_lie_anyhow(dtype: torch.dtype, order: tuple[int, ...], axis: int) -> None:
    sizes = [3, 2, 7, 40]
    back = [order.index(dim) for dim in range(4)]

    def tensor(shape: list[int], seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        given = torch.randint(-99, 99, [shape[dim] for dim in order], generator=generator)
        return given.to(dtype).permute(back)

    for begin, count in ((0, 1), (sizes[axis] - 1, 1), (1, sizes[axis] - 1), (0, sizes[axis])):
        shape = [count if dim == axis else size for dim, size in enumerate(sizes)]
        whole, part = tensor(sizes, 1), tensor(shape, 2)
        texts = _program(whole, part, axis, begin)
        expected = torch.slice_scatter(whole, part, axis, begin, begin + count)
        (found,) = _OPS.graph_region([whole, part], [], *texts)
        torch.testing.assert_close(found, expected)
        assert _OPS.graph_region_([whole], [part.contiguous()], [], *texts) == []
        torch.testing.assert_close(whole, expected)


def test_opcheck() -> None:
    whole, part = torch.randn(2, 5, 3), torch.randn(2, 1, 3)
    result = torch.library.opcheck(
        _OPS.graph_region_.default,
        ([whole], [part], [], *_program(whole, part, 1, 2)),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )
    assert set(result.values()) == {"SUCCESS"}
