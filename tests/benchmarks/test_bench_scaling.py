"""The benchmark that predicts scaling, and the simulated cores that it runs on."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import _plugin
from benchmarks.gnn import hubs
from benchmarks.models import scaling
from benchmarks.models._compiled import backend_missing
from benchmarks.models._scaling_steps import Call, StepTime
from benchmarks.simulation import cores
from tests._process import run_python

_ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs LD_PRELOAD"),
    pytest.mark.skipif(cores.compiler() is None, reason="needs a C++ compiler"),
]

_SAME_BITS = """
import sys
import torch
sys.path.append({root!r})
import cpuaccel
from benchmarks._quantize import quiet
from benchmarks.models import _named
from benchmarks.simulation.cores import Cost, Simulation

torch.set_num_threads({threads})
with quiet(), torch.inference_mode():
    for name in {models}:
        model, x = _named.build(name), _named.inputs(name, 2)
        plan = cpuaccel.optimize(model, (x,), time_budget=0)
        expected = plan(x)
        simulation = Simulation()
        simulation.start({threads}, 1.0)
        for noting, cost in ((True, Cost.MEASURED), (False, Cost.LONGEST), (False, Cost.MEAN)):
            simulation.call(cost, noting=noting)
            assert torch.equal(plan(x), expected), name
        assert simulation.regions() > 0
        assert simulation.unsupported() == 0
        simulation.stop()
        assert torch.equal(plan(x), expected)
print("same")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The compiled library."""
    return cores.build(tmp_path_factory.mktemp("simulation"))


@pytest.mark.skipif(bool(backend_missing()), reason="needs plans")
@pytest.mark.parametrize("threads", [3, 7, 32])
def test_simulated_cores_compute_the_same_bits(library, tmp_path, threads):
    code = _SAME_BITS.format(
        root=str(_ROOT), threads=threads, models=("bert-tiny", "resnet18", "mobilenet_v2-int8")
    )
    environment = cores.environment(library, tmp_path / "tuning")
    assert run_python(code, CPUACCEL_DETERMINISTIC="1", **environment) == "same"


_CLOCK = """
import sys, time
import torch
sys.path.append({root!r})
from benchmarks.simulation.cores import Cost, Simulation

x = torch.zeros(1 << 22)
simulation = Simulation()
simulation.start(4, 0.0)
times = {{}}
for cost in (Cost.COUNTED, Cost.MEASURED):
    simulation.call(cost)
    began = time.perf_counter()
    x.add_(1)
    times[cost] = time.perf_counter() - began
    assert simulation.regions() == 1
cpu = time.process_time()
simulation.call(Cost.MEASURED)
began = time.perf_counter()
for _ in range(20):
    x.add_(1)
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
assert 0.02 <= times[Cost.COUNTED] < 0.04, times
assert seconds < 0.6 * cpu, (seconds, cpu)
print("ok")
"""


def test_the_clock_counts_the_longest_share(library, tmp_path):
    code = _CLOCK.format(root=str(_ROOT))
    assert run_python(code, **cores.environment(library, tmp_path / "tuning")) == "ok"


@pytest.mark.skipif(bool(backend_missing()), reason="needs plans")
def test_scaling_end_to_end(tmp_path, capsys):
    path = tmp_path / "out.json"
    scaling.main(
        [
            *("--models", "bert-tiny", "--batch", "2", "--sequence", "5", "--rounds", "2"),
            *("--threads", "3", "--bandwidth-gbs", "100", "--barrier-us", "2"),
            *("--json", str(path)),
        ]
    )
    (model,) = json.loads(path.read_text())["models"]
    one, three = model["predictions"]
    assert (one["threads"], three["threads"]) == (1, 3)
    assert one["efficiency"] == pytest.approx(1)
    assert model["calls"]["3"]["steps"]
    assert "steps that lose most on 3 threads" in capsys.readouterr().out


@pytest.mark.skipif(bool(_plugin.missing()), reason="needs cpuaccel")
def test_one_core_has_no_time_between_cores(monkeypatch):
    monkeypatch.setattr(scaling.os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.setattr(scaling, "compiler", lambda: "c++")
    monkeypatch.setattr(scaling, "backend_missing", lambda: "")
    with pytest.raises(SystemExit, match="--barrier-us: expected a number"):
        scaling.main([])


def test_hubs_end_to_end(capsys):
    hubs.main(["--models", "gat_attention", "--threads", "3", "--edges", "2000", "--rounds", "1"])
    assert "gat_attention" in capsys.readouterr().out


def test_prediction_is_bound_by_bandwidth():
    step = StepTime("MatMul", "gemm", "", regions=1, serial=1.0, longest=30.0, mean=20.0)
    outside = StepTime("outside of steps", "", "", 0, 4.0, 0.0, 0.0)
    one = Call([StepTime("MatMul", "gemm", "", 0, 100.0, 0.0, 0.0)], outside, 8_000, 0)
    many = Call([step], outside, 8_000, 0)
    machine = scaling.Machine(0.05, None, 10.0, 100.0)
    assert many.microseconds(machine.barrier(4)) == pytest.approx(35.2)
    assert scaling._predict(one, many, 4, machine).efficiency == pytest.approx(104 / 4 / 35.2)
    slow = scaling.Machine(0.05, None, 0.01, None)
    limited = scaling._predict(one, many, 4, slow)
    assert limited.microseconds == limited.limit == pytest.approx(200)
    assert limited.of_bound == 1
