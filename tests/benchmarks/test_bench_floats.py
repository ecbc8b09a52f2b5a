"""The benchmarks of float models and products, from end to end on small inputs."""

import argparse
import json
import re
from contextlib import contextmanager

import pytest
import torch
from _settings import setting
from torch import nn

from benchmarks import _machine, _plugin
from benchmarks.models import (
    _compiled,
    _float_columns,
    _float_models,
    _zentorch,
    cold_compile,
    dynamic,
    fp32,
    learning,
    new_sizes,
    peak_memory,
    saved_load,
    train_step,
)
from benchmarks.models._columns import choose
from benchmarks.models._job import Job
from benchmarks.models._modes import MODES, mode
from benchmarks.models._run import time_job
from benchmarks.ops import _peaks, matmul, sixteen_bits
from benchmarks.ops._kernel_results import KernelResult
from benchmarks.ops._peaks import MachinePeaks
from benchmarks.ops._products import SHAPES, ProductShape
from cpuaccel._native import load

_TINY = "bert-tiny"
_SMALL = ("--models", _TINY, "--rounds", "1", "--batch", "2", "--sequence", "5")


def _present(columns: list[str]) -> list[str]:
    return [name for name in columns if name == "torch" or not _plugin.missing()]


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_fp32_end_to_end(name, tmp_path, capsys):
    path = tmp_path / "out.json"
    flags = ["--engines", "torch,cpuaccel", "--mode", name, "--json", str(path)]
    fp32.main([*_SMALL, *flags])
    document = json.loads(path.read_text())
    columns = _present(["torch", "cpuaccel"])
    assert document["columns"] == columns
    (row,) = document["rows"]
    assert set(row["times"]) == set(columns)
    if name == "bf16":
        assert all(20 < row["sqnr_db"][column] < 80 for column in columns)
    assert f"models in {name}" in capsys.readouterr().out


def test_compiled_columns_end_to_end(tmp_path):
    path = tmp_path / "out.json"
    engines = ["torchscript", "inductor", "cpuaccel+compile"]
    fp32.main([*_SMALL, "--engines", ",".join(engines), "--json", str(path)])
    (row,) = json.loads(path.read_text())["rows"]
    expected = engines if not _compiled.backend_missing() else engines[:2]
    assert set(row["times"]) == set(expected)


def test_dynamic_lengths_end_to_end(tmp_path, capsys):
    if _compiled.backend_missing():
        pytest.skip(_compiled.backend_missing())
    path = tmp_path / "out.json"
    flags = ["--model", _TINY, "--lengths", "9,17", "--rounds", "1", "--json", str(path)]
    dynamic.main([*flags, "--layers", "1", "--engines", "cpuaccel+dynamic"])
    document = json.loads(path.read_text())
    assert [row["name"] for row in document["rows"]] == ["1 x 9", "1 x 17"]
    printed = capsys.readouterr().out
    assert "cpuaccel+dynamic: 1 compilations of the graph" in printed
    # Parts for each length: two, or four if this CPU's table leaves attention to torch.
    passes = r"plans made: [24] in the first pass over the sizes, 0 in the second"
    assert re.search(passes, " ".join(printed.split()))


def test_cold_compiles_end_to_end(tmp_path, capsys):
    if _compiled.backend_missing():
        pytest.skip(_compiled.backend_missing())
    path = tmp_path / "out.json"
    flags = ["--models", _TINY, "--rounds", "1", "--json", str(path)]
    cold_compile.main([*flags, "--engines", "cpuaccel"])
    ((run,),) = (row["runs"]["cpuaccel"] for row in json.loads(path.read_text())["rows"])
    assert run["cpu"] > 0
    assert sum(run["parts"].values()) == pytest.approx(run["wall"])
    assert all(seconds > 0 for seconds in run["parts"].values())
    assert "bert-tiny, cpuaccel: Dynamo" in capsys.readouterr().out


def test_saved_models_end_to_end(tmp_path, capsys):
    if _compiled.backend_missing():
        pytest.skip(_compiled.backend_missing())
    path = tmp_path / "out.json"
    saved_load.main(["--models", _TINY, "--rounds", "1", "--json", str(path)])
    ((run,),) = (row["runs"] for row in json.loads(path.read_text())["rows"])
    assert set(run) == set(saved_load.COLUMNS)
    assert all(run[way][clock] > 0 for way in run for clock in ("wall", "cpu"))
    assert "bert-tiny: the file has" in capsys.readouterr().out


