"""cpuaccel.optimize with later sizes: one capture with symbolic sizes serves them all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile import _structured as structured
from compile._compiled import Lambda, convolutions, needs_onednn
from compile._optimized import change_plans
from compile._transformers import WIDTH, Layer, needs_attention
from cpuaccel.compile.frontend import capture_maker, symbolic_ahead, symbolic_captures

pytestmark = needs_onednn


def _image(height: int, width: int = 0, batch: int = 1) -> Tensor:
    return torch.randn(batch, 3, height, width or height)


_ALL = {(0, 0), (0, 1), (0, 2), (0, 3)}


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The dynamic dimensions of each capture that is made."""
    made: list[Any] = []
    capture = capture_maker.capture

    def counted(
        model: Any, args: Any, kwargs: Any, dynamic: Any = (), *others: Any, **options: Any
    ) -> Any:
        made.append(set(dynamic))
        return capture(model, args, kwargs, dynamic, *others, **options)

    for module in (capture_maker, symbolic_ahead):
        monkeypatch.setattr(module, "capture", counted)
    return made


def _agree(found: nn.Module, model: nn.Module, *args: Any, **kwargs: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(
            found(*args, **kwargs), model(*args, **kwargs), atol=1e-4, rtol=1e-3
        )


def _plan(model: nn.Module, *args: Any) -> Any:
    made = cpuaccel.optimize(model, args, time_budget=0)
    assert made.verdict is not None
    assert made.verdict.runs == "plan", made.verdict
    cpuaccel.reset_stats()
    return made


def _reasons() -> dict[str, int]:
    """Return the reasons why the model ran, with counts."""
    found = cpuaccel.stats()["fallbacks"].items()
    return {key.removeprefix("optimize: "): count for key, count in found if "optimize" in key}


def test_images_of_many_sizes_have_two_captures(captures: list[Any]) -> None:
    model = convolutions()
    made = _plan(model, _image(40))
    for side in range(42, 80, 2):
        _agree(made, model, _image(side))
    _agree(made, model, _image(48, 66))
    assert captures == [set(), _ALL]
    assert len(made.reports) == 2
    assert made.reports[0].kinds() == made.reports[1].kinds()
    assert not _reasons()


def test_means_over_images_are_in_the_region(captures: list[Any]) -> None:
    torch.manual_seed(0)
    model = Lambda(
        lambda self, x: self.last(F.adaptive_avg_pool2d(F.relu(self.a(x)), 1).flatten(1)),
        a=nn.Conv2d(3, 64, 3, padding=1),
        last=nn.Linear(64, 8),
    ).eval()
    made = _plan(model, _image(20))
    for batch, height, width in ((1, 24, 24), (3, 17, 33), (2, 1, 7), (2, 64, 3)):
        _agree(made, model, _image(height, width, batch))
    first, *others = made.reports
    assert all(each.kinds() == first.kinds() for each in others)
    assert all(len(each.regions) == 1 for each in made.reports)
    assert not _reasons()


def test_weights_are_packed_once_for_all_sizes() -> None:
    cpuaccel.clear_caches()
    torch.manual_seed(0)
    model = Lambda(
        lambda self, x: self.b(F.relu(self.a(x))), a=nn.Linear(WIDTH, 256), b=nn.Linear(256, WIDTH)
    ).eval()
    made = _plan(model, torch.randn(1, 40, WIDTH))
    before = cpuaccel.stats()["graph_cache"]["bytes"]
    _agree(made, model, torch.randn(1, 41, WIDTH))
    assert len(made.reports) == 2
    assert cpuaccel.stats()["graph_cache"]["bytes"] == before > 0


@needs_attention
def test_batches_and_lengths_of_an_encoder(captures: list[Any]) -> None:
    torch.manual_seed(0)
    model = Layer(True).eval()
    made = _plan(model, torch.randn(2, 16, WIDTH))
    for batch, length in ((4, 17), (3, 29), (2, 43), (7, 11), (2, 16), (4, 17)):
        _agree(made, model, torch.randn(batch, length, WIDTH))
    assert captures == [set(), {(0, 0), (0, 1), (0, 2)}]
    assert not _reasons()


def test_tokens_and_a_mask_by_keyword(captures: list[Any]) -> None:
    torch.manual_seed(0)

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(50, WIDTH), nn.Embedding(64, WIDTH)
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, ids: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            x = F.gelu(self.linear(x))
            if mask is None:
                return {"mean": x.mean(1)}
            weights = mask[..., None].float()
            return {"mean": (x * weights).sum(1) / weights.sum(1)}

    model = Words().eval()

    def call(batch: int, length: int) -> tuple[Tensor, Tensor]:
        mask = (torch.rand(batch, length) > 0.3).long()
        mask[:, 0] = 1
        return torch.randint(50, (batch, length)), mask

    ids, mask = call(4, 9)
    made = cpuaccel.optimize(model, (ids,), {"mask": mask}, time_budget=0)
    for batch, length in ((4, 12), (2, 64), (5, 7), (3, 33)):
        ids, mask = call(batch, length)
        _agree(made, model, ids, mask=mask)
    assert len(captures) <= 3
    with pytest.raises(IndexError):  # the model's own error: there are 64 positions
        made(torch.zeros(2, 65, dtype=torch.long), mask=torch.ones(2, 65, dtype=torch.long))


def test_a_batch_that_varies_leaves_one_region(captures: list[Any]) -> None:
    model = structured.net()
    made = _plan(model, structured.image(2))
    for batch in (3, 4, 8):
        _agree(made, model, structured.image(batch))
    assert captures == [set(), _ALL]
    first, second = made.reports
    assert second.kinds() == first.kinds()
    assert len(second.regions) == len(first.regions) == 1


def test_a_batch_of_one_becomes_a_larger_one(captures: list[Any]) -> None:
    model = convolutions()
    made = _plan(model, _image(20))
    for batch, side in ((1, 22), (4, 22), (3, 26), (4, 20), (1, 30), (2, 24)):
        _agree(made, model, _image(side, batch=batch))
    assert captures == [set(), _ALL]
    assert not _reasons()


def test_sizes_of_one_that_were_not_compared_are_a_class_of_their_own(captures: list[Any]) -> None:
    model = convolutions()
    made = _plan(model, _image(20, batch=2))
    for batch, side in ((2, 22), (1, 22), (3, 26), (1, 20), (1, 30), (2, 24)):
        _agree(made, model, _image(side, batch=batch))
    assert len(captures) == 3
    assert captures[1] == _ALL
    assert not _reasons()


def test_a_path_that_only_some_sizes_take(captures: list[Any]) -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y * 2 if x.shape[1] > 20 else y + 1

    model = Lambda(of, linear=nn.Linear(WIDTH, WIDTH)).eval()
    made = _plan(model, torch.randn(2, 9, WIDTH))
    for length in (12, 21, 20, 35, 3, 22, 18):
        _agree(made, model, torch.randn(2, length, WIDTH))
    assert captures[1:] == [{(0, 0), (0, 1), (0, 2)}, {(0, 1)}]
    assert not _reasons()


def _by_size() -> nn.Module:
    """Return a model with a layer for each length, which therefore makes numbers of sizes."""
    torch.manual_seed(0)

    class BySize(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleDict({str(n): nn.Linear(WIDTH, 8) for n in range(2, 12)})

        def forward(self, x: Tensor) -> Tensor:
            layer: Any = self.layers[str(int(x.shape[1]))]
            result: Tensor = layer(x)
            return result

    return BySize().eval()


def test_a_model_that_makes_numbers_of_sizes_runs_until_they_have_come_often(
    captures: list[Any],
) -> None:
    model = _by_size()
    made = _plan(model, torch.randn(2, 3, WIDTH))
    for length in (4, 5, 6, 7):
        _agree(made, model, torch.randn(2, length, WIDTH))
    fixed = [each for each in captures if not each]
    assert len(fixed) == 1
    assert sum(_reasons().values()) == 4, captures
    for _ in range(4):
        _agree(made, model, torch.randn(2, 5, WIDTH))
    assert len([each for each in captures if not each]) == 2
    assert len(captures) <= 4
    reason = f"these sizes were called fewer than {symbolic_captures.CALLS_BEFORE_CAPTURE} times"
    assert all(each.startswith(reason) for each in _reasons())
    assert sum(_reasons().values()) == 4 + symbolic_captures.CALLS_BEFORE_CAPTURE - 2


def _plus_one_at(batch: int) -> Callable[[Tensor], Tensor]:
    return lambda result: result + 1 if result.shape[0] == batch else result


def test_a_capture_is_compared_at_other_sizes_than_it_was_traced_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model = Lambda(lambda self, x: self.linear(x), linear=nn.Linear(WIDTH, WIDTH)).eval()
    # The symbolic capture is validated with the first one, at sizes 2 and 3.
    change_plans(monkeypatch, _plus_one_at(3))
    made = _plan(model, torch.randn(2, 5, WIDTH))
    for batch in (3, 3, 8):
        _agree(made, model, torch.randn(batch, 5, WIDTH))
    assert len(made.reports) == 1
    assert all("the plan's results exceed the error bound" in each for each in _reasons())


def test_a_capture_of_another_class_is_compared_at_the_next_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model = Lambda(lambda self, x: self.linear(x), linear=nn.Linear(WIDTH, WIDTH)).eval()
    made = _plan(model, torch.randn(2, 1, WIDTH))
    change_plans(monkeypatch, _plus_one_at(9))
    _agree(made, model, torch.randn(3, 5, WIDTH))  # captured with these sizes
    assert len(made.reports) == 2
    for batch in (9, 9, 8):
        _agree(made, model, torch.randn(batch, 5, WIDTH))
    assert len(made.reports) == 1
    assert any("exceed the error bound" in each for each in _reasons())


def test_the_cache_of_sizes_is_bounded(
    captures: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbolic_captures, "MAX_CACHED_SIGNATURES", 4)
    model = Lambda(lambda self, x: self.linear(x), linear=nn.Linear(WIDTH, 8)).eval()
    made = _plan(model, torch.randn(2, 2, WIDTH))
    for _ in range(2):
        for length in range(3, 40):
            _agree(made, model, torch.randn(2, length, WIDTH))
    assert len(captures) == 2
    assert len(made._symbolic._served) == 4
    assert not _reasons()


CACHED_PLANS = 128
"""kMostShapes of csrc/ops/region/region_cache.h."""


def test_plans_of_one_model_are_bounded() -> None:
    cpuaccel.clear_caches()
    model = Lambda(lambda self, x: self.linear(x), linear=nn.Linear(WIDTH, 8)).eval()
    made = _plan(model, torch.randn(2, 2, WIDTH))
    for length in range(3, CACHED_PLANS + 50):
        _agree(made, model, torch.randn(2, length, WIDTH))
    cache = cpuaccel.stats()["graph_cache"]
    assert cache["size"] == CACHED_PLANS
    # All sizes share one plan text. Its validation ran one additional size.
    assert cache["evictions"] == 49


def test_weights_may_change() -> None:
    model = convolutions()
    made = _plan(model, _image(20))
    _agree(made, model, _image(22))
    with torch.no_grad():
        model.a.weight.mul_(2)
    _agree(made, model, _image(22))
    _agree(made, model, _image(24))
    model.last = nn.Conv2d(32, 5, 1)
    for side in (24, 22, 26):
        _agree(made, model, _image(side))


def test_another_layout_is_another_family(captures: list[Any]) -> None:
    model = convolutions()
    made = _plan(model, _image(20))
    for side in (22, 24, 26):
        _agree(made, model, _image(side))
        _agree(made, model, _image(side).to(memory_format=torch.channels_last))
        wide = torch.randn(1, 3, side, 2 * side)[..., ::2]
        _agree(made, model, wide)
    assert captures == [set(), _ALL, set(), set(), {(0, 2), (0, 3)}]
    (reason,) = _reasons()
    assert "neither contiguous nor channels_last" in reason


def test_a_model_that_mutates_its_buffers() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)
            self.register_buffer("seen", torch.zeros(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            self.seen.add_(y.sum((0, 1)))
            return y

    torch.manual_seed(0)
    model = Counting().eval()
    made = _plan(model, torch.randn(2, 5, WIDTH))
    with torch.no_grad():
        for length in (7, 9, 11):
            model.seen.zero_()
            x = torch.randn(2, length, WIDTH)
            found = made(x)
            torch.testing.assert_close(model.seen, found.sum((0, 1)), atol=1e-4, rtol=1e-3)


def test_threads_bring_sizes_of_their_own(captures: list[Any]) -> None:
    model = convolutions()
    made = _plan(model, _image(20))
    images = [_image(side) for side in range(22, 46, 2)]
    with torch.no_grad():
        expected = [model(each) for each in images]

    def run(number: int) -> Tensor:
        with torch.no_grad():
            return made(images[number])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(len(images))))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)
    assert len(captures) == 2


