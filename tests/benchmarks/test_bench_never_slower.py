"""benchmarks.ops.never_slower has a case for every override, and lists the slower ones."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import _plugin
from benchmarks._quantize import quiet
from benchmarks.ops.never_slower import __main__ as never_slower
from benchmarks.ops.never_slower._case import Case
from benchmarks.ops.never_slower._cases import all_cases, overrides, without_case
from benchmarks.ops.never_slower._listing import Listing, Result
from benchmarks.ops.never_slower._measure import Speed

pytestmark = pytest.mark.skipif(bool(_plugin.missing()), reason=_plugin.missing())
_CASES = all_cases()
# The first case of each op is its smallest.
_SMALLEST = list({(case.op, case.key): case for case in reversed(_CASES)}.values())


def test_every_override_has_a_case():
    assert without_case(overrides(), _CASES) == []


def test_an_override_without_a_case_is_named():
    assert without_case([("aten::mm", "CPU"), ("aten::new_op", "CPU")], _CASES) == [
        "aten::new_op (CPU)"
    ]


def test_the_benchmark_ends_with_the_name_of_an_override_without_a_case(monkeypatch):
    monkeypatch.setattr(never_slower, "overrides", lambda: [("aten::new_op", "CPU")])
    with pytest.raises(SystemExit, match=r"no case for aten::new_op \(CPU\)"):
        never_slower.main(["--names"])


def test_names_are_distinct():
    names = [case.name for case in _CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("plugin", [False, True])
@pytest.mark.parametrize("case", _SMALLEST, ids=lambda case: case.name)
def test_the_smallest_case_of_each_op_runs(case, plugin):
    with torch.no_grad(), quiet(), _plugin.enabled(plugin), case.engine(plugin):
        case.runner(plugin)()


def _result(ratio: float, spread: float) -> Result:
    ratios = (ratio - spread, ratio, ratio + spread)
    speed = Speed(ratios, 1e3, 1e3 / ratio)
    return Result(
        Case("aten::mm", "CPU", f"{ratio}", lambda: list), 1, {"cpu": speed, "wall": speed}
    )


def test_what_is_listed_is_slower_beyond_its_spread():
    noisy, slow, level = _result(0.95, 0.1), _result(0.9, 0.02), _result(0.98, 0.0)
    listing = Listing({}, [noisy, slow, level], ["cpu", "wall"], 0.97)
    assert listing.slower() == [slow]
    assert listing.notes()[0].startswith("1 of 3 cases are below 0.97")


def test_results_are_written(tmp_path: Path):
    files = {name: tmp_path / f"found.{name}" for name in ("json", "csv", "markdown")}
    arguments = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    never_slower.main(
        ["--ops", "aten::silu_", "--filter", "f32 1", "--threads", "1", "--rounds", "1", *arguments]
    )
    results = json.loads(files["json"].read_text())["results"]
    assert results
    assert {"cpu_ratio", "wall_q3", "op", "threads"} <= set(results[0])
    assert len(files["csv"].read_text().splitlines()) == len(results) + 1
    assert "cases are below 0.97" in files["markdown"].read_text()
