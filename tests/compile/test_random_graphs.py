"""Random graphs agree with eager mode, in their regions and in the ops around them.

60 of them run, or all 500 under hypothesis' profile "thorough". A few also run through Inductor.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from compile._compiled import needs_onednn
from compile._random_graphs import RandomModel, draw
from compile._random_ops import OPS
from compile._rewritten import agree, check
from cpuaccel import _native
from cpuaccel.compile.partition import cost

pytestmark = needs_onednn

_ALL = settings().max_examples > 100
_FOUND = (114, 144, 294, 310, 388, 439)  # seeds that once found a fault
_SEEDS = range(500) if _ALL else (*range(60), *_FOUND)
_WHOLE_WAY = range(1000, 1010)

_native_module = _native.native()
_HAS_BF16 = _native_module is not None and _native_module.has_bf16_arithmetic()


def _graph(seed: int) -> tuple[RandomModel, list[Tensor]]:
    """Return the model of a seed; every third is bf16 if the CPU has bf16 arithmetic."""
    bf16 = seed % 3 == 2 and _HAS_BF16
    model, inputs = draw(seed, OPS, bf16)
    if bf16:
        model, inputs = model.bfloat16(), [each.bfloat16() for each in inputs]
    return model, inputs


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_is_taken(seed: int) -> None:
    model, inputs = _graph(seed)
    check(model, *inputs)


@pytest.mark.parametrize("seed", _SEEDS if _ALL else (*_SEEDS[:60:3], *_FOUND))
def test_everything_that_onednn_has(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that the table would leave to Inductor are correct too."""
    monkeypatch.setattr(cost, "choose", lambda _: cost.Choice(True, "all"))
    model, inputs = _graph(seed)
    check(model, *inputs)


@pytest.mark.parametrize("seed", _WHOLE_WAY if _ALL else _WHOLE_WAY[:3])
def test_the_whole_way(seed: int) -> None:
    model, inputs = _graph(seed)
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
        for _ in range(2):
            agree(compiled(*inputs), model, inputs)
