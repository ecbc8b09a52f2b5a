"""Each op that cpuaccel overrides, called in each way: torch's result in float64, or torch's error.

`make test` runs a sample of the cells, `make test-full` (CPUACCEL_TEST_CALLS=whole) all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ops._floats import on
from quant._engine import counted, needs_plugin

from calls import known
from calls._child import problems
from calls._row import Row
from calls.cells import Cell, check, selected
from calls.ops import COMPILED_ALONE, ROWS
from cpuaccel import _native

pytestmark = [
    needs_plugin,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("cell", selected(), ids=str)
def test_cell(cell: Cell) -> None:
    wrong = problems(cell.way.child)[str(cell)] if cell.way.child else check(cell)
    assert not wrong, f"{cell}: {wrong}"


def test_every_overridden_kernel_has_a_row() -> None:
    rows = {(name, key) for row in ROWS for key in row.keys for name in _called(row)}
    missing = sorted(
        f"{name} ({key})"
        for name, key in _native.load().overridden_kernels()
        if (name, key) not in rows
    )
    assert not missing, f"tests/calls/ops.py has no row for {', '.join(missing)}"


def test_every_op_of_cpuaccel_has_a_row() -> None:
    _native.load()
    covered = {name for row in ROWS for name in row.covers}
    ours = {
        schema.name
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("cpuaccel::")
    }
    compiled = {f"cpuaccel::{name}" for name in COMPILED_ALONE}
    missing = sorted(ours - covered - compiled)
    assert not missing, f"tests/calls/ops.py has no row for {', '.join(missing)}"


_FALLBACKS = {
    "int_mm": "cpuaccel's kernel is for Arm",
    "lstm": "torch's oneDNN runs it in the types that it has",
    "index_add_scaled": "alpha is not 1",
    "segment_reduce_prod": "unsupported reduction",
}
_BY_CPU = ("attention", "conv", "max_pool2d", "prepacked")
"""Name prefixes of rows that run on cpuaccel on some CPUs only."""


@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if r.name not in _FALLBACKS and not r.name.startswith(_BY_CPU)],
    ids=str,
)
def test_samples_run_on_cpuaccel(row: Row) -> None:
    """Without such a sample the table would not test a kernel."""
    kinds = (torch.float32, torch.quint8, torch.int64)
    dtype = next(each for each in kinds if each in row.dtypes)
    with on(row.provider):
        samples = [sample for sample in row.samples(dtype) if sample.kind == "plain"]
        with counted() as counts:
            for sample in samples:
                row.forms.functional(*sample.args, **sample.kwargs)
    assert [name for name in counts.calls if not name.endswith(".intree")], counts.fallbacks


def test_names_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)


def test_known_faults_are_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "known-faults.md").read_text()
    fixed, _, not_fixed = page.partition("## Not fixed")
    for fault in known.FAULTS:
        number = fault.report.removeprefix("pytorch/pytorch")
        assert f"{number} |" in (fixed if fault.mended else not_fixed), fault


def _called(row: Row) -> set[str]:
    return {op.name() for op in row.forms.ops} | set(row.covers)
