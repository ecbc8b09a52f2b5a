"""benchmarks.models.comparison: its cases and columns, its file, its results, and a run of it."""

import importlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.console import Console

from benchmarks import _gpt, _plot, _plugin
from benchmarks._results import ResultsFile
from benchmarks.models.comparison import __main__ as comparison
from benchmarks.models.comparison import cases, child, run, table
from benchmarks.models.comparison.bound import bytes_of
from benchmarks.models.comparison.cases import (
    AIMS,
    BF16,
    DECODER,
    FP32,
    INT8,
    PICTURE,
    Aim,
    Case,
)
from benchmarks.models.comparison.columns import PEERS, columns
from benchmarks.models.comparison.jobs import job
from benchmarks.models.comparison.outcome import Group, groups, outcome

_STEP = Case("gpt2-tiny", BF16, 1, 1, 16)
_ENCODER = Case("bert-tiny", FP32, 2, 1, 5)


def _result(case=_ENCODER, failed=(), bound=None, **medians):
    return {
        "case": case.to_dict(),
        "times": {
            name.replace("_", "+"): {"median_ms": median} for name, median in medians.items()
        },
        "first_s": {"cpuaccel+compile": 4.0, "cpuaccel+optimize": 5.0},
        "failed": dict.fromkeys(failed, "no kernel"),
        "bound_ms": bound,
        "notes": ["about it"],
        "machine": {"cpu": "some", "threads": "1"},
    }


def _cases(batches=(1,), threads=(1,)):
    models = (*cases.CNNS, *cases.TEXT, *cases.IMAGES, *cases.DECODERS, *cases.PICTURES)
    return cases.cases(models, cases.TYPES, batches, threads, cases.SEQUENCES)


def test_twenty_cnns_and_every_group_in_one_piece():
    assert len(set(cases.CNNS)) == 20
    assert set(cases.FEWER_CNNS) < set(cases.CNNS)
    found = _cases((1, 16), (1, 2))
    assert len(set(found)) == len(found)
    borders = sum(a.group != b.group for a, b in itertools.pairwise(found))
    assert borders + 1 == len({each.group for each in found})


def test_a_decoder_step_has_one_row_and_no_fp32():
    steps = [each for each in _cases((1, 16)) if each.kind == DECODER]
    assert {(each.type, each.batch, each.tokens) for each in steps} == {
        (INT8, 1, cases.CACHE),
        (BF16, 1, cases.CACHE),
    }


def test_a_picture_is_float_and_has_batch_1():
    pictures = [each for each in _cases((1, 16)) if each.kind == PICTURE]
    assert {(each.type, each.batch, each.tokens) for each in pictures} == {
        (FP32, 1, 0),
        (BF16, 1, 0),
    }
    assert {each.model for each in pictures} == set(cases.PICTURES) > set(cases.FEWER_PICTURES)


def test_every_group_has_an_aim_and_a_column_of_ours():
    for case in _cases():
        assert (case.kind, case.type) in AIMS
        names = [each.name for each in columns(case)]
        assert "openvino" in names
        assert set(names) - PEERS.keys() >= {"cpuaccel+compile", "cpuaccel+optimize"}
        of_torch = [each for each in columns(case) if PEERS.get(each.name) in ("torch", "inductor")]
        assert all(each.in_torch or not each.peer for each in of_torch)


@pytest.mark.parametrize("case", [_STEP, _ENCODER])
def test_linear_layers_can_be_made_int8(case):
    made = job(case)
    with torch.no_grad():
        assert torch.equal(made.dynamic(made.x), made.model(made.x))


def test_a_job_is_cast_in_a_copy():
    made = job(_ENCODER)
    cast = made.cast(torch.bfloat16)
    assert {each.dtype for each in cast.model.parameters()} == {torch.bfloat16}
    assert {each.dtype for each in made.model.parameters()} == {torch.float32}
    assert cast.x.dtype == torch.int64
    assert made.cast(None) is made


