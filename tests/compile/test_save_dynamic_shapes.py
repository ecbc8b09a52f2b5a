"""Files of cpuaccel.save and cpuaccel.aot_compile with `dynamic_shapes`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from compile._structured import image, net
from compile._transformers import WIDTH
from cpuaccel.compile.capture.dynamic_shapes import DynamicSizes

_BATCH = ({0: Dim("batch", max=8)},)

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))),
    reason="AOTInductor needs a C++ compiler: neither CXX (g++) nor clang++ is in PATH",
)


def _encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(WIDTH, 3, 64, batch_first=True).eval()


def _agree(loaded: Any, model: nn.Module, *args: Any) -> None:
    with torch.no_grad():
        found, expected = loaded(*args), model(*args)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


@needs_onednn
def test_a_batch_that_varies(tmp_path: Path) -> None:
    model = net()
    optimized = cpuaccel.optimize(model, (image(2),), time_budget=0)
    cpuaccel.save(optimized, tmp_path / "net.pt2", dynamic_shapes=_BATCH)
    loaded = cpuaccel.load(tmp_path / "net.pt2")
    assert loaded.facts["flat"] is not None
    cpuaccel.reset_stats()
    for batch in (2, 1, 8, 3, 2):
        _agree(loaded, model, image(batch))
        _agree(loaded, model, image(batch).to(memory_format=torch.channels_last))
    assert cpuaccel.stats()["calls"]["graph_region.cpuaccel"] == 10
    with pytest.raises(ValueError, match=r"dimension 0 \(batch\): expected 0 to 8, got 9"):
        loaded(image(9))
    with pytest.raises(ValueError, match="argument 0, dimension 2: expected 12, got 13"):
        loaded(torch.randn(2, 3, 13, 12))


@needs_onednn
def test_batches_and_lengths(tmp_path: Path) -> None:
    model = _encoder()
    optimized = cpuaccel.optimize(model, (torch.randn(2, 9, WIDTH),), time_budget=0)
    sizes = ({0: Dim("batch", min=2, max=64), 1: Dim("length", min=2, max=32)},)
    cpuaccel.save(optimized, tmp_path / "model.pt2", dynamic_shapes=sizes)
    loaded = cpuaccel.load(tmp_path / "model.pt2")
    for batch, length in ((2, 9), (5, 7), (64, 2), (3, 32)):
        _agree(loaded, model, torch.randn(batch, length, WIDTH))
    with pytest.raises(ValueError, match=r"dimension 1 \(length\): expected 2 to 32, got 33"):
        loaded(torch.randn(2, 33, WIDTH))


@needs_onednn
def test_a_symbolic_capture_is_saved_for_all_its_sizes(tmp_path: Path) -> None:
    model = net()
    optimized = cpuaccel.optimize(model, (image(2),), time_budget=0)
    _agree(optimized, model, image(3))
    cpuaccel.save(optimized, tmp_path / "net.pt2")
    loaded = cpuaccel.load(tmp_path / "net.pt2")
    for batch in (2, 3, 5, 40):
        _agree(loaded, model, image(batch))
    with pytest.raises(ValueError, match="dimension 0: expected 2 or more, got 1"):
        loaded(image(1))


@needs_onednn
def test_sizes_that_depend_on_each_other(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Lambda(
        lambda self, x, y: self.linear(x) + y[:, ::2], linear=nn.Linear(WIDTH, WIDTH)
    ).eval()
    example = torch.randn(2, 4, WIDTH), torch.randn(2, 8, WIDTH)
    half = Dim("half", max=16)
    optimized = cpuaccel.optimize(model, example, time_budget=0)
    sizes = {"args": ({1: half}, {1: 2 * half})}
    cpuaccel.save(optimized, tmp_path / "model.pt2", dynamic_shapes=sizes)
    loaded = cpuaccel.load(tmp_path / "model.pt2")
    for length in (4, 7, 16):
        _agree(loaded, model, torch.randn(2, length, WIDTH), torch.randn(2, 2 * length, WIDTH))
    with pytest.raises(ValueError, match=r"argument 1, dimension 1: expected 10, .*got 12"):
        loaded(torch.randn(2, 5, WIDTH), torch.randn(2, 12, WIDTH))


@needs_onednn
def test_a_size_that_the_model_makes_a_number_of(tmp_path: Path) -> None:
    model = Lambda(
        lambda self, x: self.linear(x).view(2, -1), linear=nn.Linear(WIDTH, WIDTH)
    ).eval()
    optimized = cpuaccel.optimize(model, (torch.randn(2, 4, WIDTH),), time_budget=0)
    with pytest.raises(ValueError, match=r"cpuaccel\.save: dynamic_shapes: "):
        cpuaccel.save(
            optimized, tmp_path / "model.pt2", dynamic_shapes={"args": ({2: Dim("width")},)}
        )
    assert not list(tmp_path.iterdir())


@needs_onednn
@needs_compiler
def test_a_package_of_many_batches(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Lambda(
        lambda self, x: self.last(F.gelu(self.first(F.relu(self.conv(x)).mean((2, 3))))),
        conv=nn.Conv2d(3, 16, 3, padding=1),
        first=nn.Linear(16, 64),
        last=nn.Linear(64, 32),
    ).eval()
    sizes = {"args": ({0: Dim("batch", min=1, max=8)},)}
    cpuaccel.aot_compile(model, (image(2),), tmp_path / "net.pt2", dynamic_shapes=sizes)
    loaded = cpuaccel.load(tmp_path / "net.pt2")
    for batch in (2, 1, 8, 5):
        _agree(loaded, model, image(batch))
    with pytest.raises(ValueError, match=r"dimension 0 \(batch\): expected 1 to 8, got 9"):
        loaded(image(9))


# Invalid sizes in a file


def _facts(**others: Any) -> dict[str, Any]:
    facts = {
        "shapes": [["s0", 4], ["2*s0 + 1"]],
        "strides": [[4, 1], [1]],
        "ranges": {"s0": [2, 16, "rows"]},
        "conditions": ["s0 // 2 != 3"],
    }
    return {**facts, **others}


def test_sizes_are_told_from_what_they_depend_on() -> None:
    sizes = DynamicSizes.from_facts(_facts())
    assert sizes.mismatch([(4, 4), (9,)]) == ""
    for shapes, reason in (
        ([(17, 4), (35,)], "argument 0, dimension 0 (rows): expected 2 to 16, got 17"),
        ([(4, 5), (9,)], "argument 0, dimension 1: expected 4, got 5"),
        ([(4, 4), (8,)], "argument 1, dimension 0: expected 9, which is 2*rows + 1, got 8"),
        ([(6, 4), (13,)], "sizes: expected rows // 2 != 3, got rows = 6"),
        ([(4, 4), None], "argument 1: expected a tensor of 1 dimensions, got no tensor"),
        ([(4, 4)], "expected 2 arguments, got 1"),
    ):
        assert sizes.mismatch(shapes) == reason
    again = DynamicSizes.from_facts(sizes.facts())
    assert again == sizes
    alone = DynamicSizes.from_facts(_facts(shapes=[[3, 4], ["2*s0 + 1"]]))
    assert alone.mismatch([(3, 4), (9,)]) == ""
    assert "expected 5 to 33, got 35" in alone.mismatch([(3, 4), (35,)])


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "s0.__class__",
        "(lambda: 1)()",
        "[s0 for _ in ()]",
        "'a' * s0",
        "print(s0)",
        "9 ** 9 ** 9",
        "s0 if",
    ],
)
def test_expressions_other_than_arithmetic_are_not_run(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected an expression|arithmetic|constant or function"):
        DynamicSizes.from_facts(_facts(conditions=[text]))


def test_sizes_in_words() -> None:
    assert str(DynamicSizes.from_facts(_facts())) == "[rows: 2 to 16, 4], [2*rows + 1]"
