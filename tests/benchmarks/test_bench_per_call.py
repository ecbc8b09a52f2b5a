"""The ops of the per-call benchmark, and its results."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from benchmarks import _plugin
from benchmarks._quantize import quantized_engine, quiet
from benchmarks._report import Row
from benchmarks._timing import Sample
from benchmarks.ops import per_call
from benchmarks.ops._tiny import TINY_OPS

_NOOPS = (Path(per_call.__file__).parent / "noop.cpp").read_text()


@pytest.mark.parametrize("plugin", [False, True])
@pytest.mark.parametrize("op", TINY_OPS, ids=lambda op: op.name)
def test_every_operator_takes_its_arguments(op, plugin):
    if plugin and _plugin.missing():
        pytest.skip(_plugin.missing())
    with quiet(), quantized_engine("x86"), _plugin.enabled(plugin):
        assert torch.is_tensor(op.op(*op.arguments()))
    assert f'"{op.noop}"' in _NOOPS


def test_operators_are_distinct():
    assert len({op.name for op in TINY_OPS}) == len(TINY_OPS)


def _row() -> Row:
    times = {"torch": 900e-9, "no-op, input": 100e-9, "no-op, fresh": 600e-9}
    return Row("some::op", {name: Sample((seconds,)) for name, seconds in times.items()})


def test_overhead_is_over_the_no_op_with_a_fresh_output():
    assert per_call.overhead(_row(), "torch") == pytest.approx(300e-9)
    assert per_call.overhead(_row(), "cpuaccel") is None
    figures = per_call.to_dict(_row())
    assert figures["overhead_ns"] == {"torch": pytest.approx(300)}
    assert figures["median_ns"]["no-op, input"] == pytest.approx(100)


def test_table_leaves_out_what_was_not_measured():
    text = io.StringIO()
    Console(file=text, width=140).print(per_call.table_of([_row()]))
    line = next(line for line in text.getvalue().splitlines() if "some::op" in line)
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert cells == ["some::op", "900", "-", "100", "600", "300", "-", "0%"]


def test_an_unknown_operator_ends_with_the_known_ones():
    with pytest.raises(SystemExit, match="known: quantized::conv2d"):
        per_call.main(["--ops", "nothing"])