def test_bytes_of_a_step():
    config = _gpt.CONFIGS["gpt2-tiny"]
    width, layers = config.width, config.layers
    weights = layers * 12 * width * width + config.vocabulary * width
    rest = layers * (9 + 4) * width + 2 * width + layers * 2 * 16 * width
    model = _gpt.build("gpt2-tiny", 1, 16)
    assert _gpt.bytes_read(model, 1, 4) == weights + 4 * rest
    with pytest.raises(ValueError, match="length: expected 1 to 16 tokens, got 17"):
        _gpt.build("gpt2-tiny", 1, 17)


def test_a_step_attends_to_its_cache():
    """Compared with attention written out in float64."""
    attention = _gpt.build("gpt2-tiny", 1, 16).double().h[0].attn
    x = torch.randn(1, 1, 32, dtype=torch.float64)
    with torch.no_grad():
        result = attention(x)
        q, k, v = attention.c_attn(x).reshape(3, 2, 16)
        keys, values = attention.cache.keys[0].clone(), attention.cache.values[0].clone()
        assert torch.equal(keys[:, -1], k)
        assert torch.equal(values[:, -1], v)
        weights = (torch.einsum("hd,hnd->hn", q, keys) / 4).softmax(-1)
        attended = torch.einsum("hn,hnd->hd", weights, values).reshape(1, 1, 32)
        assert torch.allclose(result, attention.c_proj(attended))


def test_a_step_reads_weights_and_caches_once():
    config = _gpt.CONFIGS["gpt2-tiny"]
    width, caches = config.width, 2 * config.layers * 16 * config.width
    weights = config.layers * 12 * width**2 + config.vocabulary * width
    others = config.layers * (9 + 4) * width + 2 * width
    assert bytes_of(replace(_STEP, type="bf16")) == 2 * (weights + caches + others)
    assert bytes_of(replace(_STEP, type="int8")) == weights + 4 * (caches + others)


def test_reading_takes_what_is_there():
    if _plugin.missing():
        pytest.skip("cpuaccel is not installed")
    native = importlib.import_module("cpuaccel._native").load()
    for size in (1, 1000, 1 << 20):
        assert native.reading(size)() is None
    with pytest.raises(ValueError, match="bytes: expected at least 1, got 0"):
        native.reading(0)


# The file


def test_an_interrupted_run_goes_on(tmp_path):
    path = tmp_path / "there" / "results.jsonl"
    results = ResultsFile(path, Case, resume=True)
    results.add(_ENCODER, _result(torch=1.0))
    results.add(_STEP, {"case": _STEP.to_dict(), "error": "ended by SIGSEGV"})
    again = ResultsFile(path, Case, resume=True)
    assert _ENCODER in again
    assert _STEP not in again
    again.add(_STEP, _result(_STEP, torch=2.0))
    assert list(ResultsFile(path, Case, resume=True).of([_STEP, _ENCODER])) == [_STEP, _ENCODER]
    assert _STEP in ResultsFile(path, Case, resume=True)
    assert _ENCODER not in ResultsFile(path, Case, resume=False)


@pytest.mark.parametrize("line", ["{", "[]", '{"case": {"model": "m"}}', '{"case": 1}'])
def test_a_damaged_file_is_an_error(line, tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(_result(torch=1.0)) + f"\n{line}\n")
    with pytest.raises(ValueError, match="line 2: not a result"):
        ResultsFile(path, Case, resume=True)


def test_figures_of_two_machines_are_not_mixed(tmp_path):
    results = ResultsFile(tmp_path / "results.jsonl", Case, resume=False)
    results.add(_ENCODER, _result(torch=1.0))
    assert results.machine() == {"cpu": "some"}
    results.add(_STEP, {**_result(_STEP, torch=1.0), "machine": {"cpu": "other", "threads": "2"}})
    with pytest.raises(ValueError, match="different machines or versions: cpu"):
        results.machine()


# The results


