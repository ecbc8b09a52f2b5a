"""Benchmark reports: ratios, geometric means, the table, the JSON file and the plot."""

import io
import json

import pytest
from rich.console import Console

from benchmarks._report import Ratio, Report, Row, geomean, not_measured
from benchmarks._timing import Sample


def _report() -> Report:
    rows = [
        Row("one", {"slow": Sample((4e-3,)), "fast": Sample((1e-3,))}),
        Row("two", {"slow": Sample((1e-3,)), "fast": Sample((1e-3,))}),
    ]
    ratios = [Ratio("fast", "slow"), Ratio("absent", "slow")]
    return Report("title", {"cpu": "some"}, ["slow", "fast"], ratios, rows=rows)


def test_geomean():
    assert geomean([1.0, 4.0]) == pytest.approx(2.0)
    assert geomean([]) is None


def test_a_faster_subject_is_above_one():
    report = _report()
    assert report.ratios[0].of(report.rows[0].samples) == pytest.approx(4.0)
    assert report.geomean_ratio(report.ratios[0]) == pytest.approx(2.0)


def test_ratio_of_an_absent_column_is_none():
    report = _report()
    assert report.ratios[1].of(report.rows[0].samples) is None
    assert report.present_ratios() == [report.ratios[0]]


def test_time_of_a_column_with_gaps_has_no_geomean():
    report = _report()
    report.rows.append(Row("three", {"slow": Sample((1.0,))}))
    assert report.geomean_time("fast") is None


def test_geomean_is_the_last_row():
    text = io.StringIO()
    _report().print(Console(file=text, width=120))
    last = [line for line in text.getvalue().splitlines() if "│" in line][-1]
    assert "geomean" in last
    assert "2.00x" in last


def test_json(tmp_path):
    path = tmp_path / "out.json"
    _report().write_json(path)
    document = json.loads(path.read_text())
    assert document["geomean"] == {"fast over slow": pytest.approx(2.0)}
    assert document["rows"][0]["times"]["slow"]["median_ms"] == pytest.approx(4.0)


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks._plot import write_plot

    path = tmp_path / "out.png"
    write_plot(_report(), path, base="slow")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_reasons_are_said_once():
    assert not_measured({"a": "no", "b": "", "c": "no"}) == ["not measured: a, c: no"]