def test_verdicts_name_the_capture_of_a_size() -> None:
    model = convolutions()
    made = _plan(model, _image(20))
    _agree(made, model, _image(22))
    first, second = made.verdicts
    assert first is made.verdict
    assert second.inputs.startswith("float32[1, 3, 20, 20] and all sizes of [1 or more, 3, ")
    assert second.difference is not None
    assert any("and all sizes of" in each for each in cpuaccel.explain(made).footer)


def test_the_model_runs_if_tracing_symbolic_sizes_takes_too_long(captures: list[Any]) -> None:
    model = convolutions()
    made = cpuaccel.optimize(model, (_image(20),), time_budget=0, sizes_budget=1e-6)
    cpuaccel.reset_stats()
    captures.clear()
    for side in (22, 24, 26):
        _agree(made, model, _image(side))
    assert not captures
    (reason,) = _reasons()
    assert "torch takes more than 1e-06 s to trace symbolic sizes" in reason


def test_no_other_sizes_are_prepared_for_without_a_budget(captures: list[Any]) -> None:
    model = convolutions()
    made = cpuaccel.optimize(model, (_image(20),), time_budget=0, sizes_budget=0)
    assert captures == [set()]
    for side in (22, 24):
        _agree(made, model, _image(side))
    assert captures == [set(), {(0, 2), (0, 3)}]