def test_the_fastest_of_our_ways_is_compared():
    medians = {"cpuaccel_compile": 2.0, "cpuaccel_optimize": 1.0, "torch": 3.0, "openvino": 0.5}
    row = outcome(_ENCODER, _result(failed=["inductor+freezing"], **medians))
    assert (row.time, row.by) == (1.0, "cpuaccel+optimize")
    assert (row.over("torch"), row.over("openvino")) == (3.0, 0.5)
    assert row.over("openvino", of="torch") == pytest.approx(0.5 / 3)
    assert row.over("openvino", of="inductor") == row.over("inductor") == "failed"
    assert row.over("zentorch") is None
    assert row.first == 5.0
    assert "| optimize | 5.0 |" in table.markdown([row])
    assert f"{_ENCODER}: inductor+freezing failed: no kernel" in row.notes


def test_ours_may_fail_too():
    row = outcome(_ENCODER, _result(failed=["cpuaccel+compile"], torch=3.0))
    assert (row.time, row.by, row.over("torch")) == (None, "failed", "failed")
    row = outcome(_ENCODER, {"case": _ENCODER.to_dict(), "error": "ended by SIGSEGV"})
    assert row.time is None
    assert row.notes == (f"{_ENCODER}: failed: ended by SIGSEGV",)


def _int8_rows(*over_openvino):
    models = cases.CNNS[: len(over_openvino)]
    return [
        outcome(
            case := Case(model, INT8, 1, 1),
            _result(case, cpuaccel_compile=2.0, openvino=2.0 * ratio, x86=6.0),
        )
        for model, ratio in zip(models, over_openvino, strict=True)
    ]


@pytest.mark.parametrize(
    ("ratios", "met"), [((1.0, 1.69), True), ((1.0, 1.2), False), ((0.9, 4.0), False)]
)
def test_an_aim_has_a_mean_and_a_least(ratios, met):
    (group,) = groups(_int8_rows(*ratios))
    aim = group.aim("openvino")
    assert aim == Aim("openvino", mean=1.25, each=1.0)
    assert group.is_met(aim) is met


def test_an_aim_is_not_met_where_a_row_of_it_failed():
    failed = outcome(
        case := Case("vgg16", INT8, 1, 1), {"case": case.to_dict(), "error": "ended by SIGSEGV"}
    )
    group = Group((*_int8_rows(2.0), failed))
    assert not group.is_met(group.aim("openvino"))


def test_the_share_of_the_bound():
    row = outcome(_STEP, _result(_STEP, bound=9.0, cpuaccel_compile=10.0))
    assert row.over("bound") == pytest.approx(0.9)
    (group,) = groups([row])
    assert group.is_met(group.aim("bound"))
    assert "| 90% |" in table.markdown([row])


def test_the_table_has_a_mean_and_the_aims_under_each_group():
    rows = [*_int8_rows(1.02, 2.0), outcome(_STEP, _result(_STEP, bound=1.0, torch=1.0))]
    text = io.StringIO()
    table.print_table(Console(file=text, width=200), rows)
    lines = [line for line in text.getvalue().splitlines() if "│" in line]
    assert [line.split("│")[1].strip() for line in lines] == [
        *("alexnet", "vgg16", "geomean of 2", "lowest", "aim"),
        *("gpt2-tiny, 16 tokens", "geomean of 1", "aim"),
    ]
    assert "1.43x" in lines[2]
    assert "1.02x" in lines[3]
    assert "1.25, each 1: met" in lines[4]
    assert "failed" in lines[5]
    assert "| CNN, int8, batch 1, 1 thread | 2 |" in table.summary(rows)
    assert "1.43 (1.02)" in table.summary(rows)


# A run


def test_a_column_that_ends_the_process_is_left_out(monkeypatch):
    tried = []

    def failure(command, threads, patience):
        def given(option):
            return command[command.index(option) + 1]

        tried.append(given("--without"))
        broken = {"": "zentorch", "zentorch": "openvino"}.get(given("--without"))
        if broken:
            with open(given("--status"), "w") as file:
                file.write(broken)
            return "ended by SIGSEGV"
        with open(given("--result"), "w") as file:
            json.dump(_result(torch=1.0), file)
        return ""

    monkeypatch.setattr(run, "_failure", failure)
    result = run.run_case(_ENCODER, peers=[], rounds=1, budget=0.0, patience=1.0)
    assert tried == ["", "zentorch", "zentorch,openvino"]
    assert result["failed"] == dict.fromkeys(["zentorch", "openvino"], "ended by SIGSEGV")


