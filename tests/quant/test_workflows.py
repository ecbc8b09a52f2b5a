"""The ways in which users quantize a model; none of them mentions cpuaccel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from quant import _models as m
from quant._engine import INTREE, counted, needs_front_end, running

Workflow = Callable[[], tuple[nn.Module, Tensor]]


def _stacked_lstm() -> nn.Module:
    return nn.Sequential(nn.LSTM(12, 10, num_layers=2, bidirectional=True))


_WORKFLOWS: dict[str, tuple[Workflow, dict[str, int]]] = {
    "prepare_fx": (
        lambda: (m.static_fx(m.seeded(m.small_cnn), m.image()), m.image(5)),
        {"conv2d": 3, "linear": 1},
    ),
    "prepare_qat_fx": (
        lambda: (m.qat_fx(m.seeded(m.small_cnn), m.image()), m.image(5)),
        {"conv2d": 3, "linear": 1},
    ),
    "prepare_fx of a residual model": (
        lambda: (m.static_fx(m.seeded(m.Residual), m.image()), m.image(5)),
        {"conv2d": 2},
    ),
    "prepare_fx of functional calls": (
        lambda: (m.static_fx(m.seeded(m.Functional), m.image()), m.image(5)),
        {"conv2d": 1, "linear": 1},
    ),
    "eager with stubs and fuse_modules": (
        lambda: (m.eager_static(m.seeded(m.Stubbed), m.image()), m.image(5)),
        {"conv2d": 1, "linear": 1},
    ),
    "quantize_dynamic of Linear": (
        lambda: (
            m.dynamic(m.seeded(lambda: nn.Sequential(nn.Linear(12, 9), nn.Linear(9, 4)))),
            torch.randn(4, 12),
        ),
        {"linear_dynamic": 2},
    ),
    # Two linears for each step, layer and direction; a sequence of five.
    "quantize_dynamic of LSTM": (
        lambda: (m.dynamic(m.seeded(_stacked_lstm)), torch.randn(5, 2, 12)),
        {"linear_dynamic": 4 + 4 * 5},
    ),
    "quantize_dynamic of GRU": (
        lambda: (m.dynamic(m.seeded(lambda: nn.Sequential(nn.GRU(12, 10)))), torch.randn(5, 2, 12)),
        {"linear_dynamic": 1 + 5},
    ),
}
workflows = pytest.mark.parametrize("name", _WORKFLOWS)


@needs_front_end
def test_conv1d_that_pads_by_reflection() -> None:
    """Its module pads itself and passes a padding of two zeros to the one-dimensional op."""
    x = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(0))
    model = m.seeded(
        lambda: nn.Sequential(nn.Conv1d(4, 6, 3, padding=2, padding_mode="reflect"), nn.ReLU())
    )
    outputs = {}
    for backend in ("auto", INTREE):
        with running(backend), torch.no_grad(), counted() as counts:
            outputs[backend] = m.static_fx(model, x)(x)
        assert (counts.ours("conv2d") > 0) == (backend == "auto")
    step = outputs[INTREE].abs().max() / 100
    torch.testing.assert_close(outputs["auto"], outputs[INTREE], rtol=0, atol=float(step))


@needs_front_end
@workflows
def test_runs_on_our_engine(name: str) -> None:
    workflow, expected = _WORKFLOWS[name]
    torch.manual_seed(1)
    with running("auto"), torch.no_grad():
        model, x = workflow()
        with counted() as counts:
            model(x)
        with counted() as again:
            model(x)
    assert {op: counts.ours(op) for op in expected} == expected
    assert counts.intree() == 0
    assert not counts.fallbacks
    assert counts.prepacks, "no layer was packed"
    assert again.without_copies() == counts.without_copies()
    assert not again.prepacks, "a layer was packed again"


@workflows
def test_is_repeatable_on_torch(name: str) -> None:
    """The other tests rely on this: the same steps give the same model."""
    outputs = []
    for _ in range(2):
        torch.manual_seed(1)
        with running(INTREE), torch.no_grad():
            model, x = _WORKFLOWS[name][0]()
            outputs.append(m.first(model(x)))
    assert torch.equal(*outputs)


@needs_front_end
@workflows
def test_outputs_agree_with_torchs(name: str) -> None:
    outputs = []
    for backend in (INTREE, "auto"):
        torch.manual_seed(1)
        with running(backend), torch.no_grad():
            model, x = _WORKFLOWS[name][0]()
            outputs.append(m.first(model(x)))
    expected, actual = outputs
    error, signal = (actual - expected).norm(), expected.norm()
    assert float(error) <= 0.02 * float(signal)
