"""Enabling and disabling: disabling restores torch's kernels, also in models converted before."""

from __future__ import annotations

import pytest
import torch
from _settings import setting
from torch import nn

from quant import _models as m
from quant._engine import counted, engine, needs_front_end, running

pytestmark = needs_front_end
kinds = pytest.mark.parametrize("kind", m.KINDS)


@pytest.fixture(autouse=True)
def _switch():
    """Every test starts and ends with cpuaccel enabled."""
    import cpuaccel

    with running("auto"):
        yield
        cpuaccel.enable()


@kinds
def test_a_model_converted_before_runs_on_torch_while_off(kind: str) -> None:
    import cpuaccel

    model, x = m.build(kind)
    with counted() as counts:
        expected = m.output(model, x)
    assert counts.ours() > 0
    cpuaccel.disable()
    assert not cpuaccel.is_enabled()
    with counted() as counts:
        off = m.output(model, x)
    assert not counts.calls
    assert float((off - expected).norm()) <= 0.02 * float(expected.norm())
    cpuaccel.enable()
    with counted() as counts:
        again = m.output(model, x)
    assert counts.ours() > 0
    assert torch.equal(again, expected)


@kinds
def test_off_is_exactly_torch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model converted while enabled, run while disabled, equals one converted while disabled."""
    import cpuaccel

    calibrate = m._calibrate

    def by_torch(model: nn.Module, x: torch.Tensor) -> None:
        # Other float kernels round differently, and the last bits of scales would differ.
        with cpuaccel.enabled(False):
            calibrate(model, x)

    monkeypatch.setattr(m, "_calibrate", by_torch)
    model, x = m.build(kind)
    with cpuaccel.enabled(False):
        theirs, _ = m.build(kind)
        assert torch.equal(m.output(model, x), m.output(theirs, x))


@kinds
def test_a_model_converted_while_off_stays_torchs(kind: str) -> None:
    import cpuaccel

    with cpuaccel.enabled(False), counted() as counts:
        model, x = m.build(kind)
        expected = m.output(model, x)
    assert not counts.prepacks
    with counted() as counts:
        assert torch.equal(m.output(model, x), expected)
    assert counts.ours() == 0
    assert counts.intree() == 0


def test_contexts_nest_and_restore() -> None:
    import cpuaccel

    seen = []
    with cpuaccel.enabled(False):
        seen.append(cpuaccel.is_enabled())
        with cpuaccel.enabled(True):
            seen.append(cpuaccel.is_enabled())
            with cpuaccel.enabled():
                seen.append(cpuaccel.is_enabled())
            seen.append(cpuaccel.is_enabled())
        seen.append(cpuaccel.is_enabled())
    seen.append(cpuaccel.is_enabled())
    assert seen == [False, True, True, True, False, True]


def test_a_context_restores_after_an_error() -> None:
    import cpuaccel

    with pytest.raises(KeyError), cpuaccel.enabled(False):
        raise KeyError("from the block")
    assert cpuaccel.is_enabled()


def test_calling_twice_changes_nothing() -> None:
    import cpuaccel

    cpuaccel.enable()
    cpuaccel.enable()
    assert cpuaccel.is_enabled()
    cpuaccel.disable()
    cpuaccel.disable()
    assert not cpuaccel.is_enabled()


@pytest.mark.parametrize("name", ["fbgemm", "onednn", "qnnpack"])
def test_other_engines_are_left_alone(name: str) -> None:
    with engine(name), counted() as counts:
        model, x = m.build("conv2d")
        m.output(model, x)
    assert not counts.prepacks
    assert counts.ours() == 0  # of layers; the float calibration runs on cpuaccel, as it should
    assert counts.intree() == 0


@pytest.mark.parametrize("provider", ["onednn", "fbgemm"])
def test_a_provider_serves_what_is_packed_while_it_is_set(provider: str) -> None:
    with running(provider):
        model, x = m.build("conv2d")
    with counted() as counts:
        m.output(model, x)
    assert counts.calls.get(f"conv2d.{provider}", 0) == 3


def test_intree_may_be_asked_for() -> None:
    with running("auto"):
        model, x = m.build("linear")
        expected = m.output(model, x)
    with setting("provider", "intree"):
        theirs, _ = m.build("linear")
        with counted() as counts:
            actual = m.output(theirs, x)
    assert counts.ours() == 0
    assert float((actual - expected).norm()) <= 0.02 * float(expected.norm())


@pytest.mark.parametrize(
    ("name", "value"), [("provider", "mkl"), ("provider", 3), ("nothing", 1), ("enabled", True)]
)
def test_a_setting_that_cannot_be_says_so(name: str, value: object) -> None:
    import cpuaccel

    with pytest.raises(ValueError, match="expected"):
        cpuaccel.config.set(name, value)