def test_a_case_that_takes_too_long_is_ended():
    result = run.run_case(_ENCODER, peers=[], rounds=1, budget=0.0, patience=0.05)
    assert result == {"case": _ENCODER.to_dict(), "error": "did not finish in 0.05 s"}


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise ValueError('no such thing')", "ValueError: no such thing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("raise SystemExit(3)", "exit 3"),
        ("pass", ""),
    ],
)
def test_a_process_that_fails_says_why(program, why):
    found = run._failure([sys.executable, "-S", "-c", program], threads=1, patience=60.0)
    assert found.endswith(why) if why else found == ""


def test_a_case_ends_with_who_measures_it(tmp_path):
    flags = ("--models", "bert-tiny", "--rounds", "1", "--results", str(tmp_path / "out.jsonl"))
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.models.comparison", *flags], stderr=subprocess.PIPE
    ) as measuring:
        children = Path(f"/proc/{measuring.pid}/task/{measuring.pid}/children")
        deadline = time.monotonic() + 120
        while not children.read_text():
            assert measuring.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        case = Path("/proc", children.read_text().strip())
        # Between fork and exec the child still has the memory of its parent.
        while not (
            b"comparison.child" in (case / "cmdline").read_bytes()
            and "libtorch" in (case / "maps").read_text()
        ):
            assert measuring.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        measuring.send_signal(signal.SIGTERM)
        _, said = measuring.communicate(timeout=60)
    assert b"interrupted; to continue with" in said
    assert not case.exists()


def test_end_to_end(tmp_path, monkeypatch, capsys):
    """Each case runs in its own process, and a finished case is not measured again."""
    if _plugin.missing():
        pytest.skip("cpuaccel is not installed")
    paths = {name: tmp_path / f"out.{name}" for name in ("jsonl", "md")}
    flags = [
        *("--models", "bert-tiny", "--sequences", "5", "--types", "fp32", "--peers", "torch"),
        *("--rounds", "1", "--budget", "0", "--results", str(paths["jsonl"])),
        *("--markdown", str(paths["md"])),
    ]
    comparison.main(flags)
    (line,) = paths["jsonl"].read_text().splitlines()
    results = json.loads(line)
    assert results["times"].keys() | results["failed"].keys() == {
        *("torch", "cpuaccel+compile", "cpuaccel+optimize")
    }
    assert {"torch", "cpuaccel+compile"} <= results["times"].keys()
    printed = capsys.readouterr().out
    assert "bert-tiny, 5 tokens" in printed
    assert "geomean of 1" in printed
    assert "geomean of 1 | fp32" in paths["md"].read_text()
    monkeypatch.setattr(comparison, "run_case", partial(pytest.fail, "measured again"))
    comparison.main([*flags, "--resume"])
    assert paths["jsonl"].read_text() == line + "\n"


def test_a_step_is_measured_beside_its_bound(tmp_path):
    if _plugin.missing():
        pytest.skip("cpuaccel is not installed")
    wanted = [each for each in columns(_STEP) if each.name == "torch"]
    result = child.measure(_STEP, wanted, 1, 0.0, tmp_path / "status")
    assert result["bound_ms"] > 0
    assert result["times"].keys() == {"torch"}
    assert (tmp_path / "status").read_text() == ""


def test_the_plot_has_what_openvino_ran(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [*_int8_rows(1.02, 2.0), outcome(_STEP, _result(_STEP, bound=1.0, torch=1.0))]
    path = tmp_path / "plot.png"
    _plot.require()
    table.plot(rows, {"cpu": "some"}, path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--models", "nothing"], "unknown model 'nothing'; known: alexnet"),
        (["--peers", "nothing"], "unknown peer 'nothing'; known: torch"),
        (["--threads", "100000"], f"at most {len(os.sched_getaffinity(0))}, the number of CPUs"),
        (["--batch", "0"], "--batch: expected at least 1, got 0"),
    ],
)
def test_arguments_are_checked(flags, said, capsys):
    with pytest.raises(SystemExit):
        comparison.main(flags)
    assert said in capsys.readouterr().err
