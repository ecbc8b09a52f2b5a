"""Peers and the fused column are omitted with a reason; a failing peer does not end a run."""

import io
import os
from functools import partial

import pytest
import torch
from quant._engine import needs_front_end
from rich.console import Console
from torch import nn

from benchmarks import _plugin
from benchmarks._report import Ratio, Report
from benchmarks.models import _columns, _onnxruntime, _openvino, _peers
from benchmarks.models._columns import Column
from benchmarks.models._job import Job
from benchmarks.models._run import first_output, time_job


def _job(batch: int = 1) -> Job:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten()).eval()
    return Job(
        model, [torch.randn(2, 3, 8, 8), torch.randn(1, 3, 8, 8)], torch.randn(batch, 3, 8, 8)
    )


def _double(job: Job):
    return lambda: [2 * job.model(job.x).numpy()]


def _fp32(job: Job):
    return partial(job.model, job.x)


def _refuse(job: Job):
    raise RuntimeError(f"no kernel for batch {job.x.shape[0]}\nand a long story")


def test_missing_names_the_packages_and_how_to_get_them():
    reason = _peers.missing("torch", "surely_absent", "as_absent")
    assert reason.startswith("surely_absent, as_absent not installed: pip install")
    assert _peers.missing("torch") == ""


@pytest.mark.parametrize("peer", [_onnxruntime, _openvino])
def test_a_peer_says_why_it_is_left_out(peer, monkeypatch):
    monkeypatch.setattr(_peers.importlib.util, "find_spec", lambda name: None)
    assert "pip install -r requirements/peers.txt" in peer.missing()


def test_choose_says_why_a_column_is_left_out(monkeypatch):
    columns = (
        Column("here", _double, note=lambda: "about it"),
        Column("gone", _double, missing=lambda: "no"),
    )
    monkeypatch.setattr(_columns, "COLUMNS", columns)
    chosen, notes = _columns.choose([])
    assert [column.name for column in chosen] == ["here"]
    assert notes == ["about it", "not measured: gone: no"]


def test_a_model_that_a_peer_refuses_leaves_its_cell_empty():
    columns = [Column("plain", _fp32), Column("peer", _refuse, peer=True)]
    row, notes = time_job("m", _job(), columns, rounds=1, budget=0.0)
    assert set(row.samples) == {"plain"}
    assert notes == ["m: peer cannot run it: no kernel for batch 1"]


def test_a_column_of_ours_that_fails_ends_the_run():
    with pytest.raises(RuntimeError, match="no kernel"):
        time_job("m", _job(), [Column("ours", _refuse)], rounds=1, budget=0.0)


def test_signal_over_error_against_fp32():
    row, _ = time_job("m", _job(), [Column("peer", _double, peer=True)], rounds=1, budget=0.0)
    assert row.extra["sqnr_db"]["peer"] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("wrap", [lambda y: y, lambda y: [y.numpy()], lambda y: {"out": y.numpy()}])
def test_first_output(wrap):
    y = torch.arange(3.0)
    assert torch.equal(first_output(wrap(y)), y)


@pytest.mark.parametrize(("batch", "count"), [(1, 3), (2, 2), (3, 1), (8, 1)])
def test_calibration_batches_have_the_size_that_is_timed(batch, count):
    job = _job(batch)
    batches = _peers.calibration_batches(job)
    assert [part.shape for part in batches] == [(batch, 3, 8, 8)] * count
    seen = torch.cat([torch.from_numpy(part) for part in batches])
    assert torch.equal(seen[:3], torch.cat(job.calibration)[: len(seen)][:3])
    assert seen.max() == torch.cat(job.calibration).max()


def test_preparing_is_silent_and_leaves_no_trace(capsys, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with torch.inference_mode(), _peers.preparing():
        print("progress")
        assert not torch.is_inference_mode_enabled()
        assert os.environ["CI"] == "true"
    assert "CI" not in os.environ
    assert capsys.readouterr().out == ""


@needs_front_end
def test_fuse_is_missing_until_the_plugin_has_it(monkeypatch):
    import cpuaccel.quant

    monkeypatch.setattr(cpuaccel.quant, "fuse", None, raising=False)
    monkeypatch.delattr(cpuaccel.quant, "fuse")
    assert _plugin.fuse_missing() == "cpuaccel has no quant.fuse"
    monkeypatch.setattr(cpuaccel.quant, "fuse", lambda model: model, raising=False)
    assert _plugin.fuse_missing() == ""
    row, _ = time_job("m", _job(), _columns.choose(["cpuaccel+fuse"])[0], rounds=1, budget=0.0)
    assert row.extra["calls"]["cpuaccel+fuse"]


def test_many_ratios_get_a_table_of_their_own():
    row, _ = time_job("m", _job(), [Column(n, _double) for n in "abcd"], rounds=1, budget=0.0)
    ratios = [Ratio(subject, base) for subject in "abc" for base in "bcd"]
    report = Report("title", {}, list("abcd"), ratios, rows=[row])
    text = io.StringIO()
    report.print(Console(file=text, width=200))
    assert text.getvalue().count("geomean") == 2
