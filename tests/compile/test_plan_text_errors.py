"""What csrc/plan/region.cpp rejects, because the text of a plan may come from a file."""

from __future__ import annotations

import pytest

from compile._compiled import needs_onednn
from cpuaccel import _native

pytestmark = needs_onednn

_START = "graph 1 test\nvalue 0 f32 2x3\nvalue 1 f32 2x3\nvalue 2 f32 2x3\ninput 0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph 2 test", "a line of a graph of version 1"),
        ("nonsense", "a line of a graph of version 1"),
        ("graph 1 x\nvalue 0 f99 2x3", "a type"),
        ("graph 1 x\nvalue 0 f32 2xa", "a number"),
        ("graph 1 x\ninput 7", "a value that is made once"),
        (f"{_START}input 0", "a value that is made once"),
        (f"{_START}output 1 contiguous", "an output that is made"),
        (f"{_START}output 0 sideways", "contiguous or channels_last"),
        (f"{_START}op ReLU in 0 out 1", "an op in a partition"),
        (f"{_START}partition\nop Frobnicate in 0 out 1", "a kind of op"),
        (f"{_START}partition\nop ReLU in 2 out 1", "a value that was made before"),
        (f"{_START}partition\nop ReLU in 0 out 0", "a value that is made once"),
        (f"{_START}partition\nop Elu in 0 out 1 alpha=f:x", "a number"),
        (f"{_START}partition\nop Elu in 0 out 1 alpha=1", "attribute=type:value"),
        (f"{_START}partition\nop Elu in 0 out 1 alphas=f:1", "an attribute"),
        (f"{_START}partition\nop Elu in 0 out 1 alpha=q:1", "f, fs, i, is, b or s"),
    ],
)
def test_a_bad_plan_text_raises_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"graph: expected {message}"):
        _native.load().uncompilable_reasons(text)


def test_fallbacks_of_onednn_are_reported() -> None:
    text = f"{_START}partition\nop ReLU in 0 out 1\nop Exp in 0 out 2"
    (reason,) = _native.load().uncompilable_reasons(text)
    assert reason


def test_the_log_says_why_step_makers_declined() -> None:
    native, messages = _native.load(), list[str]()
    native.set_log_sink(messages.append)
    try:
        native.uncompilable_reasons(f"{_START}partition\nop ReLU in 0 out 1")
    finally:
        native.set_log_sink(None)
    (message,) = messages
    assert message.startswith("plan step of ReLU: partition; not norm: ")
    makers = ("registered kind", "concat chain", "batch norm", "sum", "gate", "few rows", "layer")
    assert all(f"; not {maker}: " in message for maker in makers), message