def test_new_sizes_end_to_end(tmp_path, capsys):
    if _compiled.backend_missing():
        pytest.skip(_compiled.backend_missing())
    path = tmp_path / "out.json"
    flags = ["--models", _TINY, "--sizes", "9,17,12", "--rounds", "2", "--turns", "3"]
    new_sizes.main([*flags, "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["name"] for row in rows] == [f"{_TINY} {size}" for size in (9, 17, 12)]
    assert all(set(row["times"]) == set(new_sizes.COLUMNS) for row in rows)
    assert "3 more sizes" in capsys.readouterr().out


def test_peak_memory_end_to_end(tmp_path, capsys):
    if _compiled.backend_missing():
        pytest.skip(_compiled.backend_missing())
    path = tmp_path / "out.json"
    peak_memory.main(["--models", _TINY, "--batch", "64", "--json", str(path)])
    found = json.loads(path.read_text())
    # 64 rows of 128 tokens; each has at least a hidden vector (32) and an inner one (64) of floats.
    assert found["bytes"][_TINY]["eager"] > 64 * 128 * (32 + 64) * 4
    assert found["bytes"][_TINY]["plan"] > 0
    assert "plan of eager" in capsys.readouterr().out


def test_unknown_models_and_engines(capsys):
    for flags, known in (
        (["--models", "nothing"], "unknown model 'nothing'; known: bert-base"),
        (["--engines", "nothing"], "unknown engine 'nothing'; known: torch"),
    ):
        with pytest.raises(SystemExit):
            fp32.main(flags)
        assert known in capsys.readouterr().err


@pytest.mark.parametrize("name", _float_models.TEXT)
def test_encoders_have_the_sizes_of_their_models(name):
    with torch.device("meta"):
        from benchmarks._bert import CONFIGS, Bert

        model = Bert(CONFIGS[name])
    millions = sum(each.numel() for each in model.parameters()) / 1e6
    assert millions == pytest.approx({"bert-base": 108.9, "minilm-l6": 22.6}[name], abs=0.1)


def test_what_the_plugin_lacks_is_left_out(monkeypatch):
    if _plugin.missing():
        pytest.skip("cpuaccel is not installed")
    import cpuaccel

    for name in ("prepack", "fastmath"):
        monkeypatch.setattr(cpuaccel, name, None, raising=False)
        monkeypatch.delattr(cpuaccel, name)
    _, notes = choose([], _float_columns.columns(mode("fp32")))
    assert "not measured: cpuaccel+prepack: cpuaccel has no prepack" in notes
    _, notes = choose([], _float_columns.columns(mode("fastmath")))
    assert any("cpuaccel has no fastmath" in note for note in notes)


def test_what_the_plugin_has_is_run(monkeypatch):
    if _plugin.missing():
        pytest.skip("cpuaccel is not installed")
    import cpuaccel

    packed, entered = [], []

    @contextmanager
    def fastmath():
        entered.append(True)
        yield

    monkeypatch.setattr(cpuaccel, "prepack", packed.append, raising=False)
    monkeypatch.setattr(cpuaccel, "fastmath", fastmath, raising=False)
    columns, _ = choose(["cpuaccel+prepack"], _float_columns.columns(mode("fastmath")))
    job = Job(nn.Linear(4, 4), [], torch.ones(2, 4))
    row, _ = time_job("m", job, columns, rounds=1, budget=0.0)
    assert set(row.samples) == {"cpuaccel+prepack"}
    assert len(packed) == 1
    assert packed[0] is not job.model
    assert entered


def test_a_model_is_cast_anew_at_each_call():
    """A longer autocast block would cache the casts."""
    model, entered = nn.Linear(4, 4), []

    @contextmanager
    def within():
        entered.append(True)
        yield

    run = _float_columns._eager(Job(model, [], torch.ones(2, 4)), within)
    run()
    run()
    assert len(entered) == 2


def test_torch_s_switches_are_put_back():
    switch = torch.backends.mkldnn.matmul
    before = switch.fp32_precision
    with mode("fastmath").torch():
        assert switch.fp32_precision == "bf16"
    assert switch.fp32_precision == before
    assert [each.name for each in MODES] == ["fp32", "bf16", "bfloat16", "fastmath"]


def test_zentorch_needs_avx512(monkeypatch):
    monkeypatch.setattr(_machine, "features", lambda: ["avx2"])
    assert "AVX-512" in _zentorch.missing()


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_train_step_end_to_end(name, tmp_path, capsys):
    path = tmp_path / "out.json"
    train_step.main([*_SMALL, "--mode", name, "--json", str(path)])
    (row,) = json.loads(path.read_text())["rows"]
    losses = list(row["loss"].values())
    assert len(losses) == len(_present(["torch", "cpuaccel"]))
    assert losses == pytest.approx([losses[0]] * len(losses), rel=0.02)
    assert "training step" in capsys.readouterr().out


def test_training_changes_its_own_copy():
    model, x = nn.Linear(4, 4), torch.ones(2, 4)
    before = [each.clone() for each in model.parameters()]
    training = train_step.Training(model, x, mode("fp32").torch)
    assert float(training.step()) > float(training.step()) > 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_matmul_end_to_end(dtype, tmp_path, capsys, monkeypatch):
    shapes = (ProductShape("m", 3, 8, 5, bias=True), ProductShape("m", 1, 8, 5, bias=False))
    monkeypatch.setattr(matmul, "SHAPES", shapes)
    monkeypatch.setattr(matmul, "meter", lambda dtype: lambda: MachinePeaks(1e11, 1e10, 0))
    path = tmp_path / "out.json"
    matmul.main(["--dtype", dtype, "--rounds", "1", "--json", str(path)])
    document = json.loads(path.read_text())
    assert [row["name"] for row in document["shapes"]] == [shape.name for shape in shapes]
    for row in document["shapes"]:
        assert set(row["times"]) == set(_present(["torch", "cpuaccel"]))
        assert row["bound_ms"] > 0
    assert "m 3x8x5" in capsys.readouterr().out


def test_matmul_without_matching_shapes():
    with pytest.raises(SystemExit, match="expected a part of a shape's name, got 'nothing'"):
        matmul.main(["--filter", "nothing"])


def test_shapes_of_products():
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)
    assert {shape.M for shape in SHAPES} == {1, 16, 128, 1024}
    square = SHAPES[-1]
    assert square.flops == 2 * 1024**3
    assert square.bytes(torch.float32) == 2 * square.bytes(torch.bfloat16) == 12 * 2**20
    result = ProductShape("m", 3, 8, 5, bias=True).runner(torch.bfloat16)()
    assert (result.shape, result.dtype) == ((3, 5), torch.bfloat16)


def _rate(shape: str, work: float) -> KernelResult:
    return KernelResult("peaks", shape, "r", "i", 1.0, 1.0, 1.0, 3, work, "", 0.0, 0.0)


def test_bounds_are_the_slower_of_arithmetic_and_memory():
    peaks = _peaks.of_results(
        [
            _rate("fp32", 50e9),
            _rate("fp32", 25e9),
            _rate("read memory", 20e9),
            _rate("read L1", 1e12),
        ],
        "fp32",
    )
    cache = _machine.last_cache()
    assert 2**18 <= cache < 2**32
    assert peaks == MachinePeaks(100e9, 20e9, cache)
    assert peaks.bound(200 * 10**9, 0) == pytest.approx(2.0)
    assert peaks.bound(0, 40 * 10**9) == pytest.approx(2.0)
    assert peaks.bound(1000, cache) == pytest.approx(1e-8)
    assert peaks.best(MachinePeaks(1.0, 30e9, 0)) == MachinePeaks(100e9, 30e9, cache)
    assert MachinePeaks(0.0, 1.0, 0).bound(1, 1) is None


def test_the_program_is_asked_for_peaks_only(monkeypatch):
    asked: list[argparse.Namespace] = []

    def run(program, options):
        asked.append(options)
        return [_rate("fp32", 1e9), _rate("read memory", 1e9)]

    monkeypatch.setattr(_peaks.kernels, "_build", lambda: "program")
    monkeypatch.setattr(_peaks.kernels, "_run", run)
    measure = _peaks.meter(torch.float32)
    assert measure is not None
    assert measure() == MachinePeaks(2e9, 1e9, _machine.last_cache())
    assert asked[0].family == "peaks"
    assert _peaks.meter(torch.bfloat16) is None


def test_learning_end_to_end(tmp_path, capsys):
    if _compiled.backend_missing():
        pytest.skip(_compiled.backend_missing())
    path = tmp_path / "out.json"
    with setting("learn", True):
        learning.main(["--models", _TINY, "--seconds", "1", "--rounds", "2", "--json", str(path)])
    document = json.loads(path.read_text())
    assert [row["name"] for row in document["rows"]] == [f"{_TINY} float32"]
    assert set(document["rows"][0]["times"]) == set(learning.COLUMNS)
    assert "probes took" in capsys.readouterr().out
    assert not any(key.startswith("learned ") for key in load().tuning_results())


def test_sixteen_bits_end_to_end(tmp_path, monkeypatch, capsys):
    if _plugin.missing():
        pytest.skip(_plugin.missing())
    monkeypatch.setattr(sixteen_bits, "QUERIES", 5)
    monkeypatch.setattr(sixteen_bits, "CONVOLUTIONS", ((4, 4, 3, 5),))
    path = tmp_path / "out.json"
    sixteen_bits.main(["--rounds", "1", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert rows[-1]["name"] == "3x3 4->4 at 5x5, training"
    assert all(len(row["times"]) == 6 for row in rows)
    assert "times as long as fp32" in capsys.readouterr().out
