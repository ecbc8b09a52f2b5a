"""`dynamic=True`: a graph or two for all sizes, with the regions of fixed ones; bf16: test_bf16."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from compile._transformers import WIDTH, Layer, needs_attention
from cpuaccel.compile.common import report

pytestmark = needs_onednn

LENGTHS = (17, 29, 43, 61, 87, 101, 13, 73, 31, 57, 11, 83)


def _made_ready() -> int:
    return int(cpuaccel.stats()["graph_cache"]["misses"])


def check_sizes(
    model: nn.Module,
    inputs: Sequence[Tensor],
    within: AbstractContextManager[Any] | None = None,
    atol: float = 1e-4,
) -> report.Report:
    """Call `model` twice with all of `inputs`; return the report of its graph.

    At most two graphs are compiled, and nothing in the second turn.
    """
    model = model.eval()
    torch._dynamo.reset()
    report.clear()
    compiled = torch.compile(model, backend="cpuaccel", dynamic=True, fullgraph=True)
    graphs = counters["stats"]["unique_graphs"]
    with torch.no_grad(), within or nullcontext():
        for turn in range(2):
            ready = _made_ready()
            for x in inputs:
                torch.testing.assert_close(compiled(x), model(x), atol=atol, rtol=1e-3)
            if turn == 0:
                assert counters["stats"]["unique_graphs"] - graphs <= 2
                found = report.reports()[-1]
                assert _made_ready() - ready == len(inputs) * len(found.regions)
            else:
                assert _made_ready() == ready
    assert counters["stats"]["unique_graphs"] - graphs <= 2
    return found


def rows(batches: Sequence[int]) -> list[Tensor]:
    """Return an input of each of `LENGTHS`, with these batch sizes in turn."""
    return [
        torch.randn(batches[at % len(batches)], length, WIDTH) for at, length in enumerate(LENGTHS)
    ]


def regions_of_fixed_sizes(
    model: nn.Module, within: AbstractContextManager[Any] | None = None
) -> Any:
    """Return the regions of `model` compiled for one size."""
    torch._dynamo.reset()
    report.clear()
    with torch.no_grad(), within or nullcontext():
        torch.compile(model.eval(), backend="cpuaccel", dynamic=False)(torch.randn(2, 30, WIDTH))
    (found,) = report.reports()
    return found.regions


@needs_attention
def test_batches_and_lengths_of_an_encoder() -> None:
    torch.manual_seed(0)
    model = Layer(True)
    found = check_sizes(model, rows((2, 4, 1, 3)))
    assert found.regions == regions_of_fixed_sizes(model)
    assert len(found.regions) == 1


def test_a_view_to_a_size_that_its_source_has_not() -> None:
    torch.manual_seed(0)

    def quarters(self: Any, x: Tensor) -> Tensor:
        return self.last(self.first(x).view(x.shape[0], 4 * x.shape[1], WIDTH // 4))

    model = Lambda(quarters, first=nn.Linear(WIDTH, WIDTH), last=nn.Linear(WIDTH // 4, 8))
    found = check_sizes(model, rows((2, 4, 3)))
    assert found.kinds() == [("MatMul",), ("view",), ("MatMul",)]
    assert len(found.regions) == 1


def test_a_view_with_dynamic_sizes_of_the_input_is_a_fallback() -> None:
    torch.manual_seed(0)

    def apart(self: Any, x: Tensor) -> Tensor:
        flat = self.first(x.flatten(0, 1)).relu()
        return self.last(flat.view(x.shape[0], x.shape[1], WIDTH).transpose(0, 1))

    layers = {name: nn.Linear(WIDTH, WIDTH) for name in ("first", "last")}
    found = check_sizes(Lambda(apart, **layers), rows((4, 6, 10)))
    assert "a view with several dynamic sizes that its source lacks" in {
        left.reason for left in found.left
    }
